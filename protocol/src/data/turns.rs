//! The `data` of events about turns and their messages.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tasks::EndedTask;
use crate::error::Error;
use crate::ids::TurnId;
use crate::state::QueuePause;

/// A turn was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnStarted {
    /// Id of the turn.
    pub turn_id: TurnId,
    /// Its input; null for a turn known only from its journal.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub input: Option<TurnInput>,
    /// True for a turn known only from its journal, after a restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<bool>,
}

/// The input of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnInput {
    /// Text of the message.
    pub text: String,
    /// Number of further content blocks.
    pub blocks_count: u64,
    /// The task whose end it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<EndedTask>,
}

/// The message of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageSent {
    /// Text of the message.
    pub text: String,
    /// The further content blocks.
    pub blocks: Vec<Value>,
    /// The attachments, without their content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<Attached>>,
    /// The definition that came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The task whose end it reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<EndedTask>,
}

/// An attachment of a message, without its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Attached {
    /// The file's name for display.
    pub name: String,
    /// Original location, as `file://...`.
    pub uri: String,
    /// MIME type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Length of the file in bytes.
    pub size: u64,
    /// `text`, `image`, `audio` or `link`.
    pub kind: String,
    /// SHA-256 of the content that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// A piece of the agent's text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProgressMessage {
    /// The role, always `assistant`.
    pub role: String,
    /// Text of the piece.
    pub text: String,
}

/// A turn ended with success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnCompleted {
    /// Id of the turn.
    pub turn_id: TurnId,
    /// `completed`; after a simulated request `approved` or `rejected`.
    pub outcome: String,
    /// The state, always `idle`.
    pub state: String,
    /// ACP's `stopReason`, in the agent's spelling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Numbers of tokens by name.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

impl TurnCompleted {
    /// Returns the data of a completed turn without a report of the agent.
    #[must_use]
    pub fn new(turn_id: TurnId, outcome: &str) -> Self {
        Self {
            turn_id,
            outcome: outcome.to_owned(),
            state: "idle".to_owned(),
            stop_reason: None,
            usage: None,
        }
    }
}

/// A turn ended with a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnFailed {
    /// Id of the turn.
    pub turn_id: TurnId,
    /// Error of the turn.
    pub error: Error,
}

/// A turn was canceled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", schema(as = TurnCanceled))]
pub struct TurnCanceledEvent {
    /// Id of the turn.
    pub turn_id: TurnId,
    /// Reason for the cancel.
    pub reason: String,
    /// True if the agent ignored the cancel and was ended by force; the next message restarts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<bool>,
}

/// A message was queued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnQueued {
    /// Id of its future turn.
    pub turn_id: TurnId,
    /// Position in the queue, from 1.
    pub position: u64,
}

/// A queued message was removed without being sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", schema(as = TurnDropped))]
pub struct TurnDroppedEvent {
    /// Id of the turn that was dropped.
    pub turn_id: TurnId,
    /// Reason for the drop.
    pub reason: String,
}

/// Queued messages are not sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueuePaused {
    /// Reason for the pause.
    pub reason: QueuePause,
    /// Number of queued messages.
    pub length: u64,
    /// The turn that caused the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
}

/// Queued messages are sent again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = QueueResumed))]
pub struct QueueResumedEvent {
    /// Number of queued messages, including the one that starts now.
    pub length: u64,
}
