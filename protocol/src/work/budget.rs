//! Budgets: limits and usage of a worker with its tasks, or of all workers of a controller. Pure.
//! Unreported usage is unknown and never 0. Reported usage counts as a bounded number, or not at
//! all.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Code, Error, Result};
use crate::fields;
use crate::ids::{ControllerId, WorkerId};
use crate::lenient::{self, Lenient};
use crate::state::words;

/// Highest limit of turns, tokens and milliseconds, and highest accepted report.
pub const MAX_AMOUNT: u64 = 1_000_000_000_000_000;
/// The highest limit of a cost.
pub const MAX_COST: f64 = 1_000_000_000.0;
/// Number of counted parts in one unit of cost.
const MICROS: f64 = 1_000_000.0;
/// Maximum length of a currency's name; longer ones are ignored.
const MAX_CURRENCY_CHARS: usize = 16;

words! {
    /// The quantity that a limit bounds.
    Budget {
        /// Number of turns that were accepted.
        Turns = "turns",
        /// Time with an open turn that waits for no answer.
        WallTime = "wallTime",
        /// Tokens, as reported by agents at the end of a turn.
        Tokens = "tokens",
        /// Cost of sessions, as reported by agents.
        Cost = "cost",
    }
}

words! {
    /// The owner of a budget.
    Scope {
        /// A single worker. Time, tokens and cost of the tasks below it count too.
        Worker = "worker",
        /// All workers of a controller together.
        Controller = "controller",
    }
}

words! {
    /// What happens when a budget is used up.
    OnLimit {
        /// The next turn is refused.
        Refuse = "refuse",
        /// The open turn is canceled too.
        Cancel = "cancel",
        /// An event reports it, and work continues.
        Warn = "warn",
    }
}

words! {
    /// What happens if the usage of a budget is unknown.
    OnUnknown {
        /// The next turn is refused.
        Refuse = "refuse",
        /// An event reports it once.
        Warn = "warn",
    }
}

/// The limits of a budget. Absent ones are unlimited.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Maximum number of turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Maximum time with an open turn that waits for no answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_time_ms: Option<u64>,
    /// Maximum number of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Maximum cost, in the currency that the agents report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What happens at a limit; if absent, the next turn is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_limit: Option<OnLimit>,
    /// What happens if the usage is unknown; if absent, an event reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_unknown: Option<OnUnknown>,
}

impl Limits {
    /// Whether no field is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether there is no limit.
    #[must_use]
    pub fn is_boundless(&self) -> bool {
        self.turns.is_none() && self.wall_time_ms.is_none() && self.tokens.is_none() && self.cost.is_none()
    }

    /// Returns what happens when a budget is used up.
    #[must_use]
    pub fn on_limit(&self) -> OnLimit {
        self.on_limit.unwrap_or(OnLimit::Refuse)
    }

    /// Returns what happens if the usage is unknown.
    #[must_use]
    pub fn on_unknown(&self) -> OnUnknown {
        self.on_unknown.unwrap_or(OnUnknown::Warn)
    }

    /// Checks limits from outside.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT{field}` for the first invalid limit.
    pub fn check(&self) -> Result<()> {
        let counts = [("turns", self.turns), ("wallTimeMs", self.wall_time_ms), ("tokens", self.tokens)];
        for (name, count) in counts {
            if let Some(count) = count
                && !(1..=MAX_AMOUNT).contains(&count)
            {
                return Err(wrong(name, &format!("a whole number from 1 to {MAX_AMOUNT}")));
            }
        }
        match self.cost {
            Some(cost) if !(cost > 0.0 && cost <= MAX_COST) => {
                Err(wrong("cost", &format!("a number above 0, at most {MAX_COST}")))
            }
            _ => Ok(()),
        }
    }
}

fn wrong(name: &str, wanted: &str) -> Error {
    let field = format!("budget.{name}");
    Error::new(Code::InvalidArgument, format!("{field} must be {wanted}")).with("field", field)
}

/// A change of limits: absent fields stay, null removes a limit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LimitsChange {
    /// Maximum number of turns.
    #[serde(deserialize_with = "present_option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub turns: Option<Option<u64>>,
    /// Maximum time in milliseconds.
    #[serde(deserialize_with = "present_option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub wall_time_ms: Option<Option<u64>>,
    /// Maximum number of tokens.
    #[serde(deserialize_with = "present_option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub tokens: Option<Option<u64>>,
    /// Maximum cost, in the reported currency.
    #[serde(deserialize_with = "present_option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub cost: Option<Option<f64>>,
    /// What happens at a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_limit: Option<OnLimit>,
    /// What happens if the usage is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_unknown: Option<OnUnknown>,
}

