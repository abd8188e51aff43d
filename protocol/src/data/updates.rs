//! Further fields of a `progress.update`, by kind; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

use serde_json::Value;

use super::progress::{
    AvailableCommands, Chunk, Compaction, CompactionSummary, ConfigOptions, Mode, Notice, PlanEntries,
    Replayed, SessionInfo, Text, ToolCall, Usage,
};
use super::schema::{NamedSchema, named};
use super::workers::SessionOpened;
use crate::client::{ExitStatus, RequestFailure};
use crate::error::Error;
use crate::options::Current;
use crate::record::NoiseReason;

/// Returns the kinds of a `progress.update` with the type of their fields.
/// Other kinds have none.
pub(super) fn kinds() -> Vec<(&'static str, NamedSchema)> {
    vec![
        ("tool_call", named::<ToolCall>()),
        ("tool_call_update", named::<ToolCall>()),
        ("plan", named::<PlanEntries>()),
        ("thought", named::<Text>()),
        ("user_message", named::<Text>()),
        ("agent_message_chunk", named::<Chunk>()),
        ("usage", named::<Usage>()),
        ("mode", named::<Mode>()),
        ("mode", named::<OptionOutcome>()),
        ("available_commands", named::<AvailableCommands>()),
        ("config_option", named::<ConfigOptions>()),
        ("config_option", named::<OptionOutcome>()),
        ("session_info", named::<SessionInfo>()),
        ("notice", named::<Notice>()),
        ("compaction", named::<Compaction>()),
        ("compaction_summary", named::<CompactionSummary>()),
        ("replayed", named::<Replayed>()),
        ("session", named::<SessionOpened>()),
        ("notification", named::<OtherNotification>()),
        ("noise", named::<NoiseEvent>()),
        ("fs", named::<ClientCall>()),
        ("terminal", named::<ClientCall>()),
    ]
}

/// The result of setting a session option, in addition to the fields of the kind. Absent for
/// the agent's own changes.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct OptionOutcome {
    /// `mode`, `model` or the config option's id.
    option: Option<String>,
    /// The requested value: a text, true or false.
    value: Option<Value>,
    /// Whether the agent accepted it.
    applied: Option<bool>,
    /// The error of a failure.
    error: Option<Error>,
    /// The values that the agent reports now.
    current: Option<Current>,
}

/// Any other notification of the agent.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct OtherNotification {
    /// For `elicitation/complete`: id of the link.
    elicitation_id: Option<String>,
}

/// An agent's client request for a file or a terminal: the request, its outcome, or the
/// end of a command.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
struct ClientCall {
    /// `requested`; then `completed`, `failed` or `canceled`; `exited` for the end of a command.
    status: String,
    /// Number that links request and outcome; restarts in each runtime.
    call: Option<u64>,
    /// The file, as the agent wrote it.
    path: Option<String>,
    /// Number of the first requested line.
    line: Option<u64>,
    /// Number of requested lines.
    limit: Option<u64>,
    /// Number of bytes written, read or shown.
    bytes: Option<u64>,
    /// The command of a terminal.
    command: Option<String>,
    /// Arguments of the command.
    args: Option<Vec<String>>,
    /// Working folder of the command.
    cwd: Option<String>,
    /// The requested output limit in bytes.
    output_byte_limit: Option<u64>,
    /// Id of the terminal, once it exists.
    terminal_id: Option<String>,
    /// How its command ended.
    exit_status: Option<ExitStatus>,
    /// The error returned to the agent.
    error: Option<RequestFailure>,
    /// Number of bytes the command had printed.
    output_bytes: Option<u64>,
    /// The end of the output, at most 4 KiB.
    tail: Option<String>,
}

/// A line that is not a message.
#[derive(utoipa::ToSchema)]
#[schema(as = Noise)]
struct NoiseEvent {
    /// Why the line was rejected.
    reason: NoiseReason,
    /// Length of the line in bytes.
    bytes: u64,
    /// CRC-32C of the line.
    digest: String,
    /// Beginning of the line.
    head: String,
}
