//! Turns: sending, waiting, canceling.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::queue::IfBusy;
use crate::attachment::Attachment;
use crate::bytes64::Bytes64;
use crate::data::workers::UnreachableState;
use crate::definition::AgentChange;
use crate::event::{Event, EventType};
use crate::ids::{EventId, RequestId, TurnId, WorkerId};
use crate::mcp::McpServers;
use crate::message_text::ParagraphBreak;
use crate::state::{WorkerState, words};

words! {
    /// What the daemon simulates instead of an agent's work, to test scripts on any idle worker.
    Simulation {
        /// A turn that completes at once.
        Turn = "turn",
        /// A turn that requests a permission and ends with the answer.
        Approval = "approval",
    }
}

/// `POST /v1/workers/{id}/turns`: sends a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SendTurn {
    /// The text; if blank, only the blocks are sent.
    pub text: String,
    /// Further content blocks of ACP.
    #[serde(default)]
    pub blocks: Vec<Value>,
    /// Files that are attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Only simulate the turn, without an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulate: Option<Simulation>,
    /// What happens if the worker is busy; absent: the message is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_busy: Option<IfBusy>,
    /// The worker's definition from this turn on. Not for simulated turns or workers of tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Box<AgentChange>>,
    /// The agent's whole environment, as in `worker start`, after `ENV_REQUIRED`. Used only if the
    /// daemon has none, and not part of the request's fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<(Bytes64, Bytes64)>>,
    /// The agent's MCP servers, sent with `env`.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
}

/// Data of the response `turn.accepted`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnAccepted {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Id of the new turn.
    pub turn_id: TurnId,
    /// State of the worker.
    pub state: WorkerState,
    /// The worker's last event at acceptance.
    pub event_id: EventId,
    /// The `message.sent` event, or `turn.queued` for a queued message: the cursor to wait from.
    pub accepted_event_id: EventId,
    /// The permission request, for a turn that simulates one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// Position in the queue of a queued turn (`turn.queued`), from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// Whether the queue is paused, so that nothing starts until it is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Name of the definition that was sent with it; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_definition: Option<String>,
    /// Whether the agent is restarted for the message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_agent: bool,
    /// Since when the worker's place does not answer: the message is stored, and given to the agent
    /// when the place answers. Absent while it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<UnreachableState>,
}

/// `POST /v1/workers/{id}/wait`: waits for an event.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitRequest {
    /// The awaited events, in the syntax of `--until`; absent: the default set.
    #[serde(default)]
    pub until: Option<String>,
    /// The cursor: only later events count. Takes precedence over `include_history`.
    #[serde(default)]
    pub from_event_id: Option<String>,
    /// Without a cursor: from the beginning instead of from now.
    #[serde(default)]
    pub include_history: bool,
    /// Time limit in seconds; 0: none.
    #[serde(default)]
    pub timeout_seconds: f64,
    /// Time limit without any event in seconds; 0: none.
    #[serde(default)]
    pub no_progress_timeout_seconds: f64,
    /// Also collect the agent's text of this turn after the cursor, and end with its
    /// failure in any case.
    #[serde(default)]
    pub collect_turn: Option<TurnId>,
    /// Only events of this turn count, which may still be queued. The wait also ends if the turn is
    /// dropped, or if the queue is paused while it waits there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_turn: Option<TurnId>,
}

/// Data of a wait's response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// The first event that matched.
    pub matched_event: Event,
    /// State of the worker now.
    pub state: WorkerState,
    /// The line breaks in `assistantText` that join paragraphs around tool calls. Without them the
    /// text is what the agent sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paragraph_breaks: Vec<ParagraphBreak>,
    /// The agent's text of the requested turn, up to the match; null without any.
    pub assistant_text: Option<String>,
    /// Whether the text was too long and was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assistant_text_truncated: bool,
    /// The last piece of the text.
    pub last_assistant_chunk: Option<String>,
}

/// Data of `event.latest`: the newest event of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LatestEvent {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// The event in short (`eventId`, `type`, `turnId`, `ts`); null before the first one.
    pub event: Value,
}

/// `GET /v1/events/latest`: the newest event of all workers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LatestOfAll {
    /// The newest event of all workers in short (`eventId`, `type`, `turnId`, `ts`); null
    /// before the first one.
    pub event: Value,
}

/// `POST /v1/workers/{id}/cancel`: cancels the open turn.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelTurn {
    /// The only turn to cancel: `TURN_NOT_OPEN` if another one or none is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Reason for the cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Cancels a session below the agent's own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelChildSession {
    /// The agent's id of it.
    pub session_id: String,
}

/// Data of `childSession.canceled`: the agent was notified. It reports the session's end itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChildSessionCanceled {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// The agent's id of the session.
    pub session_id: String,
}

/// Data of the response `turn.canceled`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnCanceled {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// State of the worker now.
    pub state: WorkerState,
    /// The event that ended the turn.
    pub event_id: EventId,
    /// Id of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Whether the agent ignored the cancel and was ended by force; the next message restarts it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// Whether the turn had ended before the cancel reached it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_terminal: bool,
    /// How it had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_event_type: Option<EventType>,
}