/// Deserializes a present value, including null.
fn present_option<'de, D, T>(deserializer: D) -> std::result::Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

impl LimitsChange {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the limits with this change.
    #[must_use]
    pub fn over(&self, before: &Limits) -> Limits {
        Limits {
            turns: self.turns.unwrap_or(before.turns),
            wall_time_ms: self.wall_time_ms.unwrap_or(before.wall_time_ms),
            tokens: self.tokens.unwrap_or(before.tokens),
            cost: self.cost.unwrap_or(before.cost),
            on_limit: self.on_limit.or(before.on_limit),
            on_unknown: self.on_unknown.or(before.on_unknown),
        }
    }
}

/// An amount of money in millionths of its unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Money {
    /// Millionths of the currency's unit.
    pub micros: u64,
    /// Name of the currency.
    pub currency: String,
}

/// The `cost` of a `usage_update`, as an agent sent it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct UsageCost<'a> {
    amount: Lenient<f64>,
    #[serde(borrow)]
    currency: Lenient<&'a str>,
}

impl Money {
    /// Returns the cost of an agent's session so far, from the `cost` of a `usage_update`.
    #[must_use]
    pub fn of(cost: &Value) -> Option<Self> {
        let UsageCost { amount, currency } = lenient::read(cost);
        let micros = micros(amount.0?)?;
        let currency = currency.0?.trim();
        let plain = currency.chars().all(|letter| letter.is_ascii_alphanumeric());
        let named = plain && (1..=MAX_CURRENCY_CHARS).contains(&currency.len());
        named.then(|| Self { micros, currency: currency.to_owned() })
    }
}

/// Returns an amount in millionths; `None` if it is invalid.
#[must_use]
pub fn micros(amount: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and MAX_AMOUNT")]
    let counted = |amount: f64| (amount.min(MAX_COST) * MICROS).round() as u64;
    (amount.is_finite() && amount >= 0.0).then(|| counted(amount))
}

/// Returns the tokens of a turn, from the response to its prompt; `None` if they are not reported.
#[must_use]
pub fn tokens(usage: Option<&Value>, meta: Option<&Value>) -> Option<u64> {
    const PARTS: [&str; 5] =
        ["inputTokens", "outputTokens", "thoughtTokens", "cachedReadTokens", "cachedWriteTokens"];
    let reported = fields::usage_of_turn(usage, meta)?;
    match reported.get("totalTokens") {
        Some(total) => count(total),
        None => {
            let parts: Vec<&Value> = PARTS.iter().filter_map(|part| reported.get(*part)).collect();
            let sum = parts.iter().try_fold(0, |sum: u64, part| Some(sum.saturating_add(count(part)?)));
            sum.filter(|_| !parts.is_empty()).map(|sum| sum.min(MAX_AMOUNT))
        }
    }
}

/// Returns a number that an agent reported; `None` for a negative one and for other types.
#[must_use]
pub fn count(reported: &Value) -> Option<u64> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates, and is not negative"
    )]
    let whole = |number: f64| (number >= 0.0).then_some(number as u64);
    reported.as_u64().or_else(|| whole(reported.as_f64()?)).map(|count| count.min(MAX_AMOUNT))
}

/// The usage of a budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Used {
    /// The known usage; null if no usage was ever reported.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub used: Value,
    /// The limit; null without one.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub limit: Value,
    /// `turns`, `seconds`, `tokens`, or a currency; null until one was reported.
    pub unit: Option<String>,
    /// Number of turns with unknown usage, which are not in `used`.
    pub unreported: u64,
    /// For a worker: its own part, if tasks below it have used some too.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub own: Option<Value>,
}

/// Deserializes a present value, including null.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Usage and limits of a worker with the tasks below it, or of all workers of a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BudgetView {
    /// Turns that were accepted.
    pub turns: Used,
    /// Time with an open turn that waits for no answer.
    pub wall_time: Used,
    /// Tokens that were reported.
    pub tokens: Used,
    /// Cost that was reported.
    pub cost: Used,
    /// What happens at a limit.
    pub on_limit: OnLimit,
    /// What happens if the usage is unknown.
    pub on_unknown: OnUnknown,
}

/// The budget of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerBudget {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Label of the worker.
    pub label: String,
    /// The worker's usage and its limits.
    #[serde(flatten)]
    pub budget: BudgetView,
}

/// Data of `budget.shown` and `budget.set`: a controller's budget, and those of its workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BudgetsShown {
    /// Id of the controller.
    pub controller_id: ControllerId,
    /// Usage of all of its workers together, including removed ones.
    pub controller: BudgetView,
    /// Its workers, newest first.
    pub workers: Vec<WorkerBudget>,
}

