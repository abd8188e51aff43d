//! One account: what counts as used, when a budget is exhausted, and what follows. The caller passes
//! the time; no clock is read.

use subagent_protocol::data::EventData;
use subagent_protocol::data::budgets::{BudgetExceeded, BudgetUnknown};

use super::AccountOwner;
use crate::model::Spent;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use subagent_protocol::budget::{Budget, BudgetView, Limits, LimitsChange, Money, OnLimit, Used};
use subagent_protocol::{Code, Error, Result, budget};

/// The effect of a cost report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostReport {
    /// The amount since the last report.
    pub money: Money,
    /// Number of ended turns without a report that this report covers.
    pub settled: u64,
}

/// A change of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    turns: u64,
    wall_ms: u64,
    running: i64,
    since: i64,
    tokens: Option<u64>,
    tokens_unknown: u64,
    cost: Option<Money>,
    cost_unknown: i64,
    /// Whether this is the first known cost of the turn.
    priced: bool,
}

/// Used amounts and limits of a worker with the tasks below it, or of all workers of a controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Account {
    /// The limits of the account.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    turns: u64,
    /// Elapsed time of turns that do not run now, in milliseconds.
    wall_ms: u64,
    /// Number of running turns, and the sum of their start times in milliseconds.
    running: u64,
    since: i64,
    /// Number of reported tokens.
    tokens: u64,
    /// Number of turns with reported tokens, and without.
    tokens_known: u64,
    tokens_unknown: u64,
    cost: Option<u64>,
    currency: Option<String>,
    cost_unknown: u64,
    /// Last reported cost of the session, in millionths of the currency.
    session_cost: u64,
    /// Turns of this session since the last report. The next report covers them.
    unpriced: u64,
    /// Whether there was a report since the last turn was opened.
    priced: bool,
    /// Budgets whose events were sent already.
    #[serde(rename = "told", skip_serializing_if = "Vec::is_empty")]
    sent: Vec<Budget>,
    #[serde(rename = "toldUnknown", skip_serializing_if = "Vec::is_empty")]
    sent_unknown: Vec<Budget>,
    /// For a controller: number of changes of its limits. For a worker: how many of them it has
    /// events about.
    pub revision: u64,
    /// For the worker of a task: row ids of the workers above it, the nearest first. Ids are not
    /// reused; the workers may be gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<i64>,
    /// For a worker whose account others charge: its own usage. From then on, it holds the state of
    /// the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<Box<Account>>,
}

impl Account {
    /// Creates an unused account.
    #[must_use]
    pub fn new(limits: Limits, revision: u64) -> Self {
        Self { limits: counted(limits), revision, ..Self::default() }
    }

    /// Charges usage of the worker. Returns the change for the accounts above.
    pub fn spend(&mut self, spent: &Spent, now: i64) -> Delta {
        if let Some(own) = &mut self.own {
            let delta = own.spend(spent, now);
            self.add(&delta);
            return delta;
        }
        let delta = match spent {
            Spent::Opened => {
                self.priced = false;
                Delta { turns: 1, ..Delta::default() }
            }
            Spent::Closed { tokens } => {
                let unpriced = !self.priced;
                self.unpriced += u64::from(unpriced);
                Delta {
                    tokens: *tokens,
                    tokens_unknown: u64::from(tokens.is_none()),
                    cost_unknown: i64::from(unpriced),
                    ..Delta::default()
                }
            }
            // Amounts in different currencies are not added.
            Spent::Cost(money) if self.currency.as_ref().is_some_and(|known| *known != money.currency) => {
                Delta::default()
            }
            Spent::Cost(money) => {
                // A smaller cost than before means that the agent has started to count anew.
                let micros = money.micros.checked_sub(self.session_cost).unwrap_or(money.micros);
                self.session_cost = money.micros;
                let settled = std::mem::take(&mut self.unpriced);
                Delta {
                    cost: Some(Money { micros, currency: money.currency.clone() }),
                    cost_unknown: -signed(settled),
                    priced: !std::mem::replace(&mut self.priced, true),
                    ..Delta::default()
                }
            }
            Spent::NewSession => {
                (self.session_cost, self.unpriced) = (0, 0);
                Delta::default()
            }
            Spent::Clock { runs: true, at } if self.running == 0 => {
                Delta { running: 1, since: at.unwrap_or(now).min(now), ..Delta::default() }
            }
            Spent::Clock { runs: false, at } if self.running > 0 => {
                let ran = at.unwrap_or(now).min(now).saturating_sub(self.since);
                let wall_ms = u64::try_from(ran).unwrap_or(0);
                Delta { wall_ms, running: -1, since: self.since.saturating_neg(), ..Delta::default() }
            }
            // Reported twice.
            Spent::Clock { .. } => Delta::default(),
        };
        self.add(&delta);
        delta
    }

