//! The newest part of a worker's transcript, which goes on: what events change is rendered once for all of
//! them. What is kept and sent is bounded, although an agent may write for days. Pure.

use std::collections::HashMap;
use std::mem;

use serde_json::{Map, Value, json};
use subagent_model::{TERMINAL_OUTPUT, append, item_of};
use subagent_protocol::api::{StoryItem, StoryKind, TranscriptShown};
use subagent_protocol::event::Event;
use subagent_protocol::ids::{EventId, WorkerId};
use subagent_protocol::json::extend;

use crate::render::{MarkupNode, tail};
use crate::story::{self, MAX_TEXT_BYTES};

/// Items that are kept to be updated; older ones do not change any more.
const MAX_ITEMS: usize = 1000;
/// Bytes of texts and reports that are kept in them.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a text that flows. What follows the line is an item of its own, so that not all is rendered anew.
const MAX_FLOW_BYTES: usize = 32 * 1024;
/// Bytes that are kept of what a command has printed.
const MAX_OUTPUT_BYTES: usize = 512 * 1024;

/// The newest part of a transcript.
pub(crate) struct PageStory {
    worker: WorkerId,
    items: Vec<StoryItem>,
    /// Items that have changed since the last look, in the order of their first change.
    changed: Vec<EventId>,
    /// What the page knows of texts.
    sent: HashMap<EventId, TextOnPage>,
    /// At least the bytes of all items.
    bytes: usize,
}

/// What the page knows of a text or an output.
#[derive(Default)]
struct TextOnPage {
    /// The blocks, as they were sent: only what has changed is sent again.
    blocks: Vec<MarkupNode>,
    /// Bytes that were not kept.
    left_out: usize,
}

impl PageStory {
    pub(crate) fn new(shown: TranscriptShown) -> Self {
        let TranscriptShown { worker_id: worker, items, .. } = shown;
        let mut story = Self { worker, items, changed: Vec::new(), sent: HashMap::new(), bytes: 0 };
        for at in 0..story.items.len() {
            story.bound(at);
        }
        story.bytes = story.items.iter().map(size).sum();
        story
    }

    /// Takes the next event.
    pub(crate) fn take(&mut self, event: &Event) {
        // The stream of a worker also has events of the tasks below it.
        if event.worker_id != self.worker {
            return;
        }
        let Some(new) = item_of(event) else { return };
        self.bytes += size(&new);
        let is_full = self.items.last().is_some_and(|last| is_full(&last.text));
        let at = match is_full && matches!(new.kind, StoryKind::Agent | StoryKind::Thought) {
            true => {
                self.items.push(new);
                self.items.len() - 1
            }
            false => append(&mut self.items, new),
        };
        let Some(id) = self.bound(at) else { return };
        if !self.changed.contains(&id) {
            self.changed.push(id);
        }
    }

    /// Keeps the end of what is long in an item. Returns its id.
    fn bound(&mut self, at: usize) -> Option<EventId> {
        let item = self.items.get_mut(at)?;
        let mut left_out = cut(&mut item.text, MAX_TEXT_BYTES);
        if let Some(Value::String(output)) = item.data.get_mut(TERMINAL_OUTPUT)
            && output.len() > 2 * MAX_OUTPUT_BYTES
        {
            left_out = cut(output, MAX_OUTPUT_BYTES);
        }
        if left_out > 0 {
            self.sent.entry(item.event_id).or_default().left_out += left_out;
        }
        Some(item.event_id)
    }

    /// Whether an item has changed since the last look.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Returns the items that have changed since the last look.
    pub(crate) fn changes(&mut self) -> Vec<Value> {
        let changed = mem::take(&mut self.changed);
        let shown = changed.into_iter().filter_map(|id| self.show(id)).collect();
        self.forget();
        shown
    }

    fn show(&mut self, id: EventId) -> Option<Value> {
        let item = self.items.iter().rev().find(|item| item.event_id == id)?;
        let mut shown = story::without_blocks(item);
        if let Some((now, left_out)) = story::blocks_of(item) {
            let before = self.sent.entry(id).or_default();
            let same = before.blocks.iter().zip(&now).take_while(|(one, other)| one == other).count();
            let left_out = before.left_out + left_out;
            let more = [("from", same.into()), ("blocks", json!(&now[same..])), ("leftOut", left_out.into())];
            extend(&mut shown, more);
            before.blocks = now;
        } else if let Some(TextOnPage { left_out, .. }) = self.sent.get(&id) {
            extend(&mut shown, [("leftOut", (*left_out).into())]);
        }
        Some(shown)
    }

