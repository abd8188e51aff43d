//! The accounts charged by a worker: its own, those of the workers above it, and its controller's.
//! Each may refuse the next turn or cancel the open one. `account.rs` has the rules for one.

use subagent_protocol::data::EventData;
use subagent_protocol::ids::WorkerId;

use crate::model::Spent;

use subagent_protocol::budget::{Budget, OnLimit, OnUnknown, Scope};
use subagent_protocol::{Error, Result};

mod account;

pub use account::{Account, CostReport, Delta};

/// The owner of an account, relative to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountOwner<'a> {
    /// The worker's own account.
    Own,
    /// The account of a worker above it.
    Above(&'a WorkerId),
    /// The account of its controller.
    Controller,
}

impl AccountOwner<'_> {
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::Own | Self::Above(_) => Scope::Worker,
            Self::Controller => Scope::Controller,
        }
    }

    /// Returns the budgets that count. Turns count only for the worker itself and its controller.
    pub(super) const fn budgets(self) -> &'static [Budget] {
        match self {
            Self::Own | Self::Controller => Budget::ALL,
            Self::Above(_) => &[Budget::WallTime, Budget::Tokens, Budget::Cost],
        }
    }

    /// Returns the command that changes the limits.
    pub(super) fn change(self) -> String {
        match self {
            Self::Own => "subagent worker set".to_owned(),
            Self::Above(worker) => format!("subagent worker set --worker-id {worker}"),
            Self::Controller => "subagent budget set".to_owned(),
        }
    }

    /// Adds the id of a worker above to an error.
    pub(super) fn named(self, error: Error) -> Error {
        match self {
            Self::Above(worker) => error.with("workerId", worker.as_str()),
            Self::Own | Self::Controller => error,
        }
    }

    /// Returns the id of a worker above, for an event's data.
    pub(super) fn worker_above(self) -> Option<WorkerId> {
        match self {
            Self::Above(worker) => Some(worker.clone()),
            Self::Own | Self::Controller => None,
        }
    }
}

/// The account of a worker above another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Above {
    /// Row id of the account in the store.
    pub key: i64,
    /// The worker that has the account.
    pub worker_id: WorkerId,
    /// The account of that worker.
    pub account: Account,
}

/// The accounts charged by a worker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Accounts {
    /// The worker's own account.
    pub worker: Account,
    /// Accounts of the existing workers above it, the nearest first.
    pub above: Vec<Above>,
    /// The account of its controller.
    pub controller: Account,
}

impl Accounts {
    /// Returns all accounts with their owners.
    fn all(&self) -> impl Iterator<Item = (AccountOwner<'_>, &Account)> {
        let above = self.above.iter().map(|above| (AccountOwner::Above(&above.worker_id), &above.account));
        let own = std::iter::once((AccountOwner::Own, &self.worker));
        own.chain(above).chain(std::iter::once((AccountOwner::Controller, &self.controller)))
    }

    fn all_mut(&mut self) -> impl Iterator<Item = (AccountOwner<'_>, &mut Account)> {
        let above =
            self.above.iter_mut().map(|above| (AccountOwner::Above(&above.worker_id), &mut above.account));
        let own = std::iter::once((AccountOwner::Own, &mut self.worker));
        own.chain(above).chain(std::iter::once((AccountOwner::Controller, &mut self.controller)))
    }

    /// Charges all accounts. Returns the resulting budget events.
    pub fn spend(&mut self, spent: &Spent, now: i64) -> Vec<EventData> {
        let delta = self.worker.spend(spent, now);
        for (whose, account) in self.all_mut().skip(1) {
            account.charge(whose, &delta);
        }
        self.news(*spent == Spent::Opened, now)
    }

    /// Returns the budget events that are due now.
    pub fn news(&mut self, opens: bool, now: i64) -> Vec<EventData> {
        self.all_mut().flat_map(|(whose, account)| account.news(whose, opens, now)).collect()
    }

    /// Returns the error for which the open turn is to be canceled, if there is one.
    #[must_use]
    pub fn cancels(&self, now: i64) -> Option<Error> {
        self.all().find_map(|(whose, account)| Some(account.exceeded(whose, account.cancels(now)?, now)))
    }

    /// Returns the accounts that other workers charge, too.
    fn shared(&self) -> impl Iterator<Item = (AccountOwner<'_>, &Account)> {
        self.all().filter(|(whose, account)| *whose != AccountOwner::Own || account.is_shared())
    }

    /// Returns the exhausted shared accounts that cancel open turns of other workers, by scope, and
    /// by worker for those above.
    #[must_use]
    pub fn cancels_others(&self, now: i64) -> Vec<(Scope, Option<WorkerId>)> {
        let over = self.shared().filter(|(_, account)| account.cancels(now).is_some());
        let key = |whose: AccountOwner<'_>| match whose {
            AccountOwner::Above(worker) => (whose.scope(), Some(worker.clone())),
            AccountOwner::Own | AccountOwner::Controller => (whose.scope(), None),
        };
        over.map(|(whose, _)| key(whose)).collect()
    }

    /// Returns whether the worker shares a time limit with others.
    #[must_use]
    pub fn shares_time(&self) -> bool {
        self.shared().any(|(_, account)| account.limits.wall_time_ms.is_some())
    }

    /// Returns the milliseconds until the accounts must be checked again.
    #[must_use]
    pub fn left(&self, now: i64) -> Option<u64> {
        self.all().filter_map(|(_, account)| account.left(now)).min()
    }

    /// Returns whether no account has a limit.
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

/// Checks that another turn may be opened.
///
/// # Errors
/// `BUDGET_EXCEEDED{scope,workerId?,budget,limit,used,unit}`,
/// `BUDGET_UNKNOWN{scope,workerId?,budget,unreported}`.
pub fn may_open(accounts: &Accounts, now: i64) -> Result<()> {
    accounts.allow(|_| true, now)
}

/// Checks that the worker may create tasks. Like [`may_open`], but the current turn may be its
/// last.
///
/// # Errors
/// Those of [`may_open`].
pub fn may_give_work(accounts: &Accounts, now: i64) -> Result<()> {
    accounts.allow(|budget| budget != Budget::Turns, now)
}
