//! An item of a worker's story: what its events have come to.

use serde::Deserialize;
use serde_json::{Value, json};
use subagent_protocol::api::{StoryItem, StoryKind};
use subagent_protocol::lenient;

use super::content::{Detail, ToolReport, details, plan, tool};
use super::event::{outcome, write};
use super::questions::{AskedForm, fields};
use super::turns::question;
use crate::output::page::TextPage;
use crate::output::style::Style;

/// Lines at the end of what a command has printed.
const MAX_OUTPUT_LINES: usize = 12;

/// Writes an item on lines of its own.
pub(in crate::output::human) fn item(page: &mut TextPage, item: &StoryItem) {
    let data = Value::Object(item.data.clone());
    match item.kind {
        StoryKind::User => _ = page.prose(Style::Strong, "> ", "> ", &item.text, usize::MAX),
        StoryKind::Agent => _ = page.prose(Style::Plain, "", "", &item.text, usize::MAX),
        StoryKind::Thought => _ = page.prose(Style::Dim, "", "", &item.text, usize::MAX),
        StoryKind::Tool => {
            let call: ToolReport<'_> = lenient::read(&data);
            tool(page, &call, call.tool_kind.0, call.title());
            details(page, &call, Detail::Short);
            output(page, call.output());
        }
        StoryKind::Plan => plan(page, &lenient::read(&data)),
        StoryKind::Question => asked(page, &data),
        StoryKind::TurnEnd => _ = outcome(page, &event(&data)),
    }
}

/// Writes the last lines that a command has printed.
fn output(page: &mut TextPage, text: &str) {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let hidden = lines.len().saturating_sub(MAX_OUTPUT_LINES);
    if hidden > 0 {
        page.text(Style::Dim, &format!("  | ... {hidden} lines before\n"));
    }
    let last = lines.get(hidden..).unwrap_or_default().join("\n");
    page.lines(Style::Dim, "  | ", &last, MAX_OUTPUT_LINES);
}

/// An item, as far as it says which event was its last.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LastEvent<'a> {
    event: &'a str,
}

/// Writes a question in full, and what became of it.
fn asked(page: &mut TextPage, data: &Value) {
    let form: AskedForm<'_> = lenient::read(data);
    question(page, "", form.message.unwrap_or_default(), form.request_id.unwrap_or_default());
    let LastEvent { event: last } = lenient::read(data);
    match last.starts_with("elicitation.") {
        true => fields(page, &form),
        false => details(page, &lenient::read(data), Detail::All),
    }
    if !last.ends_with(".requested") {
        write(page, "", &event(data));
    }
}

/// The last event of an item.
fn event(data: &Value) -> Value {
    let LastEvent { event } = lenient::read(data);
    json!({"type": event, "data": data})
}
