//! The transcript of a worker as a story: messages, thoughts, tool calls, plans, questions, ends of
//! turns.

// Lists of items are joined in one way only, so a page that is loaded before or after another one
// fits, wherever they were cut: the story of all events is the join of the stories of any of their
// parts.

use serde_json::{Map, Value};
use subagent_protocol::api::{StoryItem, StoryKind};
use subagent_protocol::event::{Event, EventType};

/// The key of an event's type in the data of questions and ends of turns.
const EVENT: &str = "event";
/// The key of what a command has printed since the update before. In an item, it has all of it.
pub const TERMINAL_OUTPUT: &str = "terminalOutput";

/// The item that an event alone makes; `None` for an event that is not in stories.
#[must_use]
pub fn item_of(event: &Event) -> Option<StoryItem> {
    let facts = event.data.as_object();
    let word = |key: &str| facts?.get(key)?.as_str();
    let text = || word("text").unwrap_or_default().to_owned();
    let typed = || {
        let mut data = facts.cloned().unwrap_or_default();
        data.insert(EVENT.to_owned(), event.event_type.as_str().into());
        data
    };
    let (kind, key, text, data) = match event.event_type {
        EventType::MessageSent => (StoryKind::User, None, text(), Map::new()),
        EventType::ProgressMessage => (StoryKind::Agent, None, text(), Map::new()),
        EventType::ProgressUpdate => match word("kind")? {
            "thought" => (StoryKind::Thought, None, text(), Map::new()),
            "tool_call" | "tool_call_update" => {
                let mut data = facts.cloned().unwrap_or_default();
                data.remove("kind");
                (StoryKind::Tool, Some(word("toolCallId")?.to_owned()), String::new(), data)
            }
            "plan" => {
                let entries = facts?.get("entries")?.clone();
                let data = Map::from_iter([("entries".to_owned(), entries)]);
                let turn = event.turn_id.as_ref().map(ToString::to_string);
                (StoryKind::Plan, turn, String::new(), data)
            }
            _ => return None,
        },
        event_type if event_type.is_question() || event_type.is_about_question() => {
            (StoryKind::Question, Some(word("requestId")?.to_owned()), String::new(), typed())
        }
        event_type if event_type.ends_turn() => (StoryKind::TurnEnd, None, String::new(), typed()),
        _ => return None,
    };
    Some(StoryItem {
        event_id: event.event_id,
        ts: event.ts,
        turn_id: event.turn_id.clone(),
        kind,
        key,
        session_id: word("sessionId").map(str::to_owned),
        text,
        data,
    })
}

/// Adds an item behind others: it goes on with the last one, updates an earlier one, or is new. Returns the index of the
/// item that changed.
pub fn append(items: &mut Vec<StoryItem>, item: StoryItem) -> usize {
    let flows = matches!(item.kind, StoryKind::Agent | StoryKind::Thought);
    let same = |other: &StoryItem| {
        (other.kind, &other.session_id) == (item.kind, &item.session_id) && other.key == item.key
    };
    let last = items.len().saturating_sub(1);
    let known = match flows {
        true => items.last().filter(|other| same(other) && other.turn_id == item.turn_id).map(|_| last),
        false if item.key.is_some() => items.iter().rposition(same),
        false => None,
    };
    match known.and_then(|index| Some((index, items.get_mut(index)?))) {
        None => {
            items.push(item);
            items.len() - 1
        }
        Some((index, known)) => {
            known.text.push_str(&item.text);
            for (key, value) in item.data {
                match (known.data.get_mut(&key), value) {
                    (Some(Value::String(before)), Value::String(more)) if key == TERMINAL_OUTPUT => {
                        before.push_str(&more);
                    }
                    (_, value) => _ = known.data.insert(key, value),
                }
            }
            index
        }
    }
}

