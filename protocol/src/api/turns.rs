//! Turns: sending, waiting, canceling.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::queue::IfBusy;
use crate::attachment::Attachment;
use crate::bytes64::Bytes64;
use crate::definition::AgentChange;
use crate::event::{Event, EventType};
use crate::ids::{EventId, RequestId, TurnId, WorkerId};
use crate::mcp::McpServers;
use crate::message_text::ParagraphBreak;
use crate::state::{WorkerState, words};

words! {
    /// What the daemon plays instead of having the agent work: to try scripts out, on any worker that is idle.
    Simulation {
        /// A turn that is completed at once.
        Turn = "turn",
        /// A turn that asks for a permission and ends with the answer.
        Approval = "approval",
    }
}

/// `POST /v1/workers/{id}/turns`: sends a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SendTurn {
    /// The text; a blank one sends only the blocks.
    pub text: String,
    /// Further content blocks of ACP.
    #[serde(default)]
    pub blocks: Vec<Value>,
    /// Files that go along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Only simulate the turn; no agent hears of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulate: Option<Simulation>,
    /// What becomes of it if the worker is busy; absent: it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_busy: Option<IfBusy>,
    /// The definition that the worker has from this turn on. Not for a simulated turn, nor for the worker of a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentChange>>,
    /// The agent's whole environment, as in `worker start`: after `ENV_REQUIRED`. Only taken if the daemon has none, and
    /// no part of what the idempotency key stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<(Bytes64, Bytes64)>>,
    /// The agent's MCP servers, with `env`.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
}

/// Data of `turn.accepted`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnAccepted {
    /// The worker.
    pub worker_id: WorkerId,
    /// The new turn.
    pub turn_id: TurnId,
    /// The worker's state.
    pub state: WorkerState,
    /// The worker's last event at acceptance.
    pub event_id: EventId,
    /// The `message.sent` event, or the `turn.queued` of a message that waits: the cursor to wait from.
    pub accepted_event_id: EventId,
    /// The permission request of a turn that was sent to simulate one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// The place in the queue of a turn that waits (`turn.queued`), from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// Whether the queue is paused, so that nothing of it is begun until somebody resumes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The name of the definition that was sent along; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_definition: Option<String>,
    /// Whether the agent is started again for the message, which reaches it after that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_agent: bool,
}

/// `POST /v1/workers/{id}/wait`: waits for an event.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitRequest {
    /// What for, in the words of `--until`; none is the default set.
    #[serde(default)]
    pub until: Option<String>,
    /// The cursor: only later events count. It wins over `include_history`.
    #[serde(default)]
    pub from_event_id: Option<String>,
    /// Without a cursor: from the beginning instead of from now.
    #[serde(default)]
    pub include_history: bool,
    /// How long, in seconds; 0 for ever.
    #[serde(default)]
    pub timeout_seconds: f64,
    /// How long without any event, in seconds; 0 for ever.
    #[serde(default)]
    pub no_progress_timeout_seconds: f64,
    /// Also collect the agent's text of this turn after the cursor, and end with its failure whatever is waited for.
    #[serde(default)]
    pub collect_turn: Option<TurnId>,
    /// Only events of this turn, which may still be in the queue, count. The wait also ends when the turn is dropped or the
    /// queue is paused while it waits there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_turn: Option<TurnId>,
}

/// Data of a wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// The first event that matched.
    pub matched_event: Event,
    /// The worker's state now.
    pub state: WorkerState,
    /// The line breaks in `assistantText` that join paragraphs before and after tool calls. Without them the text is what
    /// the agent sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paragraph_breaks: Vec<ParagraphBreak>,
    /// The agent's text of the turn that was asked for, up to the match; null without any.
    pub assistant_text: Option<String>,
    /// Whether the text had become too long and its rest is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assistant_text_truncated: bool,
    /// Its last piece.
    pub last_assistant_chunk: Option<String>,
}

/// Data of `event.latest`: the newest event of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LatestEvent {
    /// The worker.
    pub worker_id: WorkerId,
    /// The event in short (`eventId`, `type`, `turnId`, `ts`); null before the first one.
    pub event: Value,
}

/// `GET /v1/events/latest`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LatestOfAll {
    /// The newest event of all workers in short (`eventId`, `type`, `turnId`, `ts`); null before the first one.
    pub event: Value,
}

/// `POST /v1/workers/{id}/cancel`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelTurn {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Cancel a session that the worker's agent runs below its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelChildSession {
    /// The agent's id of it.
    pub session_id: String,
}

/// Data of `childSession.canceled`: the agent was told. What becomes of the session it tells by itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildSessionCanceled {
    /// The worker.
    pub worker_id: WorkerId,
    /// The agent's id of the session.
    pub session_id: String,
}

/// Data of `turn.canceled`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnCanceled {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its state now.
    pub state: WorkerState,
    /// The event that ended the turn.
    pub event_id: EventId,
    /// The turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Whether the agent did not obey in time and was ended by force; the next message starts it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Whether the turn had ended before the cancel reached it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_terminal: bool,
    /// How it had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_event_type: Option<EventType>,
}
