//! The figures of a run: how long it took, and what it changed and used. Pure.

use std::time::Duration;

use subagent_protocol::budget::Money;
use subagent_runtime::work_tree::Changes;

use super::super::diff;
use super::went::Went;
use crate::output::ago;
use crate::output::page::Page;
use crate::output::style::Style;
use crate::output::terminal::Terminal;

/// Below this many a count is shown in full.
const KILO: u64 = 1000;
/// Millionths of a unit in one unit, and in the smallest part that is shown.
const UNIT: u64 = 1_000_000;
const CENT: u64 = 10_000;

/// The figures; what is not known is absent.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) took: Duration,
    pub(super) tools: usize,
    /// The changed files.
    pub(super) changes: Changes,
    pub(super) tokens: Option<u64>,
    pub(super) cost: Option<Money>,
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
    pub(super) fn tools(&self) -> String {
        counted(self.tools, "tool")
    }

    /// The numbers of changed files and lines.
    pub(super) fn files(&self) -> String {
        let (added, deleted) = diff::total(&self.changes);
        format!("{} {}", counted(self.changes.len(), "file"), lines(added, deleted))
    }
}

/// The last line of a run at a terminal.
pub(super) fn line(went: Went, figures: &Figures, terminal: Terminal) -> String {
    let mut page = Page::new(terminal.colour);
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

/// Numbers of lines, with a minus sign as wide as the plus sign.
pub(super) fn lines(added: u64, deleted: u64) -> String {
    format!("+{added} −{deleted}")
}

/// A number of tokens, short.
pub(super) fn tokens(count: u64) -> String {
    let (number, unit) = match count {
        0..KILO => return format!("{count} tokens"),
        KILO..999_500 => (count as f64 / 1e3, "k"),
        _ => (count as f64 / 1e6, "M"),
    };
    let digits = usize::from(number < 9.95);
    format!("{number:.digits$}{unit} tokens")
}

/// An amount with two digits behind the point.
pub(super) fn money(money: &Money) -> String {
    let cents = money.micros.saturating_add(CENT / 2) / CENT;
    let amount = match (cents, money.micros) {
        (0, 1..) => "<0.01".to_owned(),
        _ => format!("{}.{:02}", cents / (UNIT / CENT), cents % (UNIT / CENT)),
    };
    match (money.currency.as_str(), amount.strip_prefix('<')) {
        ("USD", None) => format!("${amount}"),
        ("USD", Some(least)) => format!("<${least}"),
        (currency, _) => format!("{amount} {currency}"),
    }
}

#[cfg(test)]
mod tests {
    use subagent_runtime::work_tree::Change;

    use super::*;
    use crate::exit_code::TurnOutcome;

    const PLAIN: Terminal = Terminal { width: 80, colour: false };

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
        let change = |path: &str, added, deleted| Change {
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
        let colour = line(done, &figures(), Terminal { width: 80, colour: true });
        assert!(colour.starts_with("\u{1b}[32mdone\u{1b}[0m"), "{colour:?}");
    }

    #[test]
    fn numbers_are_short() {
        for (count, expected) in [
            (0, "0 tokens"),
            (999, "999 tokens"),
            (1000, "1.0k tokens"),
            (9_949, "9.9k tokens"),
            (9_950, "10k tokens"),
            (41_499, "41k tokens"),
            (999_499, "999k tokens"),
            (999_500, "1.0M tokens"),
            (12_300_000, "12M tokens"),
        ] {
            assert_eq!(tokens(count), expected);
        }
        for (micros, expected) in [
            (0, "$0.00"),
            (1, "<$0.01"),
            (4_999, "<$0.01"),
            (5_000, "$0.01"),
            (312_000, "$0.31"),
            (12_345_678, "$12.35"),
        ] {
            assert_eq!(money(&usd(micros)), expected);
        }
        assert_eq!(money(&Money { micros: 500_000, currency: "EUR".to_owned() }), "0.50 EUR");
        assert_eq!(money(&Money { micros: 1, currency: "EUR".to_owned() }), "<0.01 EUR");
    }
}
