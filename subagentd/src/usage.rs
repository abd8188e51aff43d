//! Sums of the usage of turns by worker, agent, model or day. `subagent_core::accounts` defines what counts as
//! reported. Unreported usage is unknown, not 0.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use subagent_config::prices::{Price, Prices};
use subagent_protocol::api::{UsageBy, UsageItem, UsageShown, UsageSums, UsedAmount, UsedCost, UsedTokens};
use subagent_protocol::budget::{self, Money};
use subagent_protocol::time::Timestamp;

/// A turn with its reported usage.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UsedTurn {
    /// Id of its worker.
    pub worker_id: String,
    /// Name of its worker.
    pub name: Option<String>,
    /// Launcher of its worker.
    pub agent: String,
    /// The model at the end of the turn.
    pub model: Option<String>,
    /// Start time of the turn.
    pub at: Option<Timestamp>,
    /// Whether its prompt was sent.
    pub sent: bool,
    /// Whether the turn has ended.
    pub ended: bool,
    /// Total number of tokens, if reported.
    pub tokens: Option<u64>,
    /// Reported numbers of tokens by name.
    pub counts: Option<Value>,
    /// The amount that it added to the cost of its session.
    pub cost: Option<Money>,
    /// Whether a cost report covers the turn.
    pub priced: bool,
}

impl UsedTurn {
    fn key(&self, by: UsageBy) -> Option<String> {
        match by {
            UsageBy::Worker => Some(self.worker_id.clone()),
            UsageBy::Agent => Some(self.agent.clone()),
            UsageBy::Model => self.model.clone(),
            UsageBy::Day => Some(self.at?.to_string().split('T').next()?.to_owned()),
        }
    }

    /// Returns the cost computed from prices, for a turn without a reported cost.
    fn computed(&self, prices: &Prices) -> Option<Money> {
        if !self.ended || self.priced || self.cost.is_some() {
            return None;
        }
        let price = self.model.as_ref().and_then(|model| prices.get(model));
        let price = price.or_else(|| prices.get(&self.agent))?;
        let micros = micros(price, self.counts.as_ref()?)?;
        Some(Money { micros, currency: price.currency.clone() })
    }
}

/// Returns the price of tokens in millionths, or `None` if neither input nor output tokens are
/// known.
fn micros(price: &Price, counts: &Value) -> Option<u64> {
    let of = |name: &str| match counts.get(name) {
        None => Some(0),
        Some(reported) => budget::count(reported),
    };
    let is_known = ["inputTokens", "outputTokens"].iter().any(|name| counts.get(name).is_some());
    let parts = [
        (of("inputTokens")?, price.input),
        (of("outputTokens")?, price.output),
        (of("thoughtTokens")?, price.output),
        (of("cachedReadTokens")?, price.cached_read),
        (of("cachedWriteTokens")?, price.cached_write),
    ];
    // The price of a million tokens equals the price of one token in millionths.
    #[allow(clippy::cast_precision_loss, reason = "at most 10^15")]
    let micros: f64 = parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum();
    budget::micros(micros / 1_000_000.0).filter(|_| is_known)
}

/// A sum while turns are added.
#[derive(Debug, Default)]
struct Sum {
    name: Option<String>,
    turns: u64,
    sent: bool,
    tokens: Option<u64>,
    tokens_unreported: u64,
    /// By currency: the total amount, and its computed part, in millionths.
    cost: BTreeMap<String, (u64, u64)>,
    cost_unreported: u64,
}

impl Sum {
    fn add(&mut self, turn: &UsedTurn, computed: Option<&Money>) {
        let is_over = turn.sent && turn.ended;
        self.turns += 1;
        self.sent |= turn.sent;
        match turn.tokens {
            Some(tokens) => self.tokens = Some(self.tokens.unwrap_or(0).saturating_add(tokens)),
            None => self.tokens_unreported += u64::from(is_over),
        }
        for (money, is_computed) in [(turn.cost.as_ref(), false), (computed, true)] {
            if let Some(Money { micros, currency }) = money {
                let sum = self.cost.entry(currency.clone()).or_default();
                sum.0 = sum.0.saturating_add(*micros);
                sum.1 = sum.1.saturating_add(if is_computed { *micros } else { 0 });
            }
        }
        self.cost_unreported += u64::from(is_over && !turn.priced && computed.is_none());
    }

