//! The figures of a run: how long it took, and what it changed and used. Pure.

use std::time::Duration;

use subagent_protocol::budget::Money;
use subagent_runtime::work_tree::{Changes, total};

use super::went::Went;
use crate::output::ago;
use crate::output::page::TextPage;
use crate::output::short::{lines, money, tokens};
use crate::output::style::Style;
use crate::output::terminal::OutputTerminal;

/// The figures; what is not known is absent.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) took: Duration,
    pub(crate) tools: usize,
    pub(crate) changes: Changes,
    pub(crate) tokens: Option<u64>,
    pub(crate) cost: Option<Money>,
}

impl Figures {
    /// The parts that have a value.
    fn parts(&self) -> Vec<String> {
        let mut parts = vec![ago::took(self.took)];
        if self.tools > 0 {
            parts.push(self.tools());
        }
        if !self.changes.is_empty() {
            parts.push(self.files());
        }
        parts.extend(self.tokens.map(tokens));
        parts.extend(self.cost.as_ref().map(money));
        parts
    }

    /// The number of tool calls.
    pub(crate) fn tools(&self) -> String {
        counted(self.tools, "tool")
    }

    /// The numbers of changed files and lines.
    pub(crate) fn files(&self) -> String {
        let (added, deleted) = total(&self.changes);
        format!("{} {}", counted(self.changes.len(), "file"), lines(added, deleted))
    }
}

/// The last line of a run at a terminal.
pub(crate) fn line(went: Went, figures: &Figures, terminal: OutputTerminal) -> String {
    let mut page = TextPage::new(terminal.colour);
    page.word(went.style(), went.label());
    for part in figures.parts() {
        page.plain(" · ").word(Style::Plain, &part);
    }
    page.end().take()
}

fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use subagent_protocol::api::FileChange;

    use super::*;
    use crate::exit_code::TurnOutcome;

    const PLAIN: OutputTerminal = OutputTerminal { width: 80, colour: false };

    fn figures() -> Figures {
        Figures { took: Duration::from_secs(192), tools: 0, changes: Vec::new(), tokens: None, cost: None }
    }

    fn usd(micros: u64) -> Money {
        Money { micros, currency: "USD".to_owned() }
    }

    #[test]
    fn the_line_has_the_parts_that_are_known() {
        let done = Went::Turn(TurnOutcome::Completed);
        assert_eq!(line(done, &figures(), PLAIN), "done · 3m12s\n");
        let change = |path: &str, added, deleted| FileChange {
            path: path.to_owned(),
            old_path: None,
            status: "modified".to_owned(),
            added,
            deleted,
            patch: String::new(),
        };
        let all = Figures {
            tools: 14,
            changes: vec![
                change("a", Some(80), Some(9)),
                change("b", None, None),
                change("c", Some(8), Some(0)),
            ],
            tokens: Some(41_234),
            cost: Some(usd(312_000)),
            ..figures()
        };
        let expected = "done · 3m12s · 14 tools · 3 files +88 −9 · 41k tokens · $0.31\n";
        assert_eq!(line(done, &all, PLAIN), expected);
        let one = Figures { tools: 1, changes: vec![change("a", Some(1), Some(0))], ..figures() };
        assert_eq!(line(Went::Timeout, &one, PLAIN), "timed out · 3m12s · 1 tool · 1 file +1 −0\n");
        let colour = line(done, &figures(), OutputTerminal { width: 80, colour: true });
        assert!(colour.starts_with("\u{1b}[32mdone\u{1b}[0m"), "{colour:?}");
    }
}
