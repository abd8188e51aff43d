//! The items of a transcript, rendered. Pure.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use subagent_protocol::api::{StoryItem, StoryKind, TranscriptShown};
use subagent_protocol::clean::{clean, one_line};
use subagent_protocol::json::extend;
use subagent_protocol::lenient::{self, Lenient, ObjectField};
use subagent_protocol::tool_content::{PlanReport, PlanStep, ToolCallReport, ToolContent};

use crate::render::{MarkupNode, ansi, head, markdown, patch, tail};

/// Bytes of a message or thought that are shown: its end.
pub(crate) const MAX_TEXT_BYTES: usize = 256 * 1024;
/// Bytes of one input or text of a tool call that are shown.
const MAX_INPUT_BYTES: usize = 16 * 1024;
/// Parts of a tool call's content that are shown.
const MAX_PARTS: usize = 50;

/// A page of a transcript, rendered.
pub(crate) fn page(shown: &TranscriptShown) -> Value {
    let items: Vec<Value> = shown.items.iter().map(item).collect();
    json!({"items": items, "before": shown.before, "cursor": shown.cursor})
}

fn is_text(kind: StoryKind) -> bool {
    matches!(kind, StoryKind::User | StoryKind::Agent | StoryKind::Thought)
}

/// The text of an item as blocks, and how many bytes at its beginning are left out.
pub(crate) fn blocks_of(item: &StoryItem) -> Option<(Vec<MarkupNode>, usize)> {
    let (shown, left_out) = tail(&item.text, MAX_TEXT_BYTES);
    is_text(item.kind).then(|| (markdown::blocks(shown), left_out))
}

/// An item as a page shows it.
fn item(item: &StoryItem) -> Value {
    let mut shown = without_blocks(item);
    if let Some((blocks, left_out)) = blocks_of(item) {
        extend(&mut shown, [("blocks", json!(blocks)), ("leftOut", left_out.into())]);
    }
    shown
}

pub(crate) fn without_blocks(item: &StoryItem) -> Value {
    let mut shown = json!({
        "id": item.event_id, "ts": item.ts, "turn": item.turn_id, "kind": item.kind, "session": item.session_id,
    });
    let more = match item.kind {
        StoryKind::Tool => tool(&item.data),
        StoryKind::Plan => json!({"entries": entries(&item.data)}),
        StoryKind::Question => question(&item.data),
        StoryKind::TurnEnd => end(&item.data),
        _ => Value::Null,
    };
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

fn shown(text: Lenient<&str>) -> Option<String> {
    text.0.map(one_line).filter(|line| !line.is_empty())
}

pub(crate) fn tool(data: &Map<String, Value>) -> Value {
    let call = ToolCallReport::of(data);
    let ShownOutput { terminal_output, terminal_exit, raw_input, raw_output } =
        ShownOutput::deserialize(data).unwrap_or_default();
    let place =
        |place: &ToolContent<'_>| Some(json!({"path": one_line(place.path.0?), "line": place.line.0}));
    let places: Vec<Value> = call.locations.iter().filter_map(place).take(MAX_PARTS).collect();
    let mut parts: Vec<Value> = call.content.into_iter().filter_map(part).take(MAX_PARTS).collect();
    if let Some(output) = terminal_output.0 {
        parts.push(printed(output));
    }
    if parts.is_empty()
        && let Some(output) = raw_output.as_ref().and_then(raw)
    {
        parts.push(printed(&output));
    }
    json!({
        "title": shown(call.title), "tool": shown(call.tool_kind), "status": shown(call.status),
        "command": shown(call.command), "places": places, "parts": parts, "exit": terminal_exit.0.exit_code.0,
        "input": match data.contains_key("command") {
            true => None,
            false => raw_input.filter(|input| says_more(input, data)).as_ref().and_then(raw).map(|input| clean(head(&input, MAX_INPUT_BYTES).0).into_owned()),
        },
    })
}

/// Whether an input has more in it than the title of its call.
fn says_more(input: &Value, data: &Map<String, Value>) -> bool {
    let title = data.get("title");
    input.as_object().is_none_or(|fields| fields.values().any(|value| Some(value) != title))
}

/// A value as text: words as they are, anything else as JSON.
fn raw(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        other => serde_json::to_string_pretty(other).ok(),
    }
}

