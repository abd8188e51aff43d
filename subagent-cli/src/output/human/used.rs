//! What turns have used: numbers, and bars at a terminal.

use subagent_protocol::api::{UsageBy, UsageItem, UsageShown, UsageSums, UsedAmount};

use super::view::PageRenderer;
use crate::output::style::Style;
use crate::output::table::Table;

/// Columns of the longest bar.
const BAR: u64 = 20;
/// The parts of the last column of a bar, the smallest first.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// `usage`: an item a line, then their sum.
pub(super) fn shown(view: &mut PageRenderer, shown: &UsageShown) {
    let what = match shown.by {
        UsageBy::Worker => "WORKER",
        UsageBy::Agent => "AGENT",
        UsageBy::Model => "MODEL",
        UsageBy::Day => "DAY",
    };
    let mut table = Table::new(&[what, "TURNS", "TOKENS", "COST", ""]);
    let most = shown.items.iter().filter_map(|item| item.sums.tokens.used).max().unwrap_or(0);
    let total = (shown.items.len() > 1).then_some(("total", &shown.total, String::new()));
    let items = shown.items.iter().map(|item| {
        let bar = bar(item.sums.tokens.used.unwrap_or(0), most);
        (key(item), &item.sums, bar)
    });
    for (key, sums, bar) in items.chain(total) {
        let [turns, tokens, cost] = words(sums);
        let known = |is_known: bool| if is_known { Style::Plain } else { Style::Dim };
        table.row([
            (Style::Strong, key),
            (Style::Plain, &turns),
            (known(sums.tokens.used.is_some()), &tokens),
            (known(sums.cost.used.is_some()), &cost),
            (Style::Active, &bar),
        ]);
    }
    view.put(&table);
}

/// What an item is called.
#[must_use]
pub fn key(item: &UsageItem) -> &str {
    item.name.as_deref().or(item.key.as_deref()).unwrap_or("unknown")
}

/// Turns, tokens and cost. What is not known is not shown as 0.
#[must_use]
pub fn words(sums: &UsageSums) -> [String; 3] {
    let tokens = sums.tokens.used.map_or_else(|| "unknown".to_owned(), |used| used.to_string());
    let cost = match sums.cost.used.as_deref() {
        None => "unknown".to_owned(),
        Some([]) => "0".to_owned(),
        Some(amounts) => amounts.iter().map(amount).collect::<Vec<_>>().join(" + "),
    };
    [sums.turns.to_string(), tokens + &missing(sums.tokens.unreported), cost + &missing(sums.cost.unreported)]
}

fn missing(unreported: u64) -> String {
    match unreported {
        0 => String::new(),
        turns => format!(" ({turns} unreported)"),
    }
}

fn amount(of: &UsedAmount) -> String {
    let computed = match of.computed {
        0.0 => String::new(),
        all if all >= of.amount => " (computed)".to_owned(),
        part => format!(" ({} computed)", short(part)),
    };
    format!("{} {}{computed}", short(of.amount), of.currency)
}

/// With two digits behind the point, and more of an amount below one.
fn short(amount: f64) -> String {
    if amount >= 1.0 || amount == 0.0 { format!("{amount:.2}") } else { format!("{amount:.4}") }
}

fn bar(tokens: u64, most: u64) -> String {
    let eighths = (u128::from(tokens) * u128::from(BAR) * 8).checked_div(u128::from(most)).unwrap_or(0);
    let eighths = usize::try_from(eighths).unwrap_or(0);
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use subagent_protocol::api::{UsedCost, UsedTokens};

    use super::*;

    fn sums(tokens: Option<u64>, amounts: Option<&[(f64, f64)]>, unreported: u64) -> UsageSums {
        let amount = |(amount, computed): &(f64, f64)| UsedAmount {
            currency: "USD".to_owned(),
            amount: *amount,
            computed: *computed,
        };
        UsageSums {
            turns: 3,
            tokens: UsedTokens { used: tokens, unreported },
            cost: UsedCost { used: amounts.map(|amounts| amounts.iter().map(amount).collect()), unreported },
        }
    }

    #[test]
    fn what_is_unknown_is_not_shown_as_nothing() {
        assert_eq!(words(&sums(None, None, 3)), ["3", "unknown (3 unreported)", "unknown (3 unreported)"]);
        assert_eq!(words(&sums(Some(7), Some(&[]), 0)), ["3", "7", "0"]);
        assert_eq!(words(&sums(Some(7), Some(&[(1.5, 0.0)]), 1))[2], "1.50 USD (1 unreported)");
        assert_eq!(words(&sums(Some(7), Some(&[(0.0123, 0.0123)]), 0))[2], "0.0123 USD (computed)");
        assert_eq!(words(&sums(Some(7), Some(&[(1.5, 0.25)]), 0))[2], "1.50 USD (0.2500 computed)");
    }

    #[test]
    fn the_longest_bar_is_of_the_most_tokens() {
        assert_eq!((bar(7, 7).chars().count(), bar(0, 7).as_str(), bar(5, 0).as_str()), (20, "", ""));
        assert_eq!(bar(u64::MAX, u64::MAX).chars().count(), 20);
        assert_eq!(bar(1, 80), "▎");
    }
}
