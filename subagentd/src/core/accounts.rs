//! The accounts that stand for a worker: its own, those of the workers above it, if it has a task, and its controller's.
//!
//! What it spends is added to each of them, and each may refuse its next turn or have the open one canceled. What counts, and
//! when a budget is used up, is said by `core::budget`.

use serde_json::Value;
use subagent_protocol::budget::{Budget, OnLimit, OnUnknown, Scope};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Error, Result};

use super::budget::{Account, Spent};

/// Whose account it is, as the worker sees it that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose<'a> {
    /// Its own.
    Own,
    /// That of a worker above it.
    Above(&'a WorkerId),
    /// Its controller's.
    Controller,
}

impl Whose<'_> {
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::Own | Self::Above(_) => Scope::Worker,
            Self::Controller => Scope::Controller,
        }
    }

    /// What of it counts. Turns are a worker's own, and its controller's.
    pub(super) const fn budgets(self) -> &'static [Budget] {
        match self {
            Self::Own | Self::Controller => Budget::ALL,
            Self::Above(_) => &[Budget::WallTime, Budget::Tokens, Budget::Cost],
        }
    }

    /// The command that changes its limits.
    pub(super) fn change(self) -> String {
        match self {
            Self::Own => "subagent worker set".to_owned(),
            Self::Above(worker) => format!("subagent worker set --worker-id {worker}"),
            Self::Controller => "subagent budget set".to_owned(),
        }
    }

    /// With whose it is, if it is another worker's.
    pub(super) fn named(self, error: Error) -> Error {
        match self {
            Self::Above(worker) => error.with("workerId", worker.as_str()),
            Self::Own | Self::Controller => error,
        }
    }

    /// The same of an event's data.
    pub(super) fn said(self, mut data: Value) -> Value {
        if let Self::Above(worker) = self {
            data["workerId"] = worker.as_str().into();
        }
        data
    }
}

/// The account of a worker above another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Above {
    /// The key by which it is stored.
    pub key: i64,
    /// The worker.
    pub worker_id: WorkerId,
    /// Its account.
    pub account: Account,
}

/// The accounts that stand for a worker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Accounts {
    /// Its own.
    pub worker: Account,
    /// Those of the workers above it that are still there, the nearest first.
    pub above: Vec<Above>,
    /// Its controller's.
    pub controller: Account,
}

impl Accounts {
    /// All of them, with whose they are.
    fn all(&self) -> impl Iterator<Item = (Whose<'_>, &Account)> {
        let above = self.above.iter().map(|above| (Whose::Above(&above.worker_id), &above.account));
        let own = std::iter::once((Whose::Own, &self.worker));
        own.chain(above).chain(std::iter::once((Whose::Controller, &self.controller)))
    }

    fn all_mut(&mut self) -> impl Iterator<Item = (Whose<'_>, &mut Account)> {
        let above = self.above.iter_mut().map(|above| (Whose::Above(&above.worker_id), &mut above.account));
        let own = std::iter::once((Whose::Own, &mut self.worker));
        own.chain(above).chain(std::iter::once((Whose::Controller, &mut self.controller)))
    }

    /// Takes in what the worker has spent, and gives what is to be told.
    pub fn spend(&mut self, spent: &Spent, now: i64) -> Vec<(EventType, Value)> {
        let delta = self.worker.spend(spent, now);
        for (whose, account) in self.all_mut().skip(1) {
            account.charge(whose, &delta);
        }
        self.news(*spent == Spent::Opened, now)
    }

    /// What is to be told now.
    pub fn news(&mut self, opens: bool, now: i64) -> Vec<(EventType, Value)> {
        self.all_mut().flat_map(|(whose, account)| account.news(whose, opens, now)).collect()
    }

    /// Why the open turn is to be canceled, if it is.
    #[must_use]
    pub fn cancels(&self, now: i64) -> Option<Error> {
        self.all().find_map(|(whose, account)| Some(account.exceeded(whose, account.cancels(now)?, now)))
    }

    /// Those that are others', too.
    fn shared(&self) -> impl Iterator<Item = (Whose<'_>, &Account)> {
        self.all().filter(|(whose, account)| *whose != Whose::Own || account.is_shared())
    }

    /// Whose is used up so that open turns of other workers are to be canceled, too: by scope, and by worker if it is above.
    #[must_use]
    pub fn cancels_others(&self, now: i64) -> Vec<(Scope, Option<WorkerId>)> {
        let over = self.shared().filter(|(_, account)| account.cancels(now).is_some());
        let key = |whose: Whose<'_>| match whose {
            Whose::Above(worker) => (whose.scope(), Some(worker.clone())),
            Whose::Own | Whose::Controller => (whose.scope(), None),
        };
        over.map(|(whose, _)| key(whose)).collect()
    }

    /// Whether the time of others is limited together with that of the worker.
    #[must_use]
    pub fn shares_time(&self) -> bool {
        self.shared().any(|(_, account)| account.limits.wall_time_ms.is_some())
    }

    /// In how many milliseconds something is to be looked at.
    #[must_use]
    pub fn left(&self, now: i64) -> Option<u64> {
        self.all().filter_map(|(_, account)| account.left(now)).min()
    }

    /// Whether nothing is limited.
    #[must_use]
    pub fn is_boundless(&self) -> bool {
        self.all().all(|(_, account)| account.limits.is_boundless())
    }

    fn allow(&self, counts: impl Fn(Budget) -> bool, now: i64) -> Result<()> {
        for (whose, account) in self.all() {
            for &budget in whose.budgets().iter().filter(|budget| counts(**budget)) {
                if account.is_used_up(budget, now) && account.limits.on_limit() != OnLimit::Warn {
                    return Err(account.exceeded(whose, budget, now));
                }
                if account.is_unknown(budget) && account.limits.on_unknown() == OnUnknown::Refuse {
                    return Err(account.unknown(whose, budget));
                }
            }
        }
        Ok(())
    }
}

/// Whether another turn may be opened.
///
/// # Errors
/// `BUDGET_EXCEEDED{scope,workerId?,budget,limit,used,unit}`, `BUDGET_UNKNOWN{scope,workerId?,budget,unreported}`.
pub fn may_open(accounts: &Accounts, now: i64) -> Result<()> {
    accounts.allow(|_| true, now)
}

/// Whether others may be given work: as for another turn, but that the present one may be the last.
///
/// # Errors
/// Those of [`may_open`].
pub fn may_give_work(accounts: &Accounts, now: i64) -> Result<()> {
    accounts.allow(|budget| budget != Budget::Turns, now)
}
