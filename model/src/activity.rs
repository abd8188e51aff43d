//! What a worker is at, and what it said last, put together from its newest events.

use std::collections::HashMap;

use serde_json::Value;
use subagent_protocol::api::{Doing, LastMessage};
use subagent_protocol::event::{Event, EventType, StoredEvent};
use subagent_protocol::message_text::MessageText;
use subagent_protocol::tool_calls::is_over;

/// Bytes of the last message that are kept.
const MAX_TEXT_BYTES: usize = 4096;
/// Bytes of a title or an entry of a plan.
const MAX_LINE_BYTES: usize = 300;

/// Puts events together.
#[derive(Debug)]
pub struct Activity {
    /// Tool calls that are not over, with the order in which they began.
    open: HashMap<String, (usize, String)>,
    begun: usize,
    /// With the tool of a snapshot, until a call that began before it ends.
    plan: Doing,
    message: MessageText,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            open: HashMap::new(),
            begun: 0,
            plan: Doing::default(),
            message: MessageText::up_to(MAX_TEXT_BYTES),
        }
    }
}

impl Activity {
    /// What follows a snapshot.
    #[must_use]
    pub fn after(doing: Doing) -> Self {
        Self { plan: doing, ..Self::default() }
    }

    /// Takes an event as it is shown; they come in order.
    pub fn see_shown(&mut self, event: &Event) {
        match event.event_type {
            EventType::TurnStarted => self.begin_turn(),
            EventType::ProgressMessage => self.message.push(event.data["text"].as_str().unwrap_or_default()),
            // Sessions below the worker's are its own matter.
            EventType::ProgressUpdate if event.data.get("sessionId").is_none() => {
                let kind = event.data["kind"].as_str().unwrap_or_default();
                if kind == "tool_call" {
                    self.message.tool_call();
                }
                self.update(kind, &event.data);
            }
            _ => {}
        }
    }

    fn begin_turn(&mut self) {
        self.open.clear();
        self.plan = Doing::default();
        self.message = MessageText::up_to(MAX_TEXT_BYTES);
    }

    /// Takes an event; they come in order.
    pub fn see(&mut self, event: StoredEvent) {
        match event.event_type {
            EventType::TurnStarted => self.begin_turn(),
            EventType::ProgressMessage => {
                if let Some(text) = event.into_text() {
                    self.message.push(&text);
                }
            }
            EventType::ProgressUpdate => {
                if event.is_tool_call() {
                    self.message.tool_call();
                }
                let data = event.data();
                // Sessions below the worker's are its own matter.
                if data.get("sessionId").is_none() {
                    self.update(event.kind.as_deref().unwrap_or_default(), &data);
                }
            }
            _ => {}
        }
    }

    fn update(&mut self, kind: &str, data: &Value) {
        let short = |text: &str| text[..text.floor_char_boundary(MAX_LINE_BYTES)].to_owned();
        match kind {
            "tool_call" | "tool_call_update" => {
                let id = data["toolCallId"].as_str().unwrap_or_default();
                let over =
                    data["status"].as_str().is_some_and(|status| is_over(status) || status == "unknown");
                if over {
                    if self.open.remove(id).is_none() {
                        self.plan.tool = None;
                    }
                    return;
                }
                let title = data["title"].as_str().map(short);
                match self.open.get_mut(id) {
                    Some((_, known)) => *known = title.unwrap_or(std::mem::take(known)),
                    None => {
                        self.begun += 1;
                        self.open.insert(id.to_owned(), (self.begun, title.unwrap_or_default()));
                    }
                }
            }
            "plan" => {
                let entries = data["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
                let of = |status: &'static str| entries.iter().filter(move |entry| entry["status"] == status);
                self.plan = Doing {
                    tool: self.plan.tool.take(),
                    step: of("in_progress").find_map(|entry| entry["content"].as_str()).map(short),
                    steps_completed: of("completed").count(),
                    steps: entries.len(),
                };
            }
            _ => {}
        }
    }

    /// Returns what an open turn is at.
    #[must_use]
    pub fn doing(&self) -> Doing {
        let newest = self.open.values().max_by_key(|(begun, _)| *begun).map(|(_, title)| title);
        let tool = newest.or(self.plan.tool.as_ref()).filter(|title| !title.is_empty());
        Doing { tool: tool.cloned(), ..self.plan.clone() }
    }

    /// Returns what an open turn is at, and the last message.
    #[must_use]
    pub fn finish(self) -> (Doing, Option<LastMessage>) {
        let doing = self.doing();
        let text = self.message.last();
        let said = !text.trim().is_empty();
        let message = LastMessage { text: text.to_owned(), truncated: self.message.is_truncated() };
        (doing, said.then_some(message))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn recent(updates: &[(&str, Value)]) -> (Doing, Option<LastMessage>) {
        let mut recent = Activity::default();
        for (kind, data) in updates {
            match *kind {
                "message" => recent.message.push(data.as_str().unwrap_or_default()),
                kind => {
                    if kind == "tool_call" {
                        recent.message.tool_call();
                    }
                    recent.update(kind, data);
                }
            }
        }
        recent.finish()
    }

    fn call(id: &str, status: &str) -> (&'static str, Value) {
        ("tool_call", json!({"toolCallId": id, "status": status, "title": format!("call {id}")}))
    }

    #[test]
    fn the_newest_open_call_and_the_step_of_the_plan_are_what_is_done() {
        let entry = |status: &str| json!({"content": format!("{status}!"), "status": status});
        let plan = ["completed", "completed", "in_progress", "pending"].map(entry);
        let (doing, _) = recent(&[
            call("1", "in_progress"),
            call("2", "pending"),
            call("3", "completed"),
            ("tool_call_update", json!({"toolCallId": "2", "status": "in_progress"})),
            ("plan", json!({"entries": plan})),
        ]);
        let step = Some("in_progress!".to_owned());
        assert_eq!(doing, Doing { tool: Some("call 2".into()), step, steps_completed: 2, steps: 4 });
        let (doing, _) = recent(&[
            call("1", "pending"),
            ("tool_call_update", json!({"toolCallId": "1", "status": "unknown"})),
        ]);
        assert_eq!(doing, Doing::default());
    }

    #[test]
    fn the_last_message_is_the_text_after_the_last_call_or_before_it() {
        let text = |updates: &[(&str, Value)]| recent(updates).1.map(|message| message.text);
        let (hello, bye) = (("message", json!("Hel")), ("message", json!("lo")));
        assert_eq!(text(&[hello.clone(), bye.clone()]).as_deref(), Some("Hello"));
        assert_eq!(text(&[hello.clone(), call("1", "completed"), bye]).as_deref(), Some("lo"));
        assert_eq!(text(&[hello, call("1", "completed")]).as_deref(), Some("Hel"));
        assert_eq!(text(&[("message", json!(" \n"))]), None);
        let long = recent(&[("message", json!("ä".repeat(9999)))]).1.unwrap();
        assert_eq!((long.text.len(), long.truncated), (MAX_TEXT_BYTES, true));
    }

    proptest! {
        #[test]
        fn arbitrary_updates_never_panic(text in r#"[\[\]{}:,"a-zA-Z]{0,80}"#) {
            let data: Value = serde_json::from_str(&text).unwrap_or_else(|_| text.clone().into());
            for kind in ["tool_call", "plan", "other", "message"] {
                let _ = recent(&[(kind, data.clone()), (kind, data.clone())]);
            }
        }
    }
}