    fn shown(self) -> UsageSums {
        let amount = |(currency, (micros, computed))| UsedAmount {
            currency,
            amount: budget::amount(micros),
            computed: budget::amount(computed),
        };
        let unknown_cost = self.cost.is_empty() && self.sent;
        let cost = (!unknown_cost).then(|| self.cost.into_iter().map(amount).collect());
        UsageSums {
            turns: self.turns,
            tokens: UsedTokens {
                used: self.tokens.or((!self.sent).then_some(0)),
                unreported: self.tokens_unreported,
            },
            cost: UsedCost { used: cost, unreported: self.cost_unreported },
        }
    }
}

/// Sums of usage by key.
#[derive(Debug)]
pub(crate) struct Sums<'a> {
    by: UsageBy,
    prices: &'a Prices,
    items: BTreeMap<Option<String>, Sum>,
    total: Sum,
}

impl<'a> Sums<'a> {
    /// Creates sums of no turns.
    #[must_use]
    pub(crate) fn new(by: UsageBy, prices: &'a Prices) -> Self {
        Self { by, prices, items: BTreeMap::new(), total: Sum::default() }
    }

    /// Adds the usage of a turn.
    pub(crate) fn add(&mut self, turn: &UsedTurn) {
        let computed = turn.computed(self.prices);
        let item = self.items.entry(turn.key(self.by)).or_default();
        if self.by == UsageBy::Worker {
            item.name.clone_from(&turn.name);
        }
        item.add(turn, computed.as_ref());
        self.total.add(turn, computed.as_ref());
    }

    /// Returns the sums by their keys.
    #[must_use]
    pub(crate) fn by_key(self) -> HashMap<String, UsageSums> {
        self.items.into_iter().filter_map(|(key, sum)| Some((key?, sum.shown()))).collect()
    }

