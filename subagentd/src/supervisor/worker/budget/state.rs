//! What an actor knows of the budgets of its worker, and when it checks them again.

use crate::supervisor::worker::STORE_RETRY;
use subagent_core::model::Fact;
use subagent_protocol::Error;
use subagent_protocol::budget::Scope;
use subagent_protocol::ids::WorkerId;
use tokio::sync::watch;
use tokio::time::Instant;

/// Budget state of an actor.
pub(crate) struct Budgets {
    /// Whether any limit applies.
    pub(crate) limited: bool,
    /// Whether the budgets must be checked.
    pub(crate) stale: bool,
    /// When to check them again.
    pub(crate) at: Option<Instant>,
    /// Exhausted shared budgets that canceled others' turns at the last check.
    pub(crate) over: Vec<(Scope, Option<WorkerId>)>,
    /// Whether time on a shared budget was running at the last check.
    shares_time: bool,
    /// Notified when shared budgets were changed or are exhausted.
    pub(crate) news: watch::Receiver<u64>,
}

impl Budgets {
    pub(crate) fn new(news: watch::Receiver<u64>) -> Self {
        Self { limited: true, stale: true, at: None, over: Vec::new(), shares_time: false, news }
    }

    /// Updates the state from committed facts.
    pub(crate) fn see(&mut self, facts: &[Fact]) {
        self.stale |= self.limited && facts.iter().any(|fact| matches!(fact, Fact::Spent(_)));
    }

    /// Returns whether there is an unseen change of shared budgets.
    pub(crate) fn has_news(&self) -> bool {
        self.news.has_changed().unwrap_or(false)
    }

    /// Requires a check, even if no limit applied before.
    pub(crate) fn is_news(&mut self) {
        self.stale = true;
    }

    /// Requires a check when the timer fires.
    pub(crate) fn is_due(&mut self) {
        (self.at, self.stale) = (None, true);
    }

    /// Schedules another check after a failure of the store.
    pub(crate) fn look_later(&mut self, worker: &WorkerId, error: &Error) {
        tracing::warn!(%worker, %error, "budgets cannot be checked; trying again");
        self.at = Some(Instant::now() + STORE_RETRY);
    }

    /// Updates whether time on a shared budget runs. When it stops, the others' timers are too
    /// late, and `others` are told.
    pub(crate) fn time_runs(&mut self, shares: bool, others: &watch::Sender<u64>) {
        if std::mem::replace(&mut self.shares_time, shares) && !shares {
            others.send_modify(|changes| *changes += 1);
        }
    }
}
