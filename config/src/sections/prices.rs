//! Token prices: the key `prices`. Pure.
//!
//! Unknown keys are errors: a misspelled price must not be 0.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::check::{CheckResult, mismatch, named, refuse};
use crate::section::Section;

const KEY: &str = "prices";
const KEYS: [&str; 5] = ["input", "output", "cachedRead", "cachedWrite", "currency"];
/// The currency of prices without one.
const CURRENCY: &str = "USD";
/// Maximum price of a million tokens.
const MAX_PRICE: f64 = 1_000_000.0;
/// Maximum length of a currency in characters.
const MAX_CURRENCY_CHARS: usize = 16;

/// Prices per million tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// Price of input tokens.
    pub input: f64,
    /// Price of output tokens, including thoughts.
    pub output: f64,
    /// Price of tokens read from the cache.
    pub cached_read: f64,
    /// Price of tokens written to the cache.
    pub cached_write: f64,
    /// The currency of these prices.
    pub currency: String,
}

/// Prices by model, or by launcher for unknown models.
pub type Prices = BTreeMap<String, Price>;

pub(crate) fn prices(root: &Map<String, Value>) -> CheckResult<Prices> {
    named(root, KEY, KEY, price)
}

fn price(name: &str, value: &Value) -> CheckResult<Price> {
    let given = Section::of(value, format!("{KEY}.{name}"))?;
    given.only(&KEYS)?;
    let amount = |key: &str| match given.value(key) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(amount) if (0.0..=MAX_PRICE).contains(&amount) => Ok(Some(amount)),
            Some(_) => refuse(given.place(key), format!("must be from 0 to {MAX_PRICE}")),
            None => mismatch(given.place(key), "a number", value),
        },
    };
    let required = |key: &str| match amount(key)? {
        Some(amount) => Ok(amount),
        None => refuse(given.place(key), "is missing: the price of a million tokens"),
    };
    let currency = given.text("currency")?.unwrap_or_else(|| CURRENCY.to_owned());
    if currency.len() > MAX_CURRENCY_CHARS || !currency.chars().all(|letter| letter.is_ascii_alphanumeric()) {
        return refuse(given.place("currency"), "is not a currency; write one like USD");
    }
    let input = required("input")?;
    Ok(Price {
        input,
        output: required("output")?,
        cached_read: amount("cachedRead")?.unwrap_or(input),
        cached_write: amount("cachedWrite")?.unwrap_or(input),
        currency,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::FieldPath;

    fn read(value: Value) -> CheckResult<Prices> {
        prices(json!({"prices": value}).as_object().unwrap())
    }

    #[test]
    fn tokens_of_the_cache_cost_as_much_as_others_unless_they_have_a_price() {
        assert_eq!(prices(&Map::new()).unwrap(), Prices::new());
        assert_eq!(read(json!(null)).unwrap(), Prices::new());
        let read = read(json!({
            "a": {"input": 3, "output": 15.5},
            "b": {"input": 1, "output": 2, "cachedRead": 0, "cachedWrite": 1.25, "currency": "EUR"},
        }));
        let price = |input, output, cached_read, cached_write, currency: &str| Price {
            input,
            output,
            cached_read,
            cached_write,
            currency: currency.to_owned(),
        };
        let expected = [("a", price(3.0, 15.5, 3.0, 3.0, "USD")), ("b", price(1.0, 2.0, 0.0, 1.25, "EUR"))];
        assert_eq!(read.unwrap(), expected.map(|(name, price)| (name.to_owned(), price)).into());
    }

    #[test]
    fn what_is_wrong_is_named_and_no_key_is_overlooked() {
        let field = |name: &str| FieldPath::Field(name.to_owned());
        for (wrong, place) in [
            (json!([]), field("prices")),
            (json!({"a": 3}), field("prices.a")),
            (json!({"a": {"input": 3}}), field("prices.a.output")),
            (json!({"a": {"input": "3", "output": 1}}), field("prices.a.input")),
            (json!({"a": {"input": -1, "output": 1}}), field("prices.a.input")),
            (json!({"a": {"input": 1, "output": 1e9}}), field("prices.a.output")),
            (json!({"a": {"input": 1, "output": 1, "currency": "U$"}}), field("prices.a.currency")),
            (
                json!({"a": {"input": 1, "output": 1, "cached": 1}}),
                FieldPath::Entry { field: "prices.a".to_owned(), key: "cached".to_owned() },
            ),
        ] {
            assert_eq!(read(wrong.clone()).unwrap_err().place, place, "{wrong}");
        }
    }
}
