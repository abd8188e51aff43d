//! What a person sees on a terminal, made from the data of a result: one rendering for each type of report.
//!
//! A type that has none here is shown as the contract's lines. Nothing is decided here but how things look.

mod content;
mod controllers;
mod doctor;
mod event;
mod failure;
mod inbox;
mod questions;
mod registry;
mod removal;
mod stream;
mod turns;
mod workers;

use serde_json::Value;
use subagent_protocol::time::Timestamp;

use super::ago::ago;
use super::page::Page;
use super::style::Style;
use super::table::Table;
use super::terminal::Terminal;
use super::text;
use subagent_protocol::clean::clean;

pub use failure::failure;
pub use stream::Stream;

/// A result for this terminal. `text` is what it is elsewhere.
#[must_use]
pub fn report(kind: &str, data: &Value, text: &str, terminal: Terminal) -> String {
    let mut view = View { page: Page::new(terminal.colour), width: terminal.width, now: now() };
    match render(&mut view, kind, data) {
        Some(()) => view.page.take(),
        None => clean(text).into_owned(),
    }
}

/// `None` for a type that is not known here, and for data that lack what is shown.
fn render(view: &mut View, kind: &str, data: &Value) -> Option<()> {
    match kind {
        "worker.listed" => workers::listed(view, data),
        "worker.shown" => workers::shown(view, data),
        "worker.started" => workers::started(view, data),
        "worker.stopped" => workers::stopped(view, data),
        "worker.removed" => removal::removed(view, data),
        "state.pruned" => removal::pruned(view, data),
        "worker.logs" => workers::logs(view, data),
        "worker.inspected" => workers::inspected(view, data),
        "controller.status" => controllers::status(view, data),
        "controller.recovered" => controllers::recovered(view, data),
        "doctor.report" => doctor::report(view, data),
        "launcher.listed" => registry::launchers(view, data),
        "launcher.shown" => registry::launcher(view, data),
        "launcher.probed" => registry::probed(view, data),
        "role.listed" => registry::roles(view, data),
        "role.shown" => registry::role(view, data),
        "turn.accepted" => turns::accepted(view, data),
        "turn.waited" => turns::waited(view, data),
        "event.matched" => turns::matched(view, data),
        "inbox.listed" => inbox::listed(view, data),
        "approval.shown" => inbox::question(view, data),
        "approval.decided" => turns::decided(view, data),
        "elicitation.answered" => questions::answered(view, data),
        "turn.canceled" => turns::canceled(view, data),
        _ => None,
    }
}

/// A page, and what the renderings need to know besides the data.
#[derive(Debug)]
struct View {
    page: Page,
    width: usize,
    now: Timestamp,
}

impl View {
    /// How long ago the time in this value was; empty for none.
    fn ago(&self, time: &Value) -> String {
        parse_time(time).map_or_else(String::new, |then| ago(then, self.now))
    }

    fn put(&mut self, table: &Table) {
        table.put(&mut self.page, self.width);
    }

    /// Lines of names and values below each other; what has no value is left out.
    fn facts(&mut self, facts: &[(&str, Style, String)]) {
        let given = || facts.iter().filter(|(_, _, value)| !value.is_empty());
        let width = given().map(|(name, ..)| name.len()).max().unwrap_or(0);
        for (name, style, value) in given() {
            self.page.plain("  ").word(Style::Dim, name).fill(name, width + 2).word(*style, value).end();
        }
    }

    /// The state of something, in its colour.
    fn state(&mut self, state: &str) {
        self.page.word(Style::of_state(state), &state.replace('_', " "));
    }

    /// A command that a person may want next.
    fn next(&mut self, what: &str, command: &str) {
        self.page.word(Style::Dim, what).plain("  ").word(Style::Plain, command).end();
    }
}

fn word<'a>(data: &'a Value, key: &str) -> &'a str {
    data[key].as_str().unwrap_or_default()
}

fn items(data: &Value) -> Option<&[Value]> {
    data["items"].as_array().map(Vec::as_slice)
}

/// A value in a line of facts: nothing for what is empty.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) if items.is_empty() => String::new(),
        Value::Object(members) if members.is_empty() => String::new(),
        other => text::value(other),
    }
}

fn parse_time(time: &Value) -> Option<Timestamp> {
    serde_json::from_value(time.clone()).ok()
}

/// The time now.
#[must_use]
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
