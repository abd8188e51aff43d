//! An error on a terminal: its code in colour, what to do and what to type on lines of their own.

use crate::failure::Failure;
use crate::output::advice;
use crate::output::page::TextPage;
use crate::output::style::Style;
use crate::output::terminal::OutputTerminal;

/// The lines of an error for this terminal.
#[must_use]
pub fn failure(failure: &Failure, terminal: OutputTerminal) -> String {
    let mut page = TextPage::new(terminal.colour).within(terminal.width);
    page.word(Style::Bad, &failure.code).plain(": ");
    match failure.message.trim_end() {
        // An agent's or a parser's lines keep their places.
        lines if lines.contains('\n') => page.text(Style::Plain, lines).end(),
        sentence => page.sentence(Style::Plain, "", "", sentence).end(),
    };
    if let Some(hint) = advice::hint(failure).map(advice::sentence_at_typed_host) {
        page.text(Style::Attention, "Hint: ").sentence(Style::Plain, "", "      ", &hint).end();
    }
    if let Some(command) = advice::command(failure) {
        let command = advice::at_typed_host(&command);
        page.text(Style::Attention, "Try:  ").word(Style::Strong, &command).end();
    }
    for request in advice::requests(failure) {
        page.text(Style::Attention, "Open: ").sentence(Style::Plain, "", "      ", &request).end();
    }
    if let Some(choices) = advice::choices(failure) {
        page.text(Style::Attention, "Available: ").word(Style::Plain, &choices).end();
    }
    for line in advice::last_words(failure) {
        page.text(Style::Attention, "Agent: ").word(Style::Plain, &line).end();
    }
    page.take()
}
