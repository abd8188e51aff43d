//! An error on a terminal: its code in colour, what to do and what to type on lines of their own.

use serde_json::Value;

use super::{Page, Style, Terminal};
use crate::failure::Failure;

/// The lines of an error for this terminal.
#[must_use]
pub fn failure(failure: &Failure, terminal: Terminal) -> String {
    let mut page = Page::new(terminal.colour);
    page.word(Style::Bad, &failure.code).plain(": ").text(Style::Plain, failure.message.trim_end()).end();
    let advice = |key: &str| failure.details.get(key).and_then(Value::as_str);
    // A wait that gave up says in its diagnosis what to do.
    if let Some(hint) = advice("recommendedAction").or_else(|| advice("diagnosis")) {
        page.text(Style::Attention, "Hint: ").word(Style::Plain, hint).end();
    }
    if let Some(command) = advice("recommendedCommand") {
        page.text(Style::Attention, "Try:  ").word(Style::Strong, command).end();
    }
    page.take()
}
