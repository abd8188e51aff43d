//! The `data` of events about questions of the agent and their answers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::DecidedBy;
use crate::event::ApprovalOption;
use crate::hook::{HookEvent, HookOrigin};
use crate::ids::{RequestId, RuleId};
use crate::state::ElicitationAction;

/// The agent requests a permission. Includes the fields of a tool call, as far as
/// the request has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", schema(as = ApprovalRequested))]
pub struct ApprovalRequestedEvent {
    /// Id of the request.
    pub request_id: RequestId,
    /// The kind, always `tool.call`.
    pub kind: String,
    /// The subject, for display.
    pub message: String,
    /// The possible answers; empty if the request's data is lost.
    pub options: Vec<ApprovalOption>,
    /// The `call` of the agent's request for a file or a terminal, if the client asks
    /// instead of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_call: Option<u64>,
    /// The session that asks, if it is not the worker's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The agent's title of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
}

impl ApprovalRequestedEvent {
    /// Returns the data of a request that the daemon creates itself.
    #[must_use]
    pub fn of_daemon(request_id: RequestId, message: String, options: Vec<ApprovalOption>) -> Self {
        Self {
            request_id,
            kind: "tool.call".to_owned(),
            message,
            options,
            client_call: None,
            session_id: None,
            session_title: None,
        }
    }
}

/// The agent asks its user: a form to fill in, or a link to follow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", schema(as = ElicitationRequested))]
pub struct ElicitationRequestedEvent {
    /// Id of the request.
    pub request_id: RequestId,
    /// The kind, always `elicitation`.
    pub kind: String,
    /// The subject, for display.
    pub message: String,
    /// `form`, `url`, or another name of the agent's; absent if the request's data is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The tool call that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The session that asks, if it is not the worker's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The agent's title of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_title: Option<String>,
    /// For a form: the agent's JSON schema; null if it is unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// For a link: its address; null if it is not a web address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Value>,
    /// For a link: its id in the agent's later completion notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
}

/// An elicitation was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", schema(as = ElicitationAnswered))]
pub struct ElicitationAnsweredEvent {
    /// Id of the request.
    pub request_id: RequestId,
    /// `accept`, `decline` or `cancel`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub action: ElicitationAction,
    /// The names of the filled fields, never the values.
    pub fields: Vec<String>,
    /// The reason, if a cancel of the turn answered it.
    #[serde(default)]
    pub reason: Option<String>,
    /// What answered it: `owner`, `deadline` or `cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub by: Option<DecidedBy>,
}

/// A permission request was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", schema(as = ApprovalDecided))]
pub struct ApprovalDecidedEvent {
    /// Id of the request.
    pub request_id: RequestId,
    /// The decision as it was given.
    pub decision: String,
    /// The option sent to the agent, or `cancelled`.
    pub option_id: String,
    /// The option in lower case.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub alias: Option<String>,
    /// The note of the decision.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub note: Option<String>,
    /// What decided it: `owner`, `rule`, `deadline` or `cancel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub by: Option<DecidedBy>,
    /// The rule created from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<AddedRule>,
    /// The deciding rule; absent if a person, a hook or a cancel decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<DecidingRule>,
    /// The deciding hook; its reason is the note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<DecidingHook>,
}

/// A rule created from a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AddedRule {
    /// Id of the rule.
    pub rule_id: RuleId,
    /// The condition, as `TOOL(PATTERN)`.
    pub rule: String,
    /// `allow` or `deny`, as text.
    pub action: String,
    /// `worker` or `controller`, as text.
    pub scope: String,
}

/// The hook that decided a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecidingHook {
    /// The event it was asked for.
    pub event: HookEvent,
    /// Command line of the hook.
    pub command: String,
    /// The file that contains it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub file: PathBuf,
    /// Origin of the hook.
    pub origin: HookOrigin,
}

/// The result of a rule for a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DecidingRule {
    /// `allow` or `deny`, as text.
    pub action: String,
    /// The kind of call: `execute`, `edit`, ...
    pub kind: String,
    /// The command, path, address or agent, at most 1,000 characters; null if unknown.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub subject: Option<String>,
    /// The rule, as `TOOL(PATTERN)`; null if no rule was needed.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub rule: Option<String>,
    /// `definition`, `config` or `owner`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// The file of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Line number in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// For a rule of a worker above: the names from the root to that worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<String>>,
    /// The reason, if the rule alone does not explain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The agent did something without asking that a rule denies; the turn is canceled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PolicyViolated {
    /// The agent's id of the call.
    pub tool_call_id: String,
    /// The proof of the call: a change, an output, or its report as completed without a request.
    pub evidence: String,
    /// The denied call and its rule.
    #[serde(flatten)]
    pub decided: DecidingRule,
}

/// A request that can no longer be decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOver {
    /// Id of the request.
    pub request_id: RequestId,
    /// Reason for its end.
    pub reason: String,
}