    fn forget(&mut self) {
        if self.items.len() > 2 * MAX_ITEMS || self.bytes > 2 * MAX_BYTES {
            let (mut kept, mut bytes) = (0, 0);
            for size in self.items.iter().rev().take(MAX_ITEMS).map(size) {
                if kept > 0 && bytes + size > MAX_BYTES {
                    break;
                }
                (kept, bytes) = (kept + 1, bytes + size);
            }
            self.bytes = bytes;
            for old in self.items.drain(..self.items.len() - kept) {
                self.sent.remove(&old.event_id);
            }
        }
    }
}

/// Whether a text that flows is long enough: at the end of a line, if one comes.
fn is_full(text: &str) -> bool {
    text.len() >= 2 * MAX_FLOW_BYTES || (text.len() >= MAX_FLOW_BYTES && text.ends_with('\n'))
}

/// Keeps the end of a text; returns how many bytes go.
fn cut(text: &mut String, limit: usize) -> usize {
    let (shown, left_out) = tail(text, limit);
    if left_out > 0 {
        *text = shown.to_owned();
    }
    left_out
}

/// The bytes of an item, roughly.
fn size(item: &StoryItem) -> usize {
    item.text.len() + size_of_members(&item.data)
}

fn size_of_members(members: &Map<String, Value>) -> usize {
    members.iter().map(|(key, value)| key.len() + size_of_value(value)).sum()
}

