//! Transcripts: the events of a worker as a story.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{EventId, TurnId, WorkerId};
use crate::state::words;
use crate::time::Timestamp;

words! {
    /// What an item of a transcript is.
    StoryKind {
        /// A message to the agent.
        User = "user",
        /// A message of the agent.
        Agent = "agent",
        /// What the agent thinks.
        Thought = "thought",
        /// A tool call, with all that its updates say.
        Tool = "tool",
        /// The last plan of a turn.
        Plan = "plan",
        /// A permission request or another question, and how it ended.
        Question = "question",
        /// The end of a turn.
        TurnEnd = "turn_end",
    }
}

/// An item of a transcript. Two lists of items that follow one another are joined: a text goes on, and a tool call, plan
/// or question is updated by its `key`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StoryItem {
    /// The first event of the item.
    pub event_id: EventId,
    /// When that was written.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ts: Timestamp,
    /// The turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// What it is.
    pub kind: StoryKind,
    /// What updates of the item have in common: the id of the tool call or question, or the turn of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The session below the worker's own that the item is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The text of a message or thought.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// For other items: the data of their events, the newest value of each field. A question has the type of its last event
    /// in `event`, and so has the end of a turn.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub data: Map<String, Value>,
}

/// Data of `transcript.shown`: a page of a worker's transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TranscriptShown {
    /// The worker.
    pub worker_id: WorkerId,
    /// The items, the oldest first.
    pub items: Vec<StoryItem>,
    /// `before` of the page before; null if this page is the first one.
    pub before: Option<EventId>,
    /// The newest event in this page: the worker's stream goes on behind it; null without an event.
    pub cursor: Option<EventId>,
}
