//! Usage limits of workers and controllers: the key `budgets`. Pure.
//!
//! Unknown keys are errors: a misspelled limit must not mean "no limit".

use std::time::Duration;

use serde_json::{Map, Value};

use crate::agents::keys::KeyPositions;
use crate::check::{CheckResult, mismatch, refuse};
use crate::error::FieldPath;
use crate::policy::Position;
use crate::section::Section;

const KEY: &str = "budgets";
const KEYS: [&str; 6] = ["turns", "wallTimeSeconds", "tokens", "cost", "onLimit", "onUnknown"];
/// The actions on an exhausted budget.
pub const ON_LIMIT: [&str; 3] = ["refuse", "cancel", "warn"];
/// The actions if the usage is unknown.
pub const ON_UNKNOWN: [&str; 2] = ["refuse", "warn"];
/// Maximum count. The sum of two counts must not overflow.
const MAX_COUNT: u64 = 1_000_000_000_000_000;
const MAX_COST: f64 = 1_000_000_000.0;

/// Usage limits; an absent one is unlimited.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BudgetLimits {
    /// Maximum number of turns.
    pub turns: Option<u64>,
    /// Maximum time with an open turn, without the time that the turn waits for an answer.
    pub wall_time: Option<Duration>,
    /// Maximum number of tokens.
    pub tokens: Option<u64>,
    /// Maximum cost, in the currency that agents report.
    pub cost: Option<f64>,
    /// The action on an exhausted budget: one of [`ON_LIMIT`].
    pub on_limit: Option<&'static str>,
    /// The action on unknown usage: one of [`ON_UNKNOWN`].
    pub on_unknown: Option<&'static str>,
}

/// The default limits of new workers and controllers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DefaultBudgets {
    /// The limits of one worker.
    pub worker: BudgetLimits,
    /// The limits of all workers of a controller together.
    pub controller: BudgetLimits,
}

pub(crate) fn budgets(root: &Map<String, Value>) -> CheckResult<DefaultBudgets> {
    let Some(given) = Section::root(root).section(KEY)? else { return Ok(DefaultBudgets::default()) };
    given.only(&["worker", "controller"])?;
    Ok(DefaultBudgets { worker: limits(&given, "worker")?, controller: limits(&given, "controller")? })
}

fn limits(budgets: &Section<'_>, scope: &str) -> CheckResult<BudgetLimits> {
    let Some(given) = budgets.section(scope)? else { return Ok(BudgetLimits::default()) };
    given.only(&KEYS)?;
    let word = |key: &str, words: &[&'static str]| {
        let Some(said) = given.string(key)? else { return Ok(None) };
        match words.iter().find(|word| **word == said) {
            Some(word) => Ok(Some(*word)),
            None => refuse(given.place(key), format!("says `{said}`; write {}", words.join(", "))),
        }
    };
    Ok(BudgetLimits {
        turns: given.count("turns", MAX_COUNT)?,
        wall_time: given.seconds("wallTimeSeconds", 1.0)?,
        tokens: given.count("tokens", MAX_COUNT)?,
        cost: cost(&given, "cost")?,
        on_limit: word("onLimit", &ON_LIMIT)?,
        on_unknown: word("onUnknown", &ON_UNKNOWN)?,
    })
}

/// Returns the position of this place, if it is below `budgets` and its key is in the text.
pub(crate) fn position(keys: &KeyPositions, place: &FieldPath) -> Option<Position> {
    let (field, key) = match place {
        FieldPath::Field(field) => (field, None),
        FieldPath::Entry { field, key } => (field, Some(key.as_str())),
        _ => return None,
    };
    let path: Vec<&str> = field.split('.').chain(key).collect();
    let is_below = path.len() > 1 && path.first() == Some(&KEY);
    if is_below && keys.has(&path) { keys.of(&path) } else { None }
}

