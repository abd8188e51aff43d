//! The definition of an agent as it travels and is stored: resolved once, at the start of its worker. Nothing that is
//! changed in its file afterwards changes anything of the worker.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::options::Options;
use crate::policy::PolicyLayer;

/// The longest prompt of a definition with its skills, in bytes.
pub const MOST_PROMPT_BYTES: usize = 1024 * 1024;

/// What a worker is besides its launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    /// Its name.
    pub name: String,
    /// `command`, `project`, `user` or `built_in`; `caller` of a task that has no definition.
    pub level: String,
    /// The file of the definition, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What is added to the agent's own prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// The model that it should have where the agent offers it, by its id or its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The mode of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What of the definition is not carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_honoured: Vec<NotHonoured>,
}

/// Another definition for a worker that has a session, resolved by the caller. Its rules take the place of those of the
/// definition before; what the config, flags and decisions say stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentChange {
    /// The definition.
    pub agent: AgentSpec,
    /// Its rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<PolicyLayer>,
    /// Mode and model that the config has for the launcher: for a definition without them.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub configured: Options,
    /// The workspace of its rules, absolute; only for a worker that has no rules yet.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub workspace: PathBuf,
    /// The owner's home, for `~/` and `$HOME/` in its rules; only for a worker that has no rules yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub home: Option<PathBuf>,
}

/// A key of a definition that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NotHonoured {
    /// The key.
    pub key: String,
    /// Its value, as it was written.
    pub value: Value,
    /// Why.
    pub reason: String,
}

/// What a runtime is told of the definition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Instructions {
    /// The agent's name.
    pub name: String,
    /// What is added to the agent's own prompt; nothing of one without.
    pub prompt: String,
    /// Whether the session that is to be restored holds it already.
    pub told: bool,
    /// Whether it takes the place of an earlier one that the session may hold.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// The model that it should have, if it is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Instructions {
    /// The prompt as it stands before what the user says.
    #[must_use]
    pub fn block(&self) -> Value {
        let Self { name, prompt, .. } = self;
        let what = match self.replaces {
            true => {
                "These are your instructions from now on. Instructions that were given in such a block before do not \
                 hold any more. What follows is the next message.\n"
            }
            false => {
                "These are your instructions for this whole session. What follows is the first message.\n"
            }
        };
        let text = format!("<agent_instructions agent=\"{name}\">\n{prompt}\n</agent_instructions>\n{what}");
        json!({"type": "text", "text": text})
    }

    /// The same as ACP's `systemPrompt`.
    #[must_use]
    pub fn system_prompt(&self) -> Value {
        json!({"mode": "append", "content": [{"type": "text", "text": self.prompt}]})
    }
}

/// Whether a prompt that was answered with this `stopReason` is part of what the agent knows of its session from then on.
/// One that was canceled need not be, and one that was refused is not, as ACP says.
#[must_use]
pub fn is_kept(stop_reason: Option<&str>) -> bool {
    !matches!(stop_reason, Some("cancelled" | "refusal"))
}
