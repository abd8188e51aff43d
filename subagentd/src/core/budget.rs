//! The rules of budgets: what is counted as used, when a budget is used up, and what follows.
//!
//! Several accounts stand for every worker (`core::accounts`): what it spends is added to all of them, in the transaction that
//! stores why. No clock is looked at: whoever asks says what time it is.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use subagent_protocol::budget::{self, Budget, BudgetView, Limits, LimitsChange, Money, OnLimit, Used};
use subagent_protocol::event::EventType;
use subagent_protocol::fields;
use subagent_protocol::record::TurnEnd;
use subagent_protocol::{Code, Error, Result};

use super::accounts::Whose;
use super::approval::Approval;
use super::step::Next;
use super::worker::{Fact, State, Turn, Worker};

/// Something of a budget was used, or is known better now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spent {
    /// A turn was accepted.
    Opened,
    /// A turn is over whose prompt may have been written: what its end says of tokens.
    Closed {
        /// How many; `None` if it says nothing.
        tokens: Option<u64>,
    },
    /// The agent says what its session has cost so far.
    Cost(Money),
    /// The agent has a session that has not cost anything yet.
    NewSession,
    /// From now on time counts, or does not.
    Clock {
        /// Whether it does.
        runs: bool,
        /// Since when, if that was written down; otherwise now.
        at: Option<i64>,
    },
}

/// What a report of a session's cost changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priced {
    /// The amount since the last report.
    pub money: Money,
    /// How many of the last turns that have ended without a report it includes.
    pub settled: u64,
}

/// What an account changes by.
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
    /// It is the first that is known of what the turn has cost.
    priced: bool,
}

/// What a worker with the tasks below it, or all workers of a controller together, have used, and what they may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Account {
    /// What may be used.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    turns: u64,
    /// The time of what does not run now.
    wall_ms: u64,
    /// How many turns run, and the sum of the times since when they do.
    running: u64,
    since: i64,
    /// As far as it was reported.
    tokens: u64,
    /// Of how many turns that is, and of how many it is not known.
    tokens_known: u64,
    tokens_unknown: u64,
    cost: Option<u64>,
    currency: Option<String>,
    cost_unknown: u64,
    /// What the session had cost when it was last told.
    session_cost: u64,
    /// Turns of this session of which nothing was told since: a report is about them, too.
    unpriced: u64,
    /// Whether one has come since the last turn was opened.
    priced: bool,
    /// What was told already.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    told: Vec<Budget>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    told_unknown: Vec<Budget>,
    /// Of a controller: how often its limits were changed. Of a worker: of how many of these changes it has an event.
    pub revision: u64,
    /// Of the worker of a task: the keys of those above it, the nearest first. They are never given again, and may be gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<i64>,
    /// Of a worker: what it has used itself, as soon as that is not all. What is known of its session is here from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<Box<Account>>,
}

impl Account {
    /// An account of which nothing is used.
    #[must_use]
    pub fn new(limits: Limits, revision: u64) -> Self {
        Self { limits: counted(limits), revision, ..Self::default() }
    }

