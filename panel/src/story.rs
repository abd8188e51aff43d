//! The transcript of one worker, rendered: pages of it, and what each event changes. Pure.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use subagent_model::{append, item_of};
use subagent_protocol::api::{StoryItem, StoryKind, TranscriptShown};
use subagent_protocol::clean::{clean, one_line};
use subagent_protocol::event::Event;
use subagent_protocol::ids::{EventId, WorkerId};
use subagent_protocol::json::extend;
use subagent_protocol::lenient::{self, Lenient, ObjectField};
use subagent_protocol::tool_content::{PlanReport, PlanStep, ToolCallReport, ToolContent};

use crate::render::{MarkupNode, ansi, head, markdown, patch};

/// Items that are kept to be updated; older ones do not change any more.
const MAX_ITEMS: usize = 1000;
/// Bytes of one input or text of a tool call that are shown.
const MAX_INPUT_BYTES: usize = 16 * 1024;
/// Parts of a tool call's content that are shown.
const MAX_PARTS: usize = 50;

/// A page of a transcript, rendered.
pub(crate) fn page(shown: &TranscriptShown) -> Value {
    let items: Vec<Value> = shown.items.iter().map(item).collect();
    json!({"items": items, "before": shown.before, "cursor": shown.cursor})
}

/// The newest part of a transcript, which goes on.
pub(crate) struct PageStory {
    worker: WorkerId,
    items: Vec<StoryItem>,
    /// The blocks of texts that flow, as they were sent: only what has changed is sent again.
    sent: HashMap<EventId, Vec<MarkupNode>>,
}

impl PageStory {
    pub(crate) fn new(shown: TranscriptShown) -> Self {
        let TranscriptShown { worker_id: worker, items, .. } = shown;
        Self { worker, items, sent: HashMap::new() }
    }

    /// Takes the next event; gives the item that it has changed.
    pub(crate) fn take(&mut self, event: &Event) -> Option<Value> {
        // The stream of a worker also has events of the tasks below it.
        if event.worker_id != self.worker {
            return None;
        }
        let new = item_of(event)?;
        let (kind, key, session) = (new.kind, new.key.clone(), new.session_id.clone());
        let count = self.items.len();
        append(&mut self.items, new);
        let changed = match key {
            Some(key) if self.items.len() == count => self.items.iter().rev().find(|item| {
                item.kind == kind && item.key.as_ref() == Some(&key) && item.session_id == session
            }),
            _ => self.items.last(),
        }?;
        let mut shown = without_blocks(changed);
        if let Some(now) = blocks_of(changed) {
            let before = self.sent.entry(changed.event_id).or_default();
            let same = before.iter().zip(&now).take_while(|(one, other)| one == other).count();
            extend(&mut shown, [("from", same.into()), ("blocks", json!(&now[same..]))]);
            *before = now;
        }
        self.forget();
        Some(shown)
    }

    fn forget(&mut self) {
        if self.items.len() > 2 * MAX_ITEMS {
            for old in self.items.drain(..MAX_ITEMS) {
                self.sent.remove(&old.event_id);
            }
        }
    }
}

/// What was sent of an item's text.
#[derive(Default, Deserialize)]
#[serde(default)]
struct SentBlocks {
    from: Lenient<u64>,
    blocks: Lenient<Vec<Value>>,
}

/// Puts a later state of an item in the place of an earlier one that was not sent.
pub(crate) fn merge(known: &mut Value, later: Value) {
    let earlier = known.take();
    *known = later;
    let (earlier, later): (SentBlocks, SentBlocks) = (lenient::read(&earlier), lenient::read(known));
    let (Some(first), Some(from)) = (earlier.from.0, later.from.0) else { return };
    // Blocks are counted from the beginning: those before `from` stay as the earlier state has them.
    let kept = from.saturating_sub(first);
    if let (Some(before), Some(after)) = (earlier.blocks.0, later.blocks.0) {
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        let blocks: Vec<Value> = before.into_iter().take(kept).chain(after).collect();
        extend(known, [("from", first.min(from).into()), ("blocks", blocks.into())]);
    }
}

fn is_text(kind: StoryKind) -> bool {
    matches!(kind, StoryKind::User | StoryKind::Agent | StoryKind::Thought)
}

fn blocks_of(item: &StoryItem) -> Option<Vec<MarkupNode>> {
    is_text(item.kind).then(|| markdown::blocks(&item.text))
}

/// An item as a page shows it.
fn item(item: &StoryItem) -> Value {
    let mut shown = without_blocks(item);
    if let Some(blocks) = blocks_of(item) {
        extend(&mut shown, [("blocks", json!(blocks))]);
    }
    shown
}

