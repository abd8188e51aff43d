//! Transcripts: the events of a worker in readable form.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{EventId, TurnId, WorkerId};
use crate::state::words;
use crate::time::Timestamp;

words! {
    /// The kind of a transcript item.
    StoryKind {
        /// A message to the agent.
        User = "user",
        /// A message of the agent.
        Agent = "agent",
        /// A thought of the agent.
        Thought = "thought",
        /// A tool call with the data of all its updates.
        Tool = "tool",
        /// The last plan of a turn.
        Plan = "plan",
        /// A permission request or another question, with its result.
        Question = "question",
        /// The end of a turn.
        TurnEnd = "turn_end",
    }
}

/// An item of a transcript. Consecutive lists are joined: texts are concatenated, and a tool call,
/// plan or question is updated by its `key`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StoryItem {
    /// The first event of the item.
    pub event_id: EventId,
    /// Time of that event.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ts: Timestamp,
    /// Id of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Kind of the item.
    pub kind: StoryKind,
    /// The common key of its updates: the id of the tool call or question, or the turn of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The session below the worker's own that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The text of a message or thought.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// For other items: the data of their events, the newest value of each field. A question and
    /// the end of a turn have the type of their last event in `event`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub data: Map<String, Value>,
}

/// Data of `transcript.shown`: a page of a worker's transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TranscriptShown {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// The items, oldest first.
    pub items: Vec<StoryItem>,
    /// `before` of the previous page; null for the first page.
    pub before: Option<EventId>,
    /// The newest event of this page, after which the worker's stream continues;
    /// null without an event.
    pub cursor: Option<EventId>,
}
