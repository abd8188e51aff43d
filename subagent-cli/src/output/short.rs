//! Numbers as they fit into a line or a column. Pure.

use subagent_protocol::budget::Money;

/// Below this many a count is shown in full.
const KILO: u64 = 1000;
/// Millionths of a unit in one unit, and in the smallest part that is shown.
const UNIT: u64 = 1_000_000;
const CENT: u64 = 10_000;

/// Numbers of lines, with a minus sign as wide as the plus sign.
#[must_use]
pub fn lines(added: u64, deleted: u64) -> String {
    format!("+{added} −{deleted}")
}

/// A count in at most four columns, up to a billion.
#[must_use]
pub fn count(count: u64) -> String {
    let (number, unit) = match count {
        0..KILO => return count.to_string(),
        KILO..999_500 => (count as f64 / 1e3, "k"),
        _ => (count as f64 / 1e6, "M"),
    };
    let digits = usize::from(number < 9.95);
    format!("{number:.digits$}{unit}")
}

/// A number of tokens.
#[must_use]
pub fn tokens(number: u64) -> String {
    format!("{} tokens", count(number))
}

/// An amount with two digits behind the point.
#[must_use]
pub fn money(money: &Money) -> String {
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
    use super::*;

    fn usd(micros: u64) -> Money {
        Money { micros, currency: "USD".to_owned() }
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