fn printed(text: &str) -> Value {
    let (spans, left_out) = ansi::spans(text);
    json!({"part": "output", "spans": spans, "leftOut": left_out})
}

/// A part of what a tool call reports: a diff, text, or what it is if it cannot be shown.
fn part(content: ToolContent<'_>) -> Option<Value> {
    let ToolContent { kind, old_text: Lenient(old), new_text, path, content, .. } = content;
    match kind.0? {
        "diff" => {
            let patch = patch::of_edit(old.unwrap_or_default(), new_text.0.unwrap_or_default());
            let path = one_line(path.0.unwrap_or_default());
            Some(json!({"part": "diff", "path": path, "new": old.is_none(), "patch": patch}))
        }
        "content" => match content.kind.0? {
            "text" => Some(printed(content.text.0?)),
            other => {
                Some(json!({"part": "note", "text": format!("({} that is not shown here)", one_line(other))}))
            }
        },
        _ => None,
    }
}

/// What a call printed, as an event has it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ShownOutput<'a> {
    #[serde(borrow)]
    terminal_output: Lenient<&'a str>,
    terminal_exit: ObjectField<StoryExit>,
    raw_input: Option<Value>,
    raw_output: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoryExit {
    exit_code: Lenient<i64>,
}

/// A question, or the end of one.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoryQuestion<'a> {
    #[serde(borrow)]
    request_id: Lenient<&'a str>,
    event: Lenient<&'a str>,
    command: Lenient<&'a str>,
    title: Lenient<&'a str>,
    url: Lenient<&'a str>,
    message: Lenient<&'a str>,
    decision: Lenient<&'a str>,
    action: Lenient<&'a str>,
    by: Lenient<&'a str>,
    note: Lenient<&'a str>,
    reason: Lenient<&'a str>,
    #[serde(deserialize_with = "lenient::present")]
    policy: Option<ObjectField<StoryRule<'a>>>,
    #[serde(deserialize_with = "lenient::present")]
    always: Option<ObjectField<StoryRule<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct StoryRule<'a> {
    #[serde(borrow)]
    pub(crate) rule: Lenient<&'a str>,
}

/// The end of a turn.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoryEnd<'a> {
    #[serde(borrow)]
    event: Lenient<&'a str>,
    reason: Lenient<&'a str>,
    stop_reason: Lenient<&'a str>,
    error: ObjectField<StoryError<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoryError<'a> {
    #[serde(borrow)]
    code: Lenient<&'a str>,
    message: Lenient<&'a str>,
}

/// The steps of a plan.
fn entries(data: &Map<String, Value>) -> Vec<Value> {
    let PlanReport { entries } = PlanReport::deserialize(data).unwrap_or_default();
    let entry = |PlanStep { content, status }| {
        Some(json!({"text": one_line(content.0?), "status": status.0.map(one_line)}))
    };
    entries.into_iter().filter_map(entry).take(500).collect()
}

fn question(data: &Map<String, Value>) -> Value {
    let said = StoryQuestion::deserialize(data).unwrap_or_default();
    let about = [said.command, said.title, said.url].into_iter().find_map(shown);
    let became = said.always.is_some();
    let rule = said.policy.or(said.always).and_then(|policy| policy.0.rule.0);
    json!({
        "request": said.request_id.0, "event": said.event.0, "about": about,
        "message": shown(said.message), "decision": shown(said.decision).or_else(|| shown(said.action)),
        "by": shown(said.by), "rule": rule.map(one_line), "became": became,
        "note": shown(said.note), "reason": shown(said.reason),
    })
}

fn end(data: &Map<String, Value>) -> Value {
    let StoryEnd { event, reason, stop_reason, error } = StoryEnd::deserialize(data).unwrap_or_default();
    json!({
        "event": event.0, "reason": shown(reason).or_else(|| shown(stop_reason)),
        "code": error.0.code.0, "error": error.0.message.0.map(one_line),
    })
}
