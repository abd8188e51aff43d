//! A worker's events one after the other, as `watch` shows them: the pieces of a text flow together, a tool call is
//! named once and then only what is new about it.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use serde_json::Value;

use super::content::{details, tool};
use super::event::write;
use super::{Page, Style, Terminal, parse_time, word};

/// So many tool calls are remembered.
const MOST_CALLS: usize = 1000;

/// What flows on when more of it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Nothing,
    Message,
    Thought,
}

/// The page of a `watch`.
#[derive(Debug)]
pub struct Stream {
    page: Page,
    zone: TimeZone,
    flow: Flow,
    calls: HashMap<String, Call>,
    /// The last time that was written, to the minute.
    minute: String,
}

/// What was shown of a tool call.
#[derive(Debug, Default)]
struct Call {
    title: String,
    kind: Value,
    status: Value,
}

impl Stream {
    /// A page with nothing on it, in the zone of the person who reads it.
    #[must_use]
    pub fn new(terminal: Terminal) -> Self {
        Self::in_zone(terminal.colour, TimeZone::system())
    }

    pub(super) fn in_zone(colour: bool, zone: TimeZone) -> Self {
        let (page, calls) = (Page::new(colour), HashMap::new());
        Self { page, zone, flow: Flow::Nothing, calls, minute: String::new() }
    }

    /// The text for these events; a message goes on where the last text ended.
    pub fn write(&mut self, events: &[Value]) -> String {
        for event in events {
            self.event(event);
        }
        self.page.take()
    }

    /// The end of the text: a message that is not over ends with its line.
    pub fn finish(&mut self) -> String {
        self.page.fresh_line();
        self.page.take()
    }

    fn event(&mut self, event: &Value) {
        let data = &event["data"];
        let flow = match (word(event, "type"), word(data, "kind")) {
            ("progress.message", _) => Flow::Message,
            ("progress.update", "thought") => Flow::Thought,
            _ => Flow::Nothing,
        };
        if flow != self.flow {
            self.page.fresh_line();
        }
        self.flow = flow;
        match flow {
            Flow::Message => self.page.plain(word(data, "text")),
            Flow::Thought => self.page.text(Style::Dim, word(data, "text")),
            Flow::Nothing => {
                self.clock(event);
                match word(data, "kind") {
                    "tool_call" | "tool_call_update" => self.tool(data),
                    _ => write(&mut self.page, word(event, "workerId"), event),
                }
                return;
            }
        };
    }

    /// Before the first event of a minute stands its time.
    fn clock(&mut self, event: &Value) {
        let time = parse_time(&event["ts"]).and_then(|time| jiff::Timestamp::from_millisecond(time.0).ok());
        let Some(time) = time.map(|time| time.to_zoned(self.zone.clone())) else { return };
        let minute = time.strftime("%Y-%m-%d %H:%M").to_string();
        if minute != self.minute {
            self.page.text(Style::Dim, &format!("-- {minute} --\n"));
            self.minute = minute;
        }
    }

    fn tool(&mut self, data: &Value) {
        if self.calls.len() >= MOST_CALLS {
            self.calls.clear();
        }
        let call = self.calls.entry(word(data, "toolCallId").to_owned()).or_default();
        let title = data["title"].as_str().filter(|title| !title.is_empty());
        let is_news = title.is_some_and(|title| title != call.title)
            || (!data["status"].is_null() && data["status"] != call.status);
        if let Some(title) = title {
            call.title = title.to_owned();
        }
        for (key, known) in [("toolKind", &mut call.kind), ("status", &mut call.status)] {
            if !data[key].is_null() {
                *known = data[key].clone();
            }
        }
        if is_news {
            let mut shown = data.clone();
            shown["toolKind"] = call.kind.clone();
            tool(&mut self.page, &shown, &call.title);
        }
        details(&mut self.page, data);
    }
}