    /// Charges usage of a worker below. Turns are charged only to the controller.
    pub(super) fn charge(&mut self, whose: AccountOwner<'_>, delta: &Delta) {
        if whose == AccountOwner::Controller {
            return self.add(delta);
        }
        let delta = Delta { turns: 0, ..delta.clone() };
        if delta == Delta::default() {
            return;
        }
        if self.own.is_none() {
            let (limits, sent, sent_unknown) = Default::default();
            let own = Self { limits, sent, sent_unknown, above: Vec::new(), ..self.clone() };
            self.own = Some(Box::new(own));
        }
        self.add(&delta);
    }

    /// Returns the worker's own part.
    fn own(&self) -> &Self {
        self.own.as_deref().unwrap_or(self)
    }

    /// Returns whether workers below have charged the account.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.own.is_some()
    }

    /// Returns the effect of a cost report since `before`, or `None` if the report did not count.
    #[must_use]
    pub fn priced_since(&self, before: &Self) -> Option<CostReport> {
        let (before, now) = (before.own(), self.own());
        let micros = now.cost?.checked_sub(before.cost.unwrap_or(0))?;
        let money = Money { micros, currency: now.currency.clone()? };
        now.priced.then_some(CostReport { money, settled: before.unpriced.saturating_sub(now.unpriced) })
    }

    /// Returns the cost of the worker's session before its first turn.
    #[must_use]
    pub fn cost_before_turns(&self) -> Option<Money> {
        let own = self.own();
        let (micros, currency) = (own.cost?, own.currency.clone()?);
        (own.turns == 0).then_some(Money { micros, currency })
    }

    fn add(&mut self, delta: &Delta) {
        self.turns = self.turns.saturating_add(delta.turns);
        self.wall_ms = self.wall_ms.saturating_add(delta.wall_ms);
        self.running = self.running.saturating_add_signed(delta.running);
        self.since = if self.running == 0 { 0 } else { self.since.saturating_add(delta.since) };
        if let Some(tokens) = delta.tokens {
            self.tokens = self.tokens.saturating_add(tokens);
            self.tokens_known = self.tokens_known.saturating_add(1);
        }
        self.tokens_unknown = self.tokens_unknown.saturating_add(delta.tokens_unknown);
        match &delta.cost {
            Some(money) if self.currency.as_ref().is_some_and(|known| *known != money.currency) => {
                self.cost_unknown = self.cost_unknown.saturating_add(u64::from(delta.priced));
            }
            cost => {
                if let Some(money) = cost {
                    self.cost = Some(self.cost.unwrap_or(0).saturating_add(money.micros));
                    self.currency = Some(money.currency.clone());
                }
                self.cost_unknown = self.cost_unknown.saturating_add_signed(delta.cost_unknown);
            }
        }
    }

    /// Changes the limits. A budget that is no longer exhausted sends its event again when it is.
    pub fn change(&mut self, change: &LimitsChange, now: i64) -> Result<()> {
        let limits = change.over(&self.limits);
        limits.check()?;
        self.limits = counted(limits);
        let mut sent = std::mem::take(&mut self.sent);
        sent.retain(|budget| self.is_used_up(*budget, now));
        self.sent = sent;
        let mut unknown = std::mem::take(&mut self.sent_unknown);
        unknown.retain(|budget| self.limit(*budget).is_some());
        self.sent_unknown = unknown;
        Ok(())
    }

    /// Returns the elapsed time of the worker's own turns, in milliseconds.
    #[must_use]
    pub fn ran_ms(&self, now: i64) -> u64 {
        self.own().used(Budget::WallTime, now)
    }

    /// Returns whether time of the worker's own turns counts now.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.own().running > 0
    }

    /// Returns the number of charged turns.
    #[cfg(any(test, feature = "testing"))]
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Returns the number of ended turns, with and without reported tokens.
    #[cfg(any(test, feature = "testing"))]
    pub fn reported(&self) -> u64 {
        self.tokens_unknown + self.tokens_known
    }

    /// Returns the number of running turns.
    #[cfg(any(test, feature = "testing"))]
    pub fn running(&self) -> u64 {
        self.running
    }

    /// Returns the used amount in the unit of the budget.
    fn used(&self, budget: Budget, now: i64) -> u64 {
        match budget {
            Budget::Turns => self.turns,
            Budget::WallTime => {
                let run = signed(self.running).saturating_mul(now).saturating_sub(self.since);
                self.wall_ms.saturating_add(u64::try_from(run).unwrap_or(0))
            }
            Budget::Tokens => self.tokens,
            Budget::Cost => self.cost.unwrap_or(0),
        }
    }

    fn limit(&self, budget: Budget) -> Option<u64> {
        match budget {
            Budget::Turns => self.limits.turns,
            Budget::WallTime => self.limits.wall_time_ms,
            Budget::Tokens => self.limits.tokens,
            Budget::Cost => budget::micros(self.limits.cost?),
        }
    }

    fn unreported(&self, budget: Budget) -> u64 {
        match budget {
            Budget::Turns | Budget::WallTime => 0,
            Budget::Tokens => self.tokens_unknown,
            Budget::Cost => self.cost_unknown,
        }
    }

    pub(super) fn is_used_up(&self, budget: Budget, now: i64) -> bool {
        self.limit(budget).is_some_and(|limit| self.used(budget, now) >= limit)
    }

    /// Returns whether usage of a limited budget was not reported.
    pub(super) fn is_unknown(&self, budget: Budget) -> bool {
        self.limit(budget).is_some() && self.unreported(budget) > 0
    }

    /// Returns the budget for which the open turn is to be canceled. An exhausted number of turns
    /// does not cancel the last one.
    #[must_use]
    pub fn cancels(&self, now: i64) -> Option<Budget> {
        let which = [Budget::WallTime, Budget::Tokens, Budget::Cost];
        let cancels = self.limits.on_limit() == OnLimit::Cancel;
        which.into_iter().find(|budget| cancels && self.is_used_up(*budget, now))
    }

    /// Returns the milliseconds until its time is exhausted, if the same turns keep running.
    #[must_use]
    pub fn left(&self, now: i64) -> Option<u64> {
        let left = self.limits.wall_time_ms?.saturating_sub(self.used(Budget::WallTime, now));
        (self.running > 0 && !self.sent.contains(&Budget::WallTime)).then(|| left.div_ceil(self.running))
    }

    /// Returns the events that are due and were not sent before: for exhausted budgets and, if a
    /// turn is opened, for budgets with unreported usage.
    pub fn news(&mut self, whose: AccountOwner<'_>, opens: bool, now: i64) -> Vec<EventData> {
        let mut news = Vec::new();
        for &budget in whose.budgets() {
            if self.is_used_up(budget, now) && !self.sent.contains(&budget) {
                self.sent.push(budget);
                let shown = self.shown(budget, now);
                let action = match (self.limits.on_limit(), budget) {
                    (OnLimit::Cancel, Budget::Turns) => OnLimit::Refuse,
                    (action, _) => action,
                };
                news.push(EventData::BudgetExceeded(BudgetExceeded {
                    scope: whose.scope(),
                    worker_id: whose.worker_above(),
                    budget,
                    limit: shown.limit,
                    used: shown.used,
                    unit: shown.unit,
                    action,
                }));
            }
            if opens && self.is_unknown(budget) && !self.sent_unknown.contains(&budget) {
                self.sent_unknown.push(budget);
                news.push(EventData::BudgetUnknown(BudgetUnknown {
                    scope: whose.scope(),
                    worker_id: whose.worker_above(),
                    budget,
                    unreported: self.unreported(budget),
                    action: self.limits.on_unknown(),
                }));
            }
        }
        news
    }

    /// Returns the error for an exhausted budget.
    #[must_use]
    pub fn exceeded(&self, whose: AccountOwner<'_>, budget: Budget, now: i64) -> Error {
        let shown = self.shown(budget, now);
        let unit = shown.unit.clone().unwrap_or_else(|| budget.as_str().to_owned());
        let (flag, how) = (flag(budget), whose.change());
        let who = match whose {
            AccountOwner::Own if self.is_shared() && budget != Budget::Turns => {
                "the worker and the tasks below it have".to_owned()
            }
            AccountOwner::Own => "the worker has".to_owned(),
            AccountOwner::Above(worker) => format!("the worker {worker} and the tasks below it have"),
            AccountOwner::Controller => "the workers of the controller together have".to_owned(),
        };
        let message = format!("{who} used {} {unit}; the limit is {}", shown.used, shown.limit);
        let error = Error::new(Code::BudgetExceeded, message)
            .with("scope", whose.scope().as_str())
            .with("budget", budget.as_str())
            .with("limit", shown.limit)
            .with("used", shown.used)
            .with("unit", unit);
        whose.named(error).recommend(format!(
            "raise the limit with `{how} {flag}`, or `{flag} none`; `subagent budget show` shows the usage"
        ))
    }

    pub(super) fn unknown(&self, whose: AccountOwner<'_>, budget: Budget) -> Error {
        let who = match whose {
            AccountOwner::Own if self.is_shared() => {
                "the agents of the worker and of the tasks below it have".to_owned()
            }
            AccountOwner::Own => "the worker's agent has".to_owned(),
            AccountOwner::Above(worker) => {
                format!("the agents of the worker {worker} and of the tasks below it have")
            }
            AccountOwner::Controller => "the agents of the controller's workers have".to_owned(),
        };
        let (unreported, flag, how) = (self.unreported(budget), flag(budget), whose.change());
        let message =
            format!("{who} not reported what {unreported} turns used of the limited budget {budget}");
        let error = Error::new(Code::BudgetUnknown, message)
            .with("scope", whose.scope().as_str())
            .with("budget", budget.as_str())
            .with("unreported", unreported);
        whose.named(error).recommend(format!(
            "continue anyway with `{how} --on-unknown warn`, or remove the limit with `{flag} none`"
        ))
    }

    fn shown(&self, budget: Budget, now: i64) -> Used {
        let (used, limit) = (self.used(budget, now), self.limit(budget));
        let unreported = self.unreported(budget);
        let plain = |count: u64| Value::from(count);
        let nothing = match budget {
            Budget::Tokens => self.tokens_known == 0 && unreported > 0,
            Budget::Cost => self.cost.is_none() && unreported > 0,
            Budget::Turns | Budget::WallTime => false,
        };
        let (unit, value): (_, fn(u64) -> Value) = match budget {
            Budget::Turns => (Some("turns"), plain),
            Budget::WallTime => (Some("seconds"), budget::seconds),
            Budget::Tokens => (Some("tokens"), plain),
            Budget::Cost => (self.currency.as_deref(), |micros| budget::amount(micros).into()),
        };
        Used {
            used: if nothing { Value::Null } else { value(used) },
            limit: limit.map_or(Value::Null, value),
            unit: unit.map(str::to_owned),
            unreported,
            own: match &self.own {
                Some(own) if budget != Budget::Turns => Some(own.shown(budget, now).used),
                _ => None,
            },
        }
    }

    /// Returns the view for clients.
    #[must_use]
    pub fn view(&self, now: i64) -> BudgetView {
        BudgetView {
            turns: self.shown(Budget::Turns, now),
            wall_time: self.shown(Budget::WallTime, now),
            tokens: self.shown(Budget::Tokens, now),
            cost: self.shown(Budget::Cost, now),
            on_limit: self.limits.on_limit(),
            on_unknown: self.limits.on_unknown(),
        }
    }
}

/// Rounds limits to the unit in which they are counted. Their numbers are stored exactly.
fn counted(limits: Limits) -> Limits {
    let cost = limits.cost.and_then(budget::micros).map(|micros| budget::amount(micros.max(1)));
    Limits { cost, ..limits }
}

fn flag(budget: Budget) -> &'static str {
    match budget {
        Budget::Turns => "--max-turns",
        Budget::WallTime => "--max-wall-time",
        Budget::Tokens => "--max-tokens",
        Budget::Cost => "--max-cost",
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
