//! The fields of a `progress.update`, kind by kind. What is absent was not said, or not with this type.

use serde::Serialize;
use serde_json::{Map, Value};

/// A JSON object as an agent sent it.
pub type Object = Map<String, Value>;

/// What an update, or a permission request, says of a tool call: only what is new. The updates of one `toolCallId` are
/// put together by whoever wants to see the call.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Names the call in all its updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// What to call it for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// ACP's `kind`: `read`, `edit`, `execute`, ..., or another word of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_kind: Option<String>,
    /// ACP's `pending`, `in_progress`, `completed`, `failed`, or another word of the agent; `unknown` of one that was
    /// closed by the end of its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Files that it is about: objects with `path` and perhaps `line`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub locations: Option<Vec<Object>>,
    /// ACP's blocks: `content`, `diff`, `terminal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub content: Option<Vec<Object>>,
    /// What the agent gave to its tool: anything but null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<Value>,
    /// The command line in it, as a shell would read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What the tool gave back: anything but null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<Value>,
    /// What a command printed since the update before, of an agent that runs its commands itself and says it in `_meta`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_output: Option<String>,
    /// How that command ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_exit: Option<TerminalExit>,
    /// `turn_end`: the agent left the call open when its turn ended; how it went on is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<&'static str>,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TerminalExit {
    /// Its exit code, if it exited.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub exit_code: Option<i64>,
    /// The signal that ended it, in the agent's word.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
}

/// The whole plan as it is now.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Plan {
    /// Objects with `content`, `priority`, `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub entries: Option<Vec<Object>>,
}

/// A piece of text.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Text {
    /// The text.
    pub text: String,
}

/// A piece of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Chunk {
    /// ACP's block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub content: Option<Object>,
}

/// How much of the context is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Tokens that are in the context.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub used: Option<serde_json::Number>,
    /// Tokens that fit into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub size: Option<serde_json::Number>,
    /// What the session has cost: `amount` and `currency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub cost: Option<Object>,
}

/// The mode of the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Mode {
    /// The one that is on now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_mode_id: Option<String>,
}

/// The commands that a prompt may begin with.
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
    /// ACP's objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub config_options: Option<Vec<Object>>,
}

/// What the agent calls the session.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it was changed, as the agent writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
}

/// Something that the agent wants people to know.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notice {
    /// ACP's `info`, `warning`, `error`, or another word of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// The news in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// More of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The agent makes its context shorter.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    /// Names it in all its updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction_id: Option<String>,
    /// How far it is, in the agent's word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// ACP's blocks: the whole summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub summary: Option<Vec<Object>>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A piece of a summary.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompactionSummary {
    /// Of which compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction_id: Option<String>,
    /// ACP's block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub content: Option<Object>,
}

/// A piece of the history that an agent repeats when it loads a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Replayed {
    /// What it was: its `kind` (`message` for text of the agent) and that kind's fields.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub update: Object,
}

/// An update whose kind has no fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Nothing {}