    /// Returns the view for clients.
    #[must_use]
    pub(crate) fn shown(self, since: Option<Timestamp>) -> UsageShown {
        let item = |(key, sum): (_, Sum)| UsageItem { key, name: sum.name.clone(), sums: sum.shown() };
        let mut items: Vec<UsageItem> = self.items.into_iter().map(item).collect();
        if self.by != UsageBy::Day {
            items.sort_by(|one, other| {
                let most = other.sums.tokens.used.cmp(&one.sums.tokens.used);
                most.then_with(|| one.name.cmp(&other.name))
            });
        }
        UsageShown { by: self.by, since, items, total: self.total.shown() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(worker: &str) -> UsedTurn {
        UsedTurn {
            worker_id: worker.to_owned(),
            name: Some(format!("name of {worker}")),
            agent: "demo".to_owned(),
            model: None,
            at: Some(Timestamp(1_795_292_982_000)),
            sent: true,
            ended: true,
            tokens: None,
            counts: None,
            cost: None,
            priced: false,
        }
    }

    fn usd(micros: u64) -> Option<Money> {
        Some(Money { micros, currency: "USD".to_owned() })
    }

    fn prices() -> Prices {
        let price = |input, currency: &str| Price {
            input,
            output: 10.0,
            cached_read: 0.5,
            cached_write: 2.0,
            currency: currency.to_owned(),
        };
        [("fast", price(1.0, "USD")), ("demo", price(3.0, "EUR"))]
            .map(|(name, price)| (name.to_owned(), price))
            .into()
    }

    fn sums(by: UsageBy, prices: &Prices, turns: &[UsedTurn]) -> UsageShown {
        let mut sums = Sums::new(by, prices);
        turns.iter().for_each(|turn| sums.add(turn));
        sums.shown(None)
    }

    #[test]
    fn what_is_unknown_is_null_and_counted() {
        let none = Prices::new();
        let open = UsedTurn { ended: false, ..turn("w_1") };
        let unsent = UsedTurn { sent: false, ..turn("w_2") };
        let shown = sums(UsageBy::Worker, &none, &[turn("w_1"), open, unsent.clone()]);
        let of = |shown: &UsageShown, key: &str| {
            let item = shown.items.iter().find(|item| item.key.as_deref() == Some(key)).unwrap();
            json!(item)
        };
        let unknown = json!({"used": null, "unreported": 1});
        assert_eq!(
            of(&shown, "w_1"),
            json!({"key": "w_1", "name": "name of w_1", "turns": 2, "tokens": unknown, "cost": unknown})
        );
        let nothing = json!({"used": 0, "unreported": 0});
        assert_eq!(of(&shown, "w_2")["tokens"], nothing, "nothing was sent");
        assert_eq!(of(&shown, "w_2")["cost"], json!({"used": [], "unreported": 0}));
        assert_eq!((shown.total.turns, shown.total.tokens.used), (3, None));
        assert_eq!(json!(sums(UsageBy::Day, &none, &[]).total.tokens), nothing);
        let settled = UsedTurn { priced: true, ..turn("w_1") };
        let shown = sums(UsageBy::Worker, &none, &[settled]);
        assert_eq!(json!(shown.total.cost), json!({"used": null, "unreported": 0}), "it is in another turn");
    }

    #[test]
    fn reported_amounts_are_added_in_millionths_by_currency() {
        let priced = |micros, currency: &str| UsedTurn {
            cost: Some(Money { micros, currency: currency.to_owned() }),
            priced: true,
            tokens: Some(7),
            ..turn("w_1")
        };
        let turns = [priced(100_000, "USD"), priced(200_000, "USD"), priced(5, "EUR"), turn("w_2")];
        let shown = sums(UsageBy::Agent, &Prices::new(), &turns);
        let cost = json!({"unreported": 1, "used": [
            {"currency": "EUR", "amount": 0.000_005, "computed": 0.0},
            {"currency": "USD", "amount": 0.3, "computed": 0.0},
        ]});
        assert_eq!(json!(shown.total.cost), cost, "0.1 + 0.2 is 0.3");
        assert_eq!(json!(shown.total.tokens), json!({"used": 21, "unreported": 1}));
        assert_eq!((shown.items.len(), shown.items[0].key.as_deref()), (1, Some("demo")));
        assert_eq!(shown.items[0].sums, shown.total);
    }

    #[test]
    fn a_cost_is_computed_only_where_none_was_reported_and_says_so() {
        let counts = |counts: Value| UsedTurn {
            tokens: budget::tokens(Some(&counts), None),
            counts: Some(counts),
            ..turn("w_1")
        };
        let all = json!({
            "inputTokens": 1000, "outputTokens": 100, "thoughtTokens": 10, "cachedReadTokens": 4,
            "cachedWriteTokens": 1,
        });
        let fast = UsedTurn { model: Some("fast".to_owned()), ..counts(all.clone()) };
        let reported = UsedTurn { cost: usd(7), priced: true, ..fast.clone() };
        let computed = |turns: &[UsedTurn]| json!(sums(UsageBy::Model, &prices(), turns).total.cost);
        let cost = |amount: f64, computed: f64, currency: &str| {
            json!({"unreported": 0, "used": [
                {"currency": currency, "amount": amount, "computed": computed},
            ]})
        };
        assert_eq!(computed(std::slice::from_ref(&fast)), cost(0.002_104, 0.002_104, "USD"));
        assert_eq!(computed(&[fast.clone(), reported]), cost(0.002_111, 0.002_104, "USD"));
        let unknown_model = UsedTurn { model: Some("other".to_owned()), ..counts(json!({"inputTokens": 2})) };
        assert_eq!(computed(&[unknown_model]), cost(0.000_006, 0.000_006, "EUR"), "the price of the agent");
        let unknown = json!({"used": null, "unreported": 1});
        for odd in [json!({"totalTokens": 9}), json!({"inputTokens": -1}), json!({"steps": 1})] {
            assert_eq!(computed(&[counts(odd.clone())]), unknown, "{odd}");
        }
        assert_eq!(computed(&[UsedTurn { ended: false, ..fast }])["used"], Value::Null);
    }

    #[test]
    fn days_are_in_order_and_others_by_their_tokens() {
        let of = |day: i64, model: Option<&str>, tokens| UsedTurn {
            at: Some(Timestamp(day * 86_400_000)),
            model: model.map(str::to_owned),
            tokens,
            ..turn("w_1")
        };
        let turns = [of(2, None, None), of(1, Some("a"), Some(1)), of(1, Some("b"), Some(2))];
        let keys = |by| {
            let shown = sums(by, &Prices::new(), &turns);
            shown.items.into_iter().map(|item| item.key.unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(keys(UsageBy::Day), ["1970-01-02", "1970-01-03"]);
        assert_eq!(keys(UsageBy::Model), ["b", "a", ""]);
    }
}
