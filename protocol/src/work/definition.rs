//! The resolved definition of an agent, as it is sent and stored. It is resolved once, when its
//! worker starts; later changes of its file have no effect.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::options::Options;
use crate::policy::PolicyLayer;

/// Maximum length of a definition's prompt with its skills, in bytes.
pub const MAX_PROMPT_BYTES: usize = 1024 * 1024;

/// The definition of a worker's agent, apart from its launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    /// Name of the definition.
    pub name: String,
    /// `command`, `project`, `user` or `built_in`; `caller` for a task without a definition.
    pub level: String,
    /// The file of the definition, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Text added to the agent's own prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// The preferred model by id or name, used if the agent offers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The mode of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Keys of the definition without effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_honoured: Vec<NotHonoured>,
}

/// Another definition for a worker with a session, resolved by the caller. Its rules replace those
/// of the former definition; rules from config, flags and decisions stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentChange {
    /// The agent as the definition describes it.
    pub agent: AgentSpec,
    /// The rules of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<PolicyLayer>,
    /// Mode and model from the launcher's config, for definitions without them.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub configured: Options,
    /// Absolute workspace of its rules; only for a worker without rules so far.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub workspace: PathBuf,
    /// The owner's home, for `~/` and `$HOME/` in its rules; only for a worker
    /// without rules so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub home: Option<PathBuf>,
}

/// A key of a definition without effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NotHonoured {
    /// Name of the key.
    pub key: String,
    /// Its value, as written.
    pub value: Value,
    /// Why it has no effect.
    pub reason: String,
}

/// The part of the definition for a runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Instructions {
    /// Name of the agent.
    pub name: String,
    /// Text added to the agent's own prompt; may be empty.
    pub prompt: String,
    /// Whether the session to be restored contains it already.
    #[serde(rename = "told")]
    pub delivered: bool,
    /// Whether it replaces an earlier one that the session may contain.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub replaces: bool,
    /// The preferred model, used if offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Instructions {
    /// Returns the prompt as the block before the user's text.
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

    /// Returns the prompt as ACP's `systemPrompt`.
    #[must_use]
    pub fn system_prompt(&self) -> Value {
        json!({"mode": "append", "content": [{"type": "text", "text": self.prompt}]})
    }
}

/// Whether a prompt that ended with this `stopReason` is part of the session's context. According
/// to ACP, a canceled one may be missing and a refused one is missing.
#[must_use]
pub fn is_kept(stop_reason: Option<&str>) -> bool {
    !matches!(stop_reason, Some("cancelled" | "refusal"))
}
