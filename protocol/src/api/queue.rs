//! Queued messages, and views of turns.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bytes64::Bytes64;
use crate::error::Error;
use crate::ids::{EventId, TurnId, WorkerId};
use crate::mcp::McpServers;
use crate::state::{Dispatched, ParkReason, QueuePause, UnparkReason, WorkerState, words};
use crate::time::Timestamp;

/// Maximum number of queued messages per worker, unless its launcher sets another one.
pub const QUEUE_LIMIT: u32 = 100;
/// Upper bound for the launcher's setting.
pub const MAX_QUEUE_LIMIT: u32 = 1_000;

words! {
    /// What happens to a message for a busy worker. An idle one gets it at once.
    IfBusy {
        /// The message is refused.
        Reject = "reject",
        /// It waits behind all others.
        Queue = "queue",
        /// It precedes all others, and the open turn is canceled.
        Steer = "steer",
    }
}

words! {
    /// The progress of a turn.
    TurnProgress {
        /// Its message is queued.
        Queued = "queued",
        /// It has started and not ended.
        Open = "open",
        /// It ended with success.
        Completed = "completed",
        /// It ended with a failure.
        Failed = "failed",
        /// It ended by a cancel.
        Canceled = "canceled",
    }
}

/// A worker's queue in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// Number of queued messages.
    pub length: usize,
    /// Whether the queue waits for a resume.
    pub paused: bool,
    /// Why it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<QueuePause>,
}

/// A worker to whose agent nothing is sent for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ParkedView {
    /// Until when; then it goes on by itself.
    pub until: Timestamp,
    /// Why nothing is sent to the agent.
    pub reason: ParkReason,
}

/// Data of `worker.parked`: nothing is sent to the agent for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerParked {
    /// When the worker goes on by itself.
    pub until: Timestamp,
    /// Why nothing is sent to the agent.
    pub reason: ParkReason,
    /// The turn that failed for it, or that waits because its prompt was never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Which wait in a row this is without a time of reset, from 1; absent if the agent reported a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<u32>,
}

/// Data of `worker.unparked`: the worker goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerUnparked {
    /// Why the worker goes on.
    pub reason: UnparkReason,
}

/// A turn as it is listed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnView {
    /// Id of the turn.
    pub turn_id: TurnId,
    /// Progress of the turn.
    pub status: TurnProgress,
    /// Position in the queue, from 1; absent for a turn that is not queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// Text of its message, in lists only the beginning. Null if it is no longer kept.
    pub text: Option<String>,
    /// Whether the text is longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub text_truncated: bool,
    /// Time when it was queued; absent for a turn that is not queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<Timestamp>,
    /// Start of the turn.
    pub started_at: Option<Timestamp>,
    /// End of the turn.
    pub ended_at: Option<Timestamp>,
}

/// Data of the response `turn.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnList {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// State of the worker.
    pub state: WorkerState,
    /// Its queue in short.
    pub queue: QueueView,
    /// The last ended turns, then the open one, then queued ones in order.
    pub items: Vec<TurnView>,
    /// Number of the turns.
    pub count: usize,
}

/// Data of `turn.shown`: all stored data about one turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnShown {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// The turn in short.
    #[serde(flatten)]
    pub turn: TurnView,
    /// The ownership of the sender, if its handle was sent; absent for a turn that is not queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Whether its prompt was sent to the agent.
    pub dispatched: Dispatched,
    /// The content blocks of its message.
    pub blocks: Vec<Value>,
    /// The data of the event that ended it.
    pub end: Option<Value>,
    /// Its result; absent until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TurnResult>,
}

/// The result of a turn that has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnResult {
    /// The final message: the agent's text after its last tool call, or all of its text without
    /// any. Null if the agent wrote no text, or it is no longer kept.
    pub message: Option<String>,
    /// Whether the message exceeds 1 MiB and was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub message_truncated: bool,
    /// The agent's reason for ending the turn.
    pub stop_reason: Option<String>,
    /// The tokens that the agent reported.
    pub usage: Option<Value>,
    /// Why the turn failed.
    pub error: Option<Value>,
}

/// Data of the response `turn.dropped`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnDropped {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// The turn that is no longer queued.
    pub turn_id: TurnId,
    /// The event that reports it.
    pub event_id: EventId,
    /// The queue after the change.
    pub queue: QueueView,
}

/// `POST /v1/turns/{turn}/move`: moves a queued turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MoveTurn {
    /// New position from 1; values beyond the end mean the last.
    pub to: u32,
}

/// Data of the response `turn.moved`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnMoved {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Id of the turn.
    pub turn_id: TurnId,
    /// The turn's new position.
    pub position: usize,
}

/// `POST /v1/turns/{turn}/retry` and `POST /v1/workers/{worker}/queue/resume`, which
/// may need an agent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GoOn {
    /// The agent's whole environment, as in `worker start`, after `ENV_REQUIRED`. Used only if the
    /// daemon has none, and not part of the request's fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<(Bytes64, Bytes64)>>,
    /// The agent's MCP servers, sent with `env`.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
}

/// Data of the response `queue.resumed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueResumed {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// State of the worker now.
    pub state: WorkerState,
    /// Whether the queue was paused.
    pub resumed: bool,
    /// Whether the worker was parked.
    #[serde(default)]
    pub unparked: bool,
    /// The turn that this has started.
    pub turn_id: Option<TurnId>,
    /// The queue after the change.
    pub queue: QueueView,
}

/// The error for operations that require a queued message.
#[must_use]
pub fn not_queued(turn_id: &str) -> Error {
    use crate::Code;
    Error::new(Code::TurnNotQueued, "the turn is not queued; end an open turn with `cancel`")
        .with("turnId", turn_id)
}
