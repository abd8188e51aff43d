//! What all renderings share: the page with its usual lines, and access to the data.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::Error;
use subagent_protocol::api::TaskView;
use subagent_protocol::clean::one_line;
use subagent_protocol::data::workers::UnreachableState;
use subagent_protocol::lenient;
use subagent_protocol::time::Timestamp;

use crate::output::advice::at_typed_host;
use crate::output::ago::{ago, elapsed};
use crate::output::page::{TextPage, wrap};
use crate::output::style::{Style, state_word};
use crate::output::table::Table;
use crate::output::terminal::OutputTerminal;
use crate::output::text;

/// No value is wrapped narrower than this.
const NARROWEST: usize = 20;

/// A page, and what the renderings need besides the data.
#[derive(Debug)]
pub(super) struct PageRenderer {
    pub(super) page: TextPage,
    pub(super) width: usize,
    pub(super) now: Timestamp,
}

impl PageRenderer {
    /// An empty view for this terminal.
    pub(super) fn new(terminal: OutputTerminal) -> Self {
        let page = TextPage::new(terminal.colour).within(terminal.width);
        Self { page, width: terminal.width, now: now() }
    }

    /// Returns how long ago a time was; empty without a time.
    pub(super) fn ago(&self, time: impl Into<Option<Timestamp>>) -> String {
        time.into().map_or_else(String::new, |then| ago(then, self.now))
    }

    /// Returns how long ago a time was, without a word.
    pub(super) fn since(&self, time: Timestamp) -> String {
        elapsed(Duration::from_millis(u64::try_from(self.now.0.saturating_sub(time.0)).unwrap_or(0)))
    }

    /// Returns how long it is until a time; zero if it has passed.
    pub(super) fn left(&self, time: Timestamp) -> String {
        elapsed(Duration::from_millis(u64::try_from(time.0.saturating_sub(self.now.0)).unwrap_or(0)))
    }

    pub(super) fn put(&mut self, table: &Table) {
        table.put(&mut self.page, self.width);
    }

    /// Writes names and values, one line each; those without a value are left out.
    pub(super) fn facts(&mut self, facts: &[(&str, Style, String)]) {
        let given = || facts.iter().filter(|(_, _, value)| !value.is_empty());
        let width = given().map(|(name, ..)| name.len()).max().unwrap_or(0);
        // Of a terminal that is too narrow for a second column, the lines may be wider.
        let room = self.width.saturating_sub(width + 4).max(NARROWEST);
        let indent = " ".repeat(width + 4);
        for (name, style, value) in given() {
            self.page.plain("  ").word(Style::Dim, name).fill(name, width + 2);
            for (number, part) in wrap(&one_line(value), room).iter().enumerate() {
                self.page.plain(if number == 0 { "" } else { &indent }).word(*style, part).end();
            }
        }
    }

    /// Writes a state in its color.
    pub(super) fn state(&mut self, state: &str) {
        self.page.word(Style::of_state(state), &state_word(state));
    }

    /// Writes the state of a task.
    pub(super) fn task_state(&mut self, task: &TaskView) {
        let state = state_word(task.status.as_str());
        match &task.unreachable {
            Some(UnreachableState { since, .. }) => {
                let marked = format!("{state} (unreachable for {})", self.since(*since));
                self.page.word(Style::Bad, &marked);
            }
            None => self.state(task.status.as_str()),
        }
    }

    /// Writes a command that a person may want next.
    pub(super) fn next(&mut self, what: &str, command: &str) {
        // A command is never cut: on a line of its own it may be typed as it stands.
        let command = at_typed_host(command);
        self.page.word(Style::Dim, what).tail(Style::Plain, "  ", &command).end();
    }
}

/// The name of a worker, or its id where the daemon gives no name.
#[must_use]
pub fn named(data: &Value) -> &str {
    /// The fields that name a worker.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct WorkerName<'a> {
        name: Option<&'a str>,
        worker_id: Option<&'a str>,
    }
    let WorkerName { name, worker_id } = lenient::read(data);
    called(name.unwrap_or_default(), worker_id.unwrap_or_default())
}

/// The same for a name and an id.
#[must_use]
pub fn called<'a>(name: &'a str, id: &'a str) -> &'a str {
    if name.is_empty() { id } else { name }
}

/// A response about a worker, with the name by which the caller addressed the worker.
#[derive(Debug, Deserialize)]
pub(super) struct Named<T> {
    #[serde(default)]
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) of: T,
}

/// Returns a value that may be missing as text; empty without one.
pub(super) fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// An error as its code and its message; empty without one.
pub(super) fn failed(error: Option<&Error>) -> String {
    optional(error.map(|error| format!("{} {}", error.code, error.message)))
}

/// Returns a value for a line of facts; empty for an empty list or mapping.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) if items.is_empty() => String::new(),
        Value::Object(members) if members.is_empty() => String::new(),
        other => text::value(other),
    }
}

pub(super) fn parse_time(time: &Value) -> Option<Timestamp> {
    serde_json::from_value(time.clone()).ok()
}

/// Returns the current time.
#[must_use]
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