    /// Takes in what its worker has spent, and gives what the accounts above it change by.
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
            // What is told in another currency cannot be added to the rest.
            Spent::Cost(money) if self.currency.as_ref().is_some_and(|known| *known != money.currency) => {
                Delta::default()
            }
            Spent::Cost(money) => {
                // An agent that tells less than before has begun to count anew.
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
            // Said twice.
            Spent::Clock { .. } => Delta::default(),
        };
        self.add(&delta);
        delta
    }

    /// Takes in what a worker below has spent. How many turns a worker has is nobody's business above but its controller's.
    pub fn charge(&mut self, whose: Whose<'_>, delta: &Delta) {
        if whose == Whose::Controller {
            return self.add(delta);
        }
        let delta = Delta { turns: 0, ..delta.clone() };
        if delta == Delta::default() {
            return;
        }
        if self.own.is_none() {
            let (limits, told, told_unknown) = Default::default();
            let own = Self { limits, told, told_unknown, above: Vec::new(), ..self.clone() };
            self.own = Some(Box::new(own));
        }
        self.add(&delta);
    }

    /// What is the worker's own of it.
    fn own(&self) -> &Self {
        self.own.as_deref().unwrap_or(self)
    }

    /// Whether somebody below has used something of it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.own.is_some()
    }

    /// What a report of the session's cost has changed since `before`; `None` if the report did not count.
    #[must_use]
    pub fn priced_since(&self, before: &Self) -> Option<Priced> {
        let (before, now) = (before.own(), self.own());
        let micros = now.cost?.checked_sub(before.cost.unwrap_or(0))?;
        let money = Money { micros, currency: now.currency.clone()? };
        now.priced.then_some(Priced { money, settled: before.unpriced.saturating_sub(now.unpriced) })
    }

    /// What was reported of the worker's session before its first turn.
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

    /// Changes what may be used. What is not used up any more is told again when it is.
    pub fn change(&mut self, change: &LimitsChange, now: i64) -> Result<()> {
        let limits = change.over(&self.limits);
        limits.check()?;
        self.limits = counted(limits);
        let mut told = std::mem::take(&mut self.told);
        told.retain(|budget| self.is_used_up(*budget, now));
        self.told = told;
        let mut unknown = std::mem::take(&mut self.told_unknown);
        unknown.retain(|budget| self.limit(*budget).is_some());
        self.told_unknown = unknown;
        Ok(())
    }

    /// For how many milliseconds turns of the worker itself have run.
    #[must_use]
    pub fn ran_ms(&self, now: i64) -> u64 {
        self.own().used(Budget::WallTime, now)
    }

    /// Whether time of the worker itself counts now.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.own().running > 0
    }

    /// How many turns were counted.
    #[cfg(test)]
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    /// Of how many turns it was told how many tokens they took, or that nobody knows.
    #[cfg(test)]
    pub(crate) fn reported(&self) -> u64 {
        self.tokens_unknown + self.tokens_known
    }

    /// How many run.
    #[cfg(test)]
    pub(crate) fn running(&self) -> u64 {
        self.running
    }

    /// How much is used, in the unit in which it is counted.
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

    /// Whether something of what is limited was not reported.
    pub(super) fn is_unknown(&self, budget: Budget) -> bool {
        self.limit(budget).is_some() && self.unreported(budget) > 0
    }

    /// A budget for which the open turn is to be canceled. That turns are used up says nothing against the last one.
    #[must_use]
    pub fn cancels(&self, now: i64) -> Option<Budget> {
        let which = [Budget::WallTime, Budget::Tokens, Budget::Cost];
        let cancels = self.limits.on_limit() == OnLimit::Cancel;
        which.into_iter().find(|budget| cancels && self.is_used_up(*budget, now))
    }

    /// In how many milliseconds its time is used up, if turns go on as they do.
    #[must_use]
    pub fn left(&self, now: i64) -> Option<u64> {
        let left = self.limits.wall_time_ms?.saturating_sub(self.used(Budget::WallTime, now));
        (self.running > 0 && !self.told.contains(&Budget::WallTime)).then(|| left.div_ceil(self.running))
    }

    /// What is to be told now and was not before: budgets that are used up, and, when a turn is opened, those of which it is
    /// not known how much was used.
    pub fn news(&mut self, whose: Whose<'_>, opens: bool, now: i64) -> Vec<(EventType, Value)> {
        let mut news = Vec::new();
        for &budget in whose.budgets() {
            if self.is_used_up(budget, now) && !self.told.contains(&budget) {
                self.told.push(budget);
                let shown = self.shown(budget, now);
                let action = match (self.limits.on_limit(), budget) {
                    (OnLimit::Cancel, Budget::Turns) => OnLimit::Refuse,
                    (action, _) => action,
                };
                let data = json!({
                    "scope": whose.scope(), "budget": budget, "limit": shown.limit, "used": shown.used,
                    "unit": shown.unit, "action": action,
                });
                news.push((EventType::BudgetExceeded, whose.said(data)));
            }
            if opens && self.is_unknown(budget) && !self.told_unknown.contains(&budget) {
                self.told_unknown.push(budget);
                let data = json!({
                    "scope": whose.scope(), "budget": budget, "unreported": self.unreported(budget),
                    "action": self.limits.on_unknown(),
                });
                news.push((EventType::BudgetUnknown, whose.said(data)));
            }
        }
        news
    }

    /// The error that says that a budget is used up.
    #[must_use]
    pub fn exceeded(&self, whose: Whose<'_>, budget: Budget, now: i64) -> Error {
        let shown = self.shown(budget, now);
        let unit = shown.unit.clone().unwrap_or_else(|| budget.as_str().to_owned());
        let (flag, how) = (flag(budget), whose.change());
        let who = match whose {
            Whose::Own if self.is_shared() && budget != Budget::Turns => {
                "the worker and the tasks below it have".to_owned()
            }
            Whose::Own => "the worker has".to_owned(),
            Whose::Above(worker) => format!("the worker {worker} and the tasks below it have"),
            Whose::Controller => "the workers of the controller together have".to_owned(),
        };
        let message = format!("{who} used {} {unit}, and may use {}", shown.used, shown.limit);
        let error = Error::new(Code::BudgetExceeded, message)
            .with("scope", whose.scope().as_str())
            .with("budget", budget.as_str())
            .with("limit", shown.limit)
            .with("used", shown.used)
            .with("unit", unit);
        whose.named(error).recommend(format!(
            "raise the limit with `{how} {flag}`, or `{flag} none`; `subagent budget show` tells what was used"
        ))
    }

    pub(super) fn unknown(&self, whose: Whose<'_>, budget: Budget) -> Error {
        let who = match whose {
            Whose::Own if self.is_shared() => {
                "the agents of the worker and of the tasks below it have".to_owned()
            }
            Whose::Own => "the worker's agent has".to_owned(),
            Whose::Above(worker) => {
                format!("the agents of the worker {worker} and of the tasks below it have")
            }
            Whose::Controller => "the agents of the controller's workers have".to_owned(),
        };
        let (unreported, flag, how) = (self.unreported(budget), flag(budget), whose.change());
        let message =
            format!("{who} not told what {unreported} turns used of the budget {budget}, which is limited");
        let error = Error::new(Code::BudgetUnknown, message)
            .with("scope", whose.scope().as_str())
            .with("budget", budget.as_str())
            .with("unreported", unreported);
        whose.named(error).recommend(format!(
            "go on all the same with `{how} --on-unknown warn`, or take the limit away with `{flag} none`"
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

    /// What people are shown.
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

/// Limits as they are counted, whose numbers are stored to the letter.
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

/// Whether time counts: a turn is with the worker, and waits for nobody's answer.
#[must_use]
pub fn runs(worker: &Worker) -> bool {
    worker.turn().is_some()
        && !worker.holds_turn()
        && !worker.approvals.values().any(|asked| asked.approval == Approval::Pending)
}

impl Next {
    /// What the step has spent, beyond what the agent reports.
    pub(super) fn spend(&mut self, before: &Worker) {
        if self
            .facts
            .iter()
            .any(|fact| matches!(fact, Fact::TurnOpened { .. } | Fact::QueuedTurnOpened { .. }))
        {
            self.facts.push(Fact::Spent(Spent::Opened));
        }
        let runs = runs(&self.worker);
        if runs != self::runs(before) {
            self.facts.push(Fact::Spent(Spent::Clock { runs, at: None }));
        }
    }

    /// A turn is over. One whose prompt was never written has used nothing.
    pub(super) fn spend_turn(&mut self, turn: &Turn, end: Option<&TurnEnd>) {
        if !turn.dispatching {
            return;
        }
        let (usage, meta) = match end {
            Some(TurnEnd::Answered { usage, meta, .. }) => (usage.as_ref(), meta.as_ref()),
            Some(TurnEnd::Failed { .. }) | None => (None, None),
        };
        let tokens = budget::tokens(usage, meta);
        if let Some(counts) = fields::usage_of_turn(usage, meta) {
            self.facts.push(Fact::TurnUsed { no: turn.no, tokens, counts });
        }
        self.facts.push(Fact::Spent(Spent::Closed { tokens }));
    }

    /// A budget is used up for which the open turn is canceled, unless it is being canceled anyway.
    pub(super) fn over_budget(&mut self, error: Error) -> Result<()> {
        match &self.worker.state {
            State::Turn(open) if open.cancel.is_none() => {
                let reason = error.to_string();
                let turn = Some(open.no);
                self.facts.push(Fact::LastError(Some(error.clone())));
                self.facts.push(Fact::TaskCause { error, turn });
                self.cancel(reason)
            }
            _ => Ok(()),
        }
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
