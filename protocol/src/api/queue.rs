//! What waits for its turn, and turns as they are looked at.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bytes64::Bytes64;
use crate::error::Error;
use crate::ids::{EventId, TurnId, WorkerId};
use crate::mcp::McpServers;
use crate::state::{Dispatched, QueuePause, WorkerState, words};
use crate::time::Timestamp;

/// So many messages may wait for one worker, unless its launcher says otherwise.
pub const QUEUE_LIMIT: u32 = 100;
/// And at most so many, whatever it says.
pub const MOST_QUEUE_LIMIT: u32 = 1_000;

words! {
    /// What becomes of a message to a worker that is busy. To one that is idle it is just sent.
    IfBusy {
        /// It is refused.
        Reject = "reject",
        /// It waits behind all others.
        Queue = "queue",
        /// It goes before all others, and the open turn is canceled.
        Steer = "steer",
    }
}

words! {
    /// How far a turn is.
    TurnProgress {
        /// Its message waits.
        Queued = "queued",
        /// It was begun and has not ended.
        Open = "open",
        /// It ended well.
        Completed = "completed",
        /// It failed.
        Failed = "failed",
        /// It was canceled.
        Canceled = "canceled",
    }
}

/// What waits for a worker, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// How many messages wait.
    pub length: usize,
    /// Whether they wait for somebody to resume the queue.
    pub paused: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<QueuePause>,
}

/// A turn as it is listed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnView {
    /// The turn.
    pub turn_id: TurnId,
    /// How far it is.
    pub status: TurnProgress,
    /// Its place in the queue, from 1; absent of a turn that does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// The text of its message; in a list its beginning. Null where it is not kept any more.
    pub text: Option<String>,
    /// Whether the text has more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub text_truncated: bool,
    /// When it was put into the queue; absent of a turn that does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_at: Option<Timestamp>,
    /// When it was begun.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// Data of `turn.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnList {
    /// The worker.
    pub worker_id: WorkerId,
    /// What it is doing.
    pub state: WorkerState,
    /// What waits, in short.
    pub queue: QueueView,
    /// The last turns that have ended, then the open one, then those that wait, in their order.
    pub items: Vec<TurnView>,
    /// How many.
    pub count: usize,
}

/// Data of `turn.shown`: all that is kept of one turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnShown {
    /// The worker.
    pub worker_id: WorkerId,
    /// The turn.
    #[serde(flatten)]
    pub turn: TurnView,
    /// The instance of the owner who put it into the queue, if he said who he was; absent of a turn that does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    /// Whether its prompt was sent.
    pub dispatched: Dispatched,
    /// The content blocks of its message.
    pub blocks: Vec<Value>,
    /// What is known of how it ended: the data of that event.
    pub end: Option<Value>,
    /// What it came to; absent as long as it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TurnResult>,
}

/// The result of a turn that has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnResult {
    /// The final message: the agent's text after its last tool call, or, without any, all of its text. Null if the agent
    /// has said nothing, or its text is not kept any more.
    pub message: Option<String>,
    /// Whether the message is longer than 1 MiB and its rest is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub message_truncated: bool,
    /// Why the agent ended the turn, in its own word.
    pub stop_reason: Option<String>,
    /// The tokens that the agent reported.
    pub usage: Option<Value>,
    /// Why the turn failed.
    pub error: Option<Value>,
}

/// Data of `turn.dropped`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnDropped {
    /// The worker.
    pub worker_id: WorkerId,
    /// The turn that does not wait any more.
    pub turn_id: TurnId,
    /// The event that says so.
    pub event_id: EventId,
    /// What waits now.
    pub queue: QueueView,
}

/// `POST /v1/turns/{turn}/move`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MoveTurn {
    /// The place that it is to have, from 1; behind the last is the last.
    pub to: u32,
}

/// Data of `turn.moved`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnMoved {
    /// The worker.
    pub worker_id: WorkerId,
    /// The turn.
    pub turn_id: TurnId,
    /// Its place now.
    pub position: usize,
}

/// `POST /v1/turns/{turn}/retry` and `POST /v1/workers/{worker}/queue/resume`: what may need an agent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct GoOn {
    /// The agent's whole environment, as in `worker start`: after `ENV_REQUIRED`. Only taken if the daemon has none, and
    /// no part of what the idempotency key stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<(Bytes64, Bytes64)>>,
    /// The agent's MCP servers, with `env`.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
}

/// Data of `queue.resumed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct QueueResumed {
    /// The worker.
    pub worker_id: WorkerId,
    /// What it is doing now.
    pub state: WorkerState,
    /// Whether the queue was paused.
    pub resumed: bool,
    /// The turn that was begun by it.
    pub turn_id: Option<TurnId>,
    /// What waits now.
    pub queue: QueueView,
}

/// The refusal of what is only possible while a message waits.
#[must_use]
pub fn not_queued(turn_id: &str) -> Error {
    use crate::Code;
    Error::new(Code::TurnNotQueued, "the turn does not wait in a queue; what is open is ended with `cancel`")
        .with("turnId", turn_id)
}