fn cost(given: &Section<'_>, key: &str) -> CheckResult<Option<f64>> {
    match given.value(key) {
        None => Ok(None),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(cost) if cost > 0.0 && cost <= MAX_COST => Ok(Some(cost)),
            _ => refuse(given.place(key), format!("must be above 0 and at most {MAX_COST}")),
        },
        Some(other) => mismatch(given.place(key), "a number", other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agents::keys;

    fn read(value: Value) -> CheckResult<DefaultBudgets> {
        budgets(json!({"budgets": value}).as_object().unwrap())
    }

    #[test]
    fn what_is_absent_is_not_limited() {
        assert_eq!(budgets(&Map::new()).unwrap(), DefaultBudgets::default());
        assert_eq!(read(json!(null)).unwrap(), DefaultBudgets::default());
        let worker = json!({"turns": 20, "wallTimeSeconds": 90.5, "cost": 2, "onLimit": "cancel"});
        let read = read(json!({"worker": worker, "controller": null})).unwrap();
        assert_eq!(read.controller, BudgetLimits::default());
        let expected = BudgetLimits {
            turns: Some(20),
            wall_time: Some(Duration::from_millis(90_500)),
            cost: Some(2.0),
            on_limit: Some("cancel"),
            ..BudgetLimits::default()
        };
        assert_eq!(read.worker, expected);
    }

    #[test]
    fn what_is_wrong_is_found_in_the_text() {
        let text =
            "launchers: {}\nbudgets:\n  worker:\n    turns: 5\n    token: 9\n  controllers: {cost: 5}\n";
        let field = |name: &str| FieldPath::Field(name.to_owned());
        let entry =
            |field: &str, key: &str| FieldPath::Entry { field: field.to_owned(), key: key.to_owned() };
        for (place, expected) in [
            (field("budgets.worker.turns"), Some((4, 5))),
            (entry("budgets.worker", "token"), Some((5, 5))),
            (entry("budgets", "controllers"), Some((6, 3))),
            (field("budgets.worker"), Some((3, 3))),
            (field("budgets"), None),
            (field("budgets.worker.cost"), None),
            (field("defaults.role"), None),
        ] {
            let found = position(&keys::of(text), &place).map(|at| (at.line, at.column));
            assert_eq!(found, expected, "{place:?}");
        }
        assert!(position(&keys::of("budgets: 5"), &field("budgets.worker")).is_none());
    }

    #[test]
    fn what_is_wrong_is_named_and_no_key_is_overlooked() {
        for (wrong, place) in [
            (json!([]), "budgets"),
            (json!({"worker": 5}), "budgets.worker"),
            (json!({"worker": {"turns": 0}}), "budgets.worker.turns"),
            (json!({"worker": {"turns": 1.5}}), "budgets.worker.turns"),
            (json!({"worker": {"turns": "5"}}), "budgets.worker.turns"),
            (json!({"worker": {"tokens": -1}}), "budgets.worker.tokens"),
            (json!({"controller": {"cost": 0}}), "budgets.controller.cost"),
            (json!({"controller": {"cost": "1 USD"}}), "budgets.controller.cost"),
            (json!({"controller": {"wallTimeSeconds": 0}}), "budgets.controller.wallTimeSeconds"),
            (json!({"controller": {"wallTimeSeconds": "1h"}}), "budgets.controller.wallTimeSeconds"),
            (json!({"worker": {"onLimit": "stop"}}), "budgets.worker.onLimit"),
            (json!({"worker": {"onUnknown": "cancel"}}), "budgets.worker.onUnknown"),
        ] {
            let found = read(wrong.clone()).unwrap_err();
            assert_eq!(found.place, FieldPath::Field(place.to_owned()), "{wrong}");
        }
        for (wrong, field, key) in [
            (json!({"workers": {}}), "budgets", "workers"),
            (json!({"worker": {"token": 5}}), "budgets.worker", "token"),
        ] {
            let entry = FieldPath::Entry { field: field.to_owned(), key: key.to_owned() };
            assert_eq!(read(wrong).unwrap_err().place, entry);
        }
    }
}
