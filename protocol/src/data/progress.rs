//! The fields of a `progress.update` by kind. Absent ones were not sent, or with another type.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON object as an agent sent it.
pub type Object = Map<String, Value>;

/// New data about a tool call from an update or a permission request. Readers merge the updates
/// with the same `toolCallId`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The call's id in all its updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The call's title for display.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// ACP's `kind`: `read`, `edit`, `execute`, ..., or another name of the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_kind: Option<String>,
    /// ACP's `pending`, `in_progress`, `completed`, `failed`, or another name of the agent's;
    /// `unknown` for a call closed by the end of its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The files it is about: objects with `path` and optionally `line`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub locations: Option<Vec<Object>>,
    /// ACP's blocks: `content`, `diff`, `terminal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub content: Option<Vec<Object>>,
    /// The tool's input: any value except null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Value>,
    /// The command line in the input, as a shell would read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The tool's output: any value except null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Value>,
    /// A command's output since the last update, from agents that run commands themselves and
    /// report it in `_meta`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_output: Option<String>,
    /// How that command ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_exit: Option<TerminalExit>,
    /// `turn_end`: the call was still open at the end of its turn; its outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<&'static str>,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TerminalExit {
    /// Exit code, if it exited.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub exit_code: Option<i64>,
    /// The agent's name of the signal that ended it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
}

/// The whole present plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Plan))]
pub struct PlanEntries {
    /// Objects with `content`, `priority`, `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub entries: Option<Vec<Object>>,
}

/// A piece of text.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Text {
    /// The text of this piece.
    pub text: String,
}

/// A piece of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Chunk {
    /// The content block as in ACP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub content: Option<Object>,
}

/// The usage of the context.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Number of tokens in the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub used: Option<serde_json::Number>,
    /// Size of the context in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub size: Option<serde_json::Number>,
    /// Cost of the session: `amount` and `currency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub cost: Option<Object>,
}

/// The mode of the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Mode {
    /// Id of the present mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_mode_id: Option<String>,
}

/// The commands that may start a prompt.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AvailableCommands {
    /// Objects with `name`, `description`, `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub available_commands: Option<Vec<Object>>,
}

/// The options of the session and their values.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigOptions {
    /// ACP's option objects, verbatim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub config_options: Option<Vec<Object>>,
}

/// The agent's information about the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Title of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Time of its change, as the agent writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

/// A notice of the agent to its user.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notice {
    /// ACP's `info`, `warning`, `error`, or another name of the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// The notice in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Details of the notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The agent compacts its context.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// The compaction's id in all its updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction_id: Option<String>,
    /// The agent's name of its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// ACP's blocks with the whole summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub summary: Option<Vec<Object>>,
    /// Why the compaction failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A piece of a summary.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompactionSummary {
    /// Id of the compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction_id: Option<String>,
    /// The content block as in ACP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub content: Option<Object>,
}

/// A piece of the history that an agent repeats when it loads a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Replayed {
    /// The original update: its `kind` (`message` for the agent's text) and the
    /// fields of that kind.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub update: Object,
}

/// An update whose kind has no fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Nothing {}
