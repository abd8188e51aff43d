//! What a worker is at, and what it said last, put together from its newest events.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::api::{Doing, LastMessage};
use subagent_protocol::event::{Event, EventType, StoredEvent};
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::message_text::MessageText;
use subagent_protocol::tool_calls::is_over;
use subagent_protocol::tool_content::{PlanReport, ToolCallReport};

/// Bytes of the last message that are kept.
const MAX_TEXT_BYTES: usize = 4096;
/// Bytes of a title or an entry of a plan.
const MAX_LINE_BYTES: usize = 300;
/// Edited files that are kept; later ones are left out.
const MAX_FILES: usize = 50;
/// Bytes of a path; longer ones are left out.
const MAX_PATH_BYTES: usize = 1024;

/// A tool call that has not ended.
#[derive(Debug, Default)]
struct OpenCall {
    /// Its position in the order in which calls began.
    begun: usize,
    title: String,
    /// The files that it edits.
    files: Vec<String>,
}

/// The current activity of a worker, computed from its events in order.
#[derive(Debug)]
pub struct Activity {
    open: HashMap<String, OpenCall>,
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
            EventType::ProgressMessage => {
                self.message.push(lenient::read::<ShownProgress<'_>>(&event.data).text.0.unwrap_or_default());
            }
            // Sessions below the worker's are its own matter.
            EventType::ProgressUpdate if event.data.get("sessionId").is_none() => {
                let kind = lenient::read::<ShownProgress<'_>>(&event.data).kind.0.unwrap_or_default();
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
                let reported: ToolCallReport<'_> = lenient::read(data);
                let id = reported.tool_call_id.0.unwrap_or_default();
                let status = reported.status.0.unwrap_or_default();
                let files = edited_files(&reported);
                if is_over(status) || status == "unknown" {
                    let call = self.open.remove(id);
                    if call.is_none() {
                        self.plan.tool = None;
                    }
                    if status == "completed" {
                        add(&mut self.plan.editing, call.map(|call| call.files).unwrap_or_default());
                        add(&mut self.plan.editing, files);
                    }
                    return;
                }
                let begun = &mut self.begun;
                let call = self.open.entry(id.to_owned()).or_insert_with(|| {
                    *begun += 1;
                    OpenCall { begun: *begun, ..OpenCall::default() }
                });
                if let Some(title) = reported.title.0 {
                    call.title = short(title);
                }
                add(&mut call.files, files);
            }
            "plan" => {
                let PlanReport { entries } = lenient::read(data);
                let of =
                    |status: &'static str| entries.iter().filter(move |entry| entry.status.0 == Some(status));
                self.plan = Doing {
                    tool: self.plan.tool.take(),
                    step: of("in_progress").find_map(|entry| entry.content.0).map(short),
                    steps_completed: of("completed").count(),
                    steps: entries.len(),
                    editing: std::mem::take(&mut self.plan.editing),
                };
            }
            _ => {}
        }
    }

    /// Returns what an open turn is at.
    #[must_use]
    pub fn doing(&self) -> Doing {
        let newest = self.open.values().max_by_key(|call| call.begun).map(|call| &call.title);
        let tool = newest.or(self.plan.tool.as_ref()).filter(|title| !title.is_empty());
        let mut doing = Doing { tool: tool.cloned(), ..self.plan.clone() };
        let mut open: Vec<&OpenCall> = self.open.values().collect();
        open.sort_by_key(|call| call.begun);
        for call in open {
            add(&mut doing.editing, call.files.clone());
        }
        doing
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

/// The data of a shown event, as far as it tells what is done.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ShownProgress<'a> {
    #[serde(borrow)]
    text: Lenient<&'a str>,
    kind: Lenient<&'a str>,
}

/// The files that a call says it edits: those of its diffs, and its locations if editing is its kind.
fn edited_files(call: &ToolCallReport<'_>) -> Vec<String> {
    let diffs = call.content.iter().filter(|block| block.kind.0 == Some("diff"));
    let edits = matches!(call.tool_kind.0, Some("edit" | "delete" | "move"));
    let locations = call.locations.iter().filter(|_| edits);
    diffs.chain(locations).filter_map(|place| place.path.0).map(str::to_owned).collect()
}

/// Adds the files that are not known yet, within the limits.
fn add(known: &mut Vec<String>, files: Vec<String>) {
    for file in files {
        if known.len() < MAX_FILES && file.len() <= MAX_PATH_BYTES && !known.contains(&file) {
            known.push(file);
        }
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
        assert_eq!(
            doing,
            Doing { tool: Some("call 2".into()), step, steps_completed: 2, steps: 4, editing: Vec::new() }
        );
        let (doing, _) = recent(&[
            call("1", "pending"),
            ("tool_call_update", json!({"toolCallId": "1", "status": "unknown"})),
        ]);
        assert_eq!(doing, Doing::default());
    }

    #[test]
    fn files_are_those_of_edits_that_did_not_fail() {
        let edit = |id: &str, status: &str, path: &str| {
            let locations = json!([{"path": path}]);
            let call =
                json!({"toolCallId": id, "status": status, "toolKind": "edit", "locations": locations});
            ("tool_call", call)
        };
        let update = |id: &str, data: Value| {
            let mut data = data;
            data["toolCallId"] = id.into();
            ("tool_call_update", data)
        };
        let editing = |updates: &[(&str, Value)]| recent(updates).0.editing;
        assert_eq!(editing(&[edit("1", "in_progress", "/a"), edit("2", "pending", "/a")]), ["/a"]);
        let ended = |status: &str| update("1", json!({"status": status}));
        assert_eq!(
            editing(&[edit("1", "pending", "/a"), ended("completed"), edit("2", "pending", "/b")]),
            ["/a", "/b"]
        );
        assert!(editing(&[edit("1", "pending", "/a"), ended("failed")]).is_empty());
        let diff = json!({"status": "completed", "content": [{"type": "diff", "path": "/d", "newText": ""}]});
        let plan = ("plan", json!({"entries": []}));
        assert_eq!(editing(&[update("1", diff), plan]), ["/d"], "a plan must not remove files");
        let read = json!({"toolCallId": "1", "status": "completed", "toolKind": "read", "locations": [{"path": "/r"}]});
        assert!(editing(&[("tool_call", read)]).is_empty());
        let many: Vec<_> = (0..99).map(|n| edit(&n.to_string(), "pending", &format!("/{n}"))).collect();
        assert_eq!(editing(&many).len(), MAX_FILES);
        assert!(editing(&[edit("1", "pending", &"x".repeat(MAX_PATH_BYTES + 1))]).is_empty());
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