fn size_of_value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size_of_value).sum(),
        Value::Object(members) => size_of_members(members),
        _ => size_of::<Value>(),
    }
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

    /// What a page gets for this event alone.
    fn after(story: &mut PageStory, event: &Event) -> Option<Value> {
        story.take(event);
        story.changes().pop()
    }

    fn shown() -> TranscriptShown {
        let worker_id = "w_0123456789".parse().unwrap();
        TranscriptShown { worker_id, items: Vec::new(), before: None, cursor: None }
    }

    fn story() -> PageStory {
        PageStory::new(shown())
    }

    #[test]
    fn of_a_text_that_flows_only_the_blocks_that_changed_are_sent() {
        let mut story = story();
        let mut say = |seq, text: &str| {
            after(&mut story, &event(seq, EventType::ProgressMessage, json!({"text": text}))).unwrap()
        };
        assert_eq!(say(1, "one\n\ntw")["blocks"], json!([{"t": "p", "c": ["one"]}, {"t": "p", "c": ["tw"]}]));
        let next = say(2, "o");
        assert_eq!((&next["from"], &next["blocks"]), (&json!(1), &json!([{"t": "p", "c": ["two"]}])));
        assert_eq!(next["id"], json!(EventId(1)));
    }

    #[test]
    fn what_several_events_change_is_sent_once() {
        let mut story = story();
        for (seq, text) in [(1, "a\n\nb"), (2, "c\n\n"), (3, "d"), (4, "e\n\nf")] {
            story.take(&event(seq, EventType::ProgressMessage, json!({"text": text})));
        }
        let changes = story.changes();
        let all = json!(["a", "bc", "de", "f"].map(|text| json!({"t": "p", "c": [text]})));
        assert_eq!((changes.len(), &changes[0]["from"], &changes[0]["blocks"]), (1, &json!(0), &all));
        assert!(!story.has_changed());
        for (seq, text) in [(5, "g"), (6, "\n\nh")] {
            story.take(&event(seq, EventType::ProgressMessage, json!({"text": text})));
        }
        let later = story.changes();
        assert_eq!((&later[0]["from"], later[0]["blocks"].as_array().unwrap().len()), (&json!(3), 2));
    }

    #[test]
    fn a_long_text_is_cut_and_one_that_flows_goes_on_in_further_items() {
        let mut story = story();
        let huge = "x".repeat(4 * MAX_TEXT_BYTES);
        let said = |seq, text: &str| event(seq, EventType::ProgressMessage, json!({"text": text}));
        let first = after(&mut story, &said(1, &huge)).unwrap();
        assert_eq!(first["leftOut"], 3 * MAX_TEXT_BYTES);
        assert!(first.to_string().len() < 2 * MAX_TEXT_BYTES);
        let end = after(&mut story, &said(2, "the end")).unwrap();
        assert_eq!((&end["id"], &end["leftOut"]), (&json!(EventId(2)), &json!(0)));
        // What is longer is cut where it flows, too.
        let snapshot = TranscriptShown { items: vec![item_of(&said(1, &huge)).unwrap()], ..shown() };
        let mut reloaded = PageStory::new(snapshot);
        assert_eq!(reloaded.items[0].text.len(), MAX_TEXT_BYTES);
        reloaded.changed.push(EventId(1));
        assert_eq!(reloaded.changes()[0]["leftOut"], 3 * MAX_TEXT_BYTES);
        let (mut largest, mut ids) = (0, std::collections::HashSet::new());
        for seq in 3..200_000 {
            story.take(&said(seq, "0123456789 "));
            if seq % 100 == 0 {
                for item in story.changes() {
                    largest = largest.max(item.to_string().len());
                    ids.insert(item["id"].to_string());
                }
            }
        }
        assert!(largest < 3 * MAX_FLOW_BYTES && ids.len() > 30, "{largest} bytes, {} items", ids.len());
        let bytes: usize = story.items.iter().map(|item| item.text.len()).sum();
        assert!(bytes <= 2 * MAX_BYTES, "{bytes}");
    }

    #[test]
    fn of_what_a_command_prints_the_end_is_kept() {
        let mut story = story();
        for seq in 1..100 {
            let output = format!("{}{seq}\n", "x".repeat(64 * 1024));
            let update = json!({"kind": "tool_call_update", "toolCallId": "1", "terminalOutput": output});
            story.take(&event(seq, EventType::ProgressUpdate, update));
        }
        let kept = story.items[0].data[TERMINAL_OUTPUT].as_str().unwrap().to_owned();
        assert!(kept.ends_with("x99\n") && kept.len() <= 2 * MAX_OUTPUT_BYTES, "{}", kept.len());
        let printed: usize = (1..100).map(|seq: usize| 64 * 1024 + seq.to_string().len() + 1).sum();
        assert_eq!(story.changes()[0]["leftOut"], printed - kept.len());
    }

    #[test]
    fn large_reports_of_calls_are_forgotten() {
        let mut story = story();
        let text = "x".repeat(512 * 1024);
        for seq in 1..100 {
            let edit = json!([{"type": "diff", "path": "/x", "oldText": text, "newText": text}]);
            let call = json!({"kind": "tool_call", "toolCallId": seq.to_string(), "content": edit});
            assert!(after(&mut story, &event(seq, EventType::ProgressUpdate, call)).is_some());
        }
        let bytes: usize = story.items.iter().map(size).sum();
        assert!(bytes <= 2 * MAX_BYTES && story.sent.is_empty(), "{bytes}");
    }

    #[test]
    fn a_tool_call_is_one_item_with_its_output_and_diff() {
        let mut story = story();
        let call = json!({
            "kind": "tool_call", "toolCallId": "1", "title": "Edit\u{1b}[2J x", "status": "pending",
            "content": [{"type": "diff", "path": "/ws/x", "oldText": "a\n", "newText": "b\n"}],
        });
        let first = after(&mut story, &event(1, EventType::ProgressUpdate, call)).unwrap();
        assert_eq!(first["title"], "Edit x");
        let more = json!({"kind": "tool_call_update", "toolCallId": "1", "status": "completed", "terminalOutput": "ok"});
        let second = after(&mut story, &event(2, EventType::ProgressUpdate, more)).unwrap();
        assert_eq!((&second["id"], &second["status"]), (&first["id"], &json!("completed")));
        let parts: Vec<_> = second["parts"].as_array().unwrap().iter().map(|part| &part["part"]).collect();
        assert_eq!(parts, ["diff", "output"]);
    }

    #[test]
    fn events_of_a_task_below_are_not_the_workers() {
        let mut other = event(1, EventType::ProgressMessage, json!({"text": "x"}));
        other.worker_id = "w_9876543210".parse().unwrap();
        assert!(after(&mut story(), &other).is_none());
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
        let shown = after(&mut story, &event(2, EventType::ApprovalDecided, decided)).unwrap();
        assert_eq!(
            [&shown["about"], &shown["by"], &shown["rule"]],
            [&json!("rm x"), &json!("rule"), &json!("execute rm *")]
        );
    }
}
