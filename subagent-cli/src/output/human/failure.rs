//! An error on a terminal: its code in colour, what to do and what to type on lines of their own.

use serde_json::Value;

use super::{Page, Style, Terminal};
use crate::failure::Failure;

/// The lines of an error for this terminal.
#[must_use]
pub fn failure(failure: &Failure, terminal: Terminal) -> String {
    let mut page = Page::new(terminal.colour);
    page.word(Style::Bad, &failure.code).plain(": ").text(Style::Plain, failure.message.trim_end()).end();
    for (label, key, style) in
        [("Hint: ", "recommendedAction", Style::Plain), ("Try:  ", "recommendedCommand", Style::Strong)]
    {
        if let Some(advice) = failure.details.get(key).and_then(Value::as_str) {
            page.text(Style::Attention, label).word(style, advice).end();
        }
    }
    page.take()
}