/// Converts milliseconds to seconds.
#[must_use]
pub fn seconds(millis: u64) -> Value {
    #[allow(clippy::cast_precision_loss, reason = "a time that is shown")]
    match millis % 1000 {
        0 => json!(millis / 1000),
        _ => json!(millis as f64 / 1000.0),
    }
}

/// Converts millionths to units of the currency.
#[must_use]
pub fn amount(micros: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "an amount that is shown")]
    let amount = micros as f64 / MICROS;
    amount
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_amounts_are_ignored_and_large_ones_capped() {
        let of = |amount: Value| Money::of(&json!({"amount": amount, "currency": "USD"})).map(|m| m.micros);
        assert_eq!(of(json!(0.0016)), Some(1600));
        assert_eq!((of(json!(0)), of(json!(3))), (Some(0), Some(3_000_000)));
        assert_eq!(of(json!(1e308)), Some(MAX_AMOUNT));
        for wrong in [json!(-0.1), json!("1"), json!(null), json!([1]), json!({}), json!(true)] {
            assert_eq!(of(wrong.clone()), None, "{wrong}");
        }
        for wrong in
            [json!(null), json!(""), json!(" "), json!("a\u{1b}[1m"), json!("x".repeat(17)), json!(1)]
        {
            assert_eq!(Money::of(&json!({"amount": 1, "currency": wrong})), None, "{wrong}");
        }
        assert_eq!(Money::of(&Value::Null), None);
        assert_eq!((micros(f64::NAN), micros(f64::INFINITY)), (None, None));
    }

    #[test]
    fn tokens_are_the_total_or_the_sum_of_the_parts() {
        let of = |usage: Value| tokens(Some(&usage), None);
        assert_eq!(of(json!({"totalTokens": 120, "inputTokens": 100})), Some(120));
        assert_eq!(of(json!({"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 3})), Some(123));
        assert_eq!(of(json!({"totalTokens": 0})), Some(0));
        assert_eq!(of(json!({"totalTokens": 1e308})), Some(MAX_AMOUNT));
        assert_eq!(of(json!({"inputTokens": u64::MAX, "outputTokens": u64::MAX})), Some(MAX_AMOUNT));
        let quota = json!({"quota": {"token_count": {"input_tokens": 5, "output_tokens": 2}}});
        assert_eq!(tokens(None, Some(&quota)), Some(7));
        for unknown in [
            json!(null),
            json!({}),
            json!({"totalTokens": -1}),
            json!({"totalTokens": "120"}),
            json!({"inputTokens": -5, "outputTokens": 2}),
            json!({"steps": 4}),
            json!([1, 2]),
        ] {
            assert_eq!(of(unknown.clone()), None, "{unknown}");
        }
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name_and_null_takes_away() {
        let before = Limits { turns: Some(3), tokens: Some(5), ..Limits::default() };
        let change: LimitsChange = serde_json::from_value(json!({"turns": null, "cost": 1.5})).unwrap();
        let after = change.over(&before);
        assert_eq!(after, Limits { tokens: Some(5), cost: Some(1.5), ..Limits::default() });
        assert_eq!(serde_json::to_value(&change).unwrap(), json!({"turns": null, "cost": 1.5}));
        assert!(serde_json::from_value::<LimitsChange>(json!({"token": 1})).is_err());
    }

    #[test]
    fn limits_have_bounds() {
        let ok =
            Limits { turns: Some(1), wall_time_ms: Some(MAX_AMOUNT), cost: Some(0.01), ..Limits::default() };
        ok.check().unwrap();
        for wrong in [
            Limits { turns: Some(0), ..Limits::default() },
            Limits { tokens: Some(MAX_AMOUNT + 1), ..Limits::default() },
            Limits { wall_time_ms: Some(0), ..Limits::default() },
            Limits { cost: Some(0.0), ..Limits::default() },
            Limits { cost: Some(f64::NAN), ..Limits::default() },
            Limits { cost: Some(1e308), ..Limits::default() },
        ] {
            assert_eq!(wrong.check().unwrap_err().code, Code::InvalidArgument, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn reported_numbers_never_exceed_the_maximum(number in any::<f64>()) {
            let reported = json!({"totalTokens": number, "amount": number, "currency": "X"});
            prop_assert!(tokens(Some(&reported), None).is_none_or(|count| count <= MAX_AMOUNT));
            prop_assert!(Money::of(&reported).is_none_or(|money| money.micros <= MAX_AMOUNT));
        }
    }
}
