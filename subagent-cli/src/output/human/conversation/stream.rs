//! A worker's events one after the other, as `watch` shows them: the pieces of a text flow together, a tool call is
//! named once and then only what is new about it.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use serde_json::Value;
use subagent_protocol::event::{EventType, SeenEvent};
use subagent_protocol::time::Timestamp;

use super::content::{AgentUpdate, Detail, ToolReport, details, tool};
use super::event::write;
use crate::output::page::TextPage;
use crate::output::style::Style;
use crate::output::terminal::OutputTerminal;

/// The maximum number of tool calls that are remembered.
const MAX_CALLS: usize = 1000;

/// What flows on when more of it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamedText {
    Nothing,
    Message,
    Thought,
}

/// The page of a `watch`.
#[derive(Debug)]
pub struct WatchPage {
    page: TextPage,
    zone: TimeZone,
    flow: StreamedText,
    calls: HashMap<String, ShownToolCall>,
    /// The last day that was written.
    day: String,
}

/// What was shown of a tool call.
#[derive(Debug, Default)]
struct ShownToolCall {
    title: String,
    kind: Option<String>,
    status: Option<String>,
}

impl WatchPage {
    /// A page with nothing on it, in the zone of the person who reads it. Without a terminal nothing
    /// is wrapped or held back.
    #[must_use]
    pub fn new(terminal: Option<OutputTerminal>) -> Self {
        Self::in_zone(terminal, TimeZone::system())
    }

    pub(in crate::output::human) fn in_zone(terminal: Option<OutputTerminal>, zone: TimeZone) -> Self {
        let page = terminal.map_or_else(
            || TextPage::new(false),
            |terminal| TextPage::new(terminal.colour).within(terminal.width),
        );
        Self { page, zone, flow: StreamedText::Nothing, calls: HashMap::new(), day: String::new() }
    }

    /// The text for these events; a message goes on where the last text ended.
    pub fn write(&mut self, events: &[Value]) -> String {
        for event in events {
            self.event(event);
        }
        self.page.take()
    }

    /// Whether the next text begins a line.
    #[must_use]
    pub fn is_at_line_start(&self) -> bool {
        self.page.is_at_line_start()
    }

    /// Whether an unfinished word is held back; [`WatchPage::release`] returns it if no more text comes.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.page.holds()
    }

    /// Returns the word that was held back.
    pub fn release(&mut self) -> String {
        self.page.release();
        self.page.take()
    }

    /// The end of the text: a message that is not over ends with its line.
    pub fn finish(&mut self) -> String {
        self.page.fresh_line();
        self.page.take()
    }

    fn event(&mut self, event: &Value) {
        let seen: SeenEvent<'_, AgentUpdate<'_>> = SeenEvent::of(event);
        let text = seen.data.text.0.unwrap_or_default();
        let flow = match (seen.kind, seen.data.kind.0.unwrap_or_default()) {
            ("progress.message", _) => StreamedText::Message,
            ("progress.update", "thought") => StreamedText::Thought,
            _ => StreamedText::Nothing,
        };
        if flow != self.flow {
            self.page.fresh_line();
        }
        self.flow = flow;
        match flow {
            StreamedText::Message => _ = self.page.flow(Style::Plain, text),
            StreamedText::Thought => _ = self.page.flow(Style::Dim, text),
            StreamedText::Nothing => self.line(&seen, event),
        }
    }

    /// An event on lines of its own.
    fn line(&mut self, seen: &SeenEvent<'_, AgentUpdate<'_>>, event: &Value) {
        if matches!(seen.data.kind.0, Some("tool_call" | "tool_call_update")) {
            return self.tool(seen.ts, SeenEvent::of(event).data);
        }
        // A message is sent when its turn starts.
        if seen.event_type() != Some(EventType::MessageSent) {
            self.clock(seen.ts);
        }
        write(&mut self.page, seen.worker_id, event);
    }

    /// The time of an event before its line; before the first one of a day the date.
    fn clock(&mut self, ts: &str) {
        let time = Timestamp::parse(ts).and_then(|time| jiff::Timestamp::from_millisecond(time.0).ok());
        let Some(time) = time.map(|time| time.to_zoned(self.zone.clone())) else { return };
        let day = time.strftime("%Y-%m-%d").to_string();
        if day != self.day {
            self.page.text(Style::Dim, &format!("-- {day} --\n"));
            self.day = day;
        }
        self.page.text(Style::Dim, &time.strftime("%H:%M:%S ").to_string());
    }

    fn tool(&mut self, ts: &str, report: ToolReport<'_>) {
        if self.calls.len() >= MAX_CALLS {
            self.calls.clear();
        }
        let call = self.calls.entry(report.id().to_owned()).or_default();
        let title = Some(report.title()).filter(|title| !title.is_empty());
        let is_news = title.is_some_and(|title| title != call.title)
            || report.status().is_some_and(|status| call.status.as_deref() != Some(status));
        if let Some(title) = title {
            call.title = title.to_owned();
        }
        let reported = [(report.tool_kind.0, &mut call.kind), (report.status(), &mut call.status)];
        for (word, known) in reported {
            if let Some(word) = word {
                *known = Some(word.to_owned());
            }
        }
        if is_news {
            let (title, kind) = (call.title.clone(), call.kind.clone());
            self.clock(ts);
            tool(&mut self.page, &report, kind.as_deref(), &title);
        }
        details(&mut self.page, &report, Detail::Short);
    }
}
