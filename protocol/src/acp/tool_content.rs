//! What an agent reports of a tool call or a plan: ACP's `ToolCall`, `ToolCallContent`,
//! `ToolCallLocation` and `Plan`. A field that is missing or has another type is unknown.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::lenient::{self, Lenient};

/// A tool call, or an update of one: ACP's, or that of an event.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolCallReport<'a> {
    /// ACP's `sessionUpdate`: `tool_call` or `tool_call_update`.
    #[serde(borrow)]
    pub session_update: Lenient<&'a str>,
    /// The agent's id of the call.
    pub tool_call_id: Lenient<&'a str>,
    /// The agent's title of the call.
    pub title: Lenient<&'a str>,
    /// Name of the tool, from agents that send it.
    pub name: Lenient<&'a str>,
    /// ACP's `kind`: `edit`, `execute`, ...
    pub kind: Lenient<&'a str>,
    /// The same in an event.
    pub tool_kind: Lenient<&'a str>,
    /// ACP's `status`: `pending`, `completed`, ...
    pub status: Lenient<&'a str>,
    /// The command line, in an event.
    pub command: Lenient<&'a str>,
    /// What the call shows: diffs, texts, terminals.
    #[serde(deserialize_with = "lenient::objects")]
    pub content: Vec<ToolContent<'a>>,
    /// The places of files that it touches.
    #[serde(deserialize_with = "lenient::objects")]
    pub locations: Vec<ToolContent<'a>>,
}

impl<'a> ToolCallReport<'a> {
    /// Reads the members of a call.
    #[must_use]
    pub fn of(call: &'a Map<String, Value>) -> Self {
        Self::deserialize(call).unwrap_or_default()
    }
}

/// An update of the plan.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlanReport<'a> {
    /// The steps of the plan.
    #[serde(borrow, deserialize_with = "lenient::objects")]
    pub entries: Vec<PlanStep<'a>>,
}

/// A step of the plan.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlanStep<'a> {
    /// What the step does.
    #[serde(borrow)]
    pub content: Lenient<&'a str>,
    /// `pending`, `in_progress` or `completed`.
    pub status: Lenient<&'a str>,
}

/// A part of what a call reports: a diff, text, or the place of a file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolContent<'a> {
    /// ACP's `type`: `diff`, `content`, `terminal`; absent for a place.
    #[serde(borrow, rename = "type")]
    pub kind: Lenient<&'a str>,
    /// Path of a diff or of a place.
    pub path: Lenient<&'a str>,
    /// Line of a place.
    pub line: Lenient<u64>,
    /// What a diff removes; absent for a new file.
    pub old_text: Lenient<&'a str>,
    /// What a diff adds.
    pub new_text: Lenient<&'a str>,
    /// Text outside of a block, from agents that send none.
    pub text: Lenient<&'a str>,
    /// The block of `content`.
    #[serde(deserialize_with = "lenient::object")]
    pub content: ToolBlock<'a>,
}

/// A content block of a tool call.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ToolBlock<'a> {
    /// ACP's `type`: `text`, `image`, ...
    #[serde(borrow, rename = "type")]
    pub kind: Lenient<&'a str>,
    /// The text of a block of text.
    pub text: Lenient<&'a str>,
}