/// Joins items with those that follow them.
pub fn join(items: &mut Vec<StoryItem>, later: impl IntoIterator<Item = StoryItem>) {
    later.into_iter().for_each(|item| _ = append(items, item));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use subagent_protocol::ids::EventId;
    use subagent_protocol::time::Timestamp;

    use super::*;

    fn event(seq: i64, turn: &str, event_type: EventType, data: Value) -> Event {
        Event {
            schema_version: "v1".to_owned(),
            event_id: EventId(seq),
            ts: Timestamp(seq),
            worker_id: "w_0123456789".parse().unwrap(),
            event_type,
            data,
            turn_id: Some(format!("turn_000000000{turn}").parse().unwrap()),
            path: None,
            raw: None,
        }
    }

    fn story(events: &[Event]) -> Vec<StoryItem> {
        let mut items = Vec::new();
        join(&mut items, events.iter().filter_map(item_of));
        items
    }

    fn update(kind: &str, mut data: Value) -> (EventType, Value) {
        data["kind"] = kind.into();
        (EventType::ProgressUpdate, data)
    }

    fn said(text: &str) -> (EventType, Value) {
        (EventType::ProgressMessage, json!({"text": text}))
    }

    fn of(events: Vec<(EventType, Value)>) -> Vec<StoryItem> {
        let numbered = events.into_iter().zip(1..);
        let events: Vec<Event> = numbered.map(|((kind, data), seq)| event(seq, "1", kind, data)).collect();
        story(&events)
    }

    #[test]
    fn pieces_flow_together_and_updates_find_their_item() {
        let items = of(vec![
            (EventType::MessageSent, json!({"text": "Fix it"})),
            said("I lo"),
            update("usage", json!({"used": 1})),
            said("ok."),
            update("tool_call", json!({"toolCallId": "1", "title": "make", "status": "pending"})),
            update("plan", json!({"entries": [{"content": "a", "status": "pending"}]})),
            (EventType::ApprovalRequested, json!({"requestId": "r", "message": "may I?"})),
            (EventType::ApprovalDecided, json!({"requestId": "r", "decision": "allow"})),
            update("tool_call_update", json!({"toolCallId": "1", "terminalOutput": "x"})),
            update(
                "tool_call_update",
                json!({"toolCallId": "1", "status": "completed", "terminalOutput": "y"}),
            ),
            said("Done."),
            update("plan", json!({"entries": []})),
            (EventType::TurnCompleted, json!({"stopReason": "end_turn"})),
        ]);
        let short: Vec<(&str, &str)> =
            items.iter().map(|item| (item.kind.as_str(), item.text.as_str())).collect();
        let expected = [
            ("user", "Fix it"),
            ("agent", "I look."),
            ("tool", ""),
            ("plan", ""),
            ("question", ""),
            ("agent", "Done."),
            ("turn_end", ""),
        ];
        assert_eq!(short, expected);
        let call = json!({"toolCallId": "1", "title": "make", "status": "completed", "terminalOutput": "xy"});
        assert_eq!(Value::from(items[2].data.clone()), call);
        assert_eq!(items[3].data["entries"], json!([]));
        assert_eq!(
            (&items[4].data["message"], &items[4].data["event"]),
            (&json!("may I?"), &json!("approval.decided"))
        );
        assert_eq!((items[1].event_id, items[1].ts), (EventId(2), Timestamp(2)));
    }

    #[test]
    fn texts_of_other_sessions_and_turns_stay_apart() {
        let mut data = json!({"text": "b"});
        data["sessionId"] = "below".into();
        let items = of(vec![said("a"), (EventType::ProgressMessage, data), said("c")]);
        assert_eq!(items.len(), 3);
        let (kind, data) = said("a");
        let turns = [event(1, "1", kind, data.clone()), event(2, "2", kind, data)];
        assert_eq!(story(&turns).len(), 2);
    }

    fn any_event() -> impl Strategy<Value = (EventType, Value, u8)> {
        let id = prop::sample::select(vec!["1", "2"]);
        let text = prop::sample::select(vec!["a", "b", ""]);
        let what = prop_oneof![
            text.clone().prop_map(said),
            text.clone().prop_map(|text| update("thought", json!({"text": text}))),
            text.clone().prop_map(|text| (EventType::MessageSent, json!({"text": text}))),
            (id.clone(), text.clone()).prop_map(|(id, text)| {
                update("tool_call_update", json!({"toolCallId": id, "status": text, "terminalOutput": text}))
            }),
            text.prop_map(|text| update("plan", json!({"entries": [text]}))),
            id.clone().prop_map(|id| (EventType::ApprovalRequested, json!({"requestId": id}))),
            id.prop_map(|id| (EventType::ApprovalDecided, json!({"requestId": id, "decision": "deny"}))),
            Just((EventType::TurnCompleted, json!({}))),
            Just((EventType::ProgressUpdate, json!([1]))),
            Just((EventType::WorkerStarted, json!({}))),
        ];
        (what, 1..3u8).prop_map(|((kind, data), turn)| (kind, data, turn))
    }

    proptest! {
        #[test]
        fn a_story_is_the_join_of_its_pages_wherever_they_are_cut(
            events in prop::collection::vec(any_event(), 0..30),
            cuts in prop::collection::vec(0..30usize, 0..4),
        ) {
            let numbered = events.into_iter().zip(1..);
            let events: Vec<Event> = numbered
                .map(|((kind, data, turn), seq)| event(seq, &turn.to_string(), kind, data))
                .collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(events.len())).collect();
            cuts.extend([0, events.len()]);
            cuts.sort_unstable();
            let mut pages: Vec<Vec<StoryItem>> =
                cuts.windows(2).map(|cut| story(&events[cut[0]..cut[1]])).collect();
            // As a view does it: older pages come later.
            let mut joined = pages.pop().unwrap_or_default();
            while let Some(mut older) = pages.pop() {
                join(&mut older, joined);
                joined = older;
            }
            prop_assert_eq!(joined, story(&events));
        }
    }
}