fn without_blocks(item: &StoryItem) -> Value {
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
    let ShownOutput { terminal_output, terminal_exit } = ShownOutput::deserialize(data).unwrap_or_default();
    let place =
        |place: &ToolContent<'_>| Some(json!({"path": one_line(place.path.0?), "line": place.line.0}));
    let places: Vec<Value> = call.locations.iter().filter_map(place).take(MAX_PARTS).collect();
    let mut parts: Vec<Value> = call.content.into_iter().filter_map(part).take(MAX_PARTS).collect();
    if let Some(output) = terminal_output.0 {
        parts.push(printed(output));
    }
    if parts.is_empty()
        && let Some(output) = data.get("rawOutput").and_then(raw)
    {
        parts.push(printed(&output));
    }
    json!({
        "title": shown(call.title), "tool": shown(call.tool_kind), "status": shown(call.status),
        "command": shown(call.command), "places": places, "parts": parts, "exit": terminal_exit.0.exit_code.0,
        "input": match data.contains_key("command") {
            true => None,
            false => data.get("rawInput").filter(|input| says_more(input, data)).and_then(raw).map(|input| clean(head(&input, MAX_INPUT_BYTES).0).into_owned()),
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

#[cfg(test)]
mod tests {
    use subagent_protocol::event::EventType;

    use super::*;

    fn event(seq: i64, kind: EventType, data: Value) -> Event {
        serde_json::from_value(json!({
            "schemaVersion": "v1", "eventId": EventId(seq), "ts": "2026-11-21T20:30:00Z",
            "workerId": "w_0123456789", "type": kind.as_str(), "data": data, "turnId": "turn_0123456789",
        }))
        .unwrap()
    }

    fn story() -> PageStory {
        let worker_id = "w_0123456789".parse().unwrap();
        PageStory::new(TranscriptShown { worker_id, items: Vec::new(), before: None, cursor: None })
    }

    #[test]
    fn of_a_text_that_flows_only_the_blocks_that_changed_are_sent() {
        let mut story = story();
        let mut say = |seq, text: &str| {
            story.take(&event(seq, EventType::ProgressMessage, json!({"text": text}))).unwrap()
        };
        assert_eq!(say(1, "one\n\ntw")["blocks"], json!([{"t": "p", "c": ["one"]}, {"t": "p", "c": ["tw"]}]));
        let next = say(2, "o");
        assert_eq!((&next["from"], &next["blocks"]), (&json!(1), &json!([{"t": "p", "c": ["two"]}])));
        assert_eq!(next["id"], json!(EventId(1)));
    }

    #[test]
    fn states_of_an_item_that_were_not_sent_are_merged() {
        let mut story = story();
        let mut say = |seq, text: &str| {
            story.take(&event(seq, EventType::ProgressMessage, json!({"text": text}))).unwrap()
        };
        let mut known = say(1, "a\n\nb");
        for (seq, more) in [(2, "c\n\n"), (3, "d"), (4, "e\n\nf")] {
            merge(&mut known, say(seq, more));
        }
        let all = json!(["a", "bc", "de", "f"].map(|text| json!({"t": "p", "c": [text]})));
        assert_eq!((&known["from"], &known["blocks"]), (&json!(0), &all));
        let mut later = say(5, "g");
        merge(&mut later, say(6, "\n\nh"));
        assert_eq!((&later["from"], later["blocks"].as_array().unwrap().len()), (&json!(3), 2));
    }

    #[test]
    fn a_tool_call_is_one_item_with_its_output_and_diff() {
        let mut story = story();
        let call = json!({
            "kind": "tool_call", "toolCallId": "1", "title": "Edit\u{1b}[2J x", "status": "pending",
            "content": [{"type": "diff", "path": "/ws/x", "oldText": "a\n", "newText": "b\n"}],
        });
        let first = story.take(&event(1, EventType::ProgressUpdate, call)).unwrap();
        assert_eq!(first["title"], "Edit x");
        let more = json!({"kind": "tool_call_update", "toolCallId": "1", "status": "completed", "terminalOutput": "ok"});
        let second = story.take(&event(2, EventType::ProgressUpdate, more)).unwrap();
        assert_eq!((&second["id"], &second["status"]), (&first["id"], &json!("completed")));
        let parts: Vec<_> = second["parts"].as_array().unwrap().iter().map(|part| &part["part"]).collect();
        assert_eq!(parts, ["diff", "output"]);
    }

    #[test]
    fn events_of_a_task_below_are_not_the_workers() {
        let mut other = event(1, EventType::ProgressMessage, json!({"text": "x"}));
        other.worker_id = "w_9876543210".parse().unwrap();
        assert!(story().take(&other).is_none());
    }

    #[test]
    fn a_decision_says_who_and_by_which_rule() {
        let mut story = story();
        story.take(&event(
            1,
            EventType::ApprovalRequested,
            json!({"requestId": "ap_0123456789", "command": "rm x"}),
        ));
        let decided = json!({
            "requestId": "ap_0123456789", "decision": "allow", "by": "rule", "policy": {"rule": "execute rm *"},
        });
        let shown = story.take(&event(2, EventType::ApprovalDecided, decided)).unwrap();
        assert_eq!(
            [&shown["about"], &shown["by"], &shown["rule"]],
            [&json!("rm x"), &json!("rule"), &json!("execute rm *")]
        );
    }
}
