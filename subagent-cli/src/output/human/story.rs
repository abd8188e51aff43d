//! An item of a worker's story: what its events have come to.

use serde_json::{Value, json};
use subagent_protocol::api::{StoryItem, StoryKind};

use super::content::{Detail, details, plan, tool};
use super::event::{outcome, write};
use super::questions::fields;
use super::turns::question;
use super::view::word;
use crate::output::page::TextPage;
use crate::output::style::Style;

/// Lines at the end of what a command has printed.
const MAX_OUTPUT_LINES: usize = 12;

/// Writes an item on lines of its own.
pub(super) fn item(page: &mut TextPage, item: &StoryItem) {
    let data = Value::Object(item.data.clone());
    match item.kind {
        StoryKind::User => _ = page.prose(Style::Strong, "> ", "> ", &item.text, usize::MAX),
        StoryKind::Agent => _ = page.prose(Style::Plain, "", "", &item.text, usize::MAX),
        StoryKind::Thought => _ = page.prose(Style::Dim, "", "", &item.text, usize::MAX),
        StoryKind::Tool => {
            tool(page, &data, word(&data, "title"));
            details(page, &data, Detail::Short);
            output(page, word(&data, "terminalOutput"));
        }
        StoryKind::Plan => plan(page, &data),
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

/// Writes a question in full, and what became of it.
fn asked(page: &mut TextPage, data: &Value) {
    question(page, "", word(data, "message"), word(data, "requestId"));
    match word(data, "event").starts_with("elicitation.") {
        true => fields(page, data),
        false => details(page, data, Detail::All),
    }
    if !word(data, "event").ends_with(".requested") {
        write(page, "", &event(data));
    }
}

/// The last event of an item.
fn event(data: &Value) -> Value {
    json!({"type": data["event"], "data": data})
}
