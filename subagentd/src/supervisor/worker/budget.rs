//! Budgets in a worker's actor: the timer of the time limit, the cancel of a turn, and changes of
//! limits. The store accounts usage, and `core` decides what follows.

use std::time::Duration;

use serde_json::Value;
use subagent_core::accounts::Accounts;
use subagent_core::model::{Fact, LifecycleState, WorkerInput};
use subagent_core::rules::reasons::stopped_for_good;
use subagent_core::rules::usage::runs;
use subagent_protocol::budget::{LimitsChange, Scope, WorkerBudget};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::actor::Actor;
use crate::steady::steady;
use crate::store::{Durability, Execution, OwnerCheck, Tx, accounts, controllers, requests, tasks};
use crate::supervisor::entropy;

/// Delay after a failure of the store.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// A request to change a worker's limits.
pub(in crate::supervisor) struct LimitOrder {
    /// The owner handle of the request.
    pub(in crate::supervisor) owner: OwnerCheck,
    /// The idempotency key and the fingerprint of the request.
    pub(in crate::supervisor) key: Option<(String, String)>,
    /// The limits to change.
    pub(in crate::supervisor) change: LimitsChange,
    /// The label of the worker.
    pub(in crate::supervisor) label: String,
    /// Receives the response or error.
    pub(in crate::supervisor) reply: oneshot::Sender<Result<Value>>,
}

/// Budget state of an actor.
pub(super) struct Budgets {
    /// Whether any limit applies.
    limited: bool,
    /// Whether the budgets must be checked.
    stale: bool,
    /// When to check them again.
    pub(super) at: Option<Instant>,
    /// Exhausted shared budgets that canceled others' turns at the last check.
    over: Vec<(Scope, Option<WorkerId>)>,
    /// Whether time on a shared budget was running at the last check.
    shares_time: bool,
    /// Notified when shared budgets were changed or are exhausted.
    pub(super) news: watch::Receiver<u64>,
}

impl Budgets {
    pub(super) fn new(news: watch::Receiver<u64>) -> Self {
        Self { limited: true, stale: true, at: None, over: Vec::new(), shares_time: false, news }
    }

    /// Updates the state from committed facts.
    pub(super) fn see(&mut self, facts: &[Fact]) {
        self.stale |= self.limited && facts.iter().any(|fact| matches!(fact, Fact::Spent(_)));
    }

    /// Returns whether there is an unseen change of shared budgets.
    pub(super) fn has_news(&self) -> bool {
        self.news.has_changed().unwrap_or(false)
    }

    /// Requires a check, even if no limit applied before.
    pub(super) fn is_news(&mut self) {
        self.stale = true;
    }
}

impl Actor {
    /// Checks the budgets if necessary. Returns whether there is work to do now.
    pub(super) async fn look_at_budgets(&mut self) -> bool {
        if !self.budgets.stale || !self.settled || self.retry.is_some() {
            return false;
        }
        self.budgets.stale = false;
        if matches!(self.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
            self.budgets.at = None;
            self.time_runs(false);
            return false;
        }
        match self.add_budget_events().await {
            Ok(accounts) => self.follow_budgets(&accounts).await,
            Err(error) => {
                self.look_later(&error);
                false
            }
        }
    }

    pub(super) fn look_later(&mut self, error: &Error) {
        tracing::warn!(worker = %self.worker_id, %error, "budgets cannot be checked; trying again");
        self.budgets.at = Some(Instant::now() + STORE_RETRY);
    }

    /// Returns the accounts, after storing the pending budget events.
    async fn add_budget_events(&mut self) -> Result<Accounts> {
        let id = self.id;
        let known = self.shared.store.read(move |connection| accounts::accounts(connection, id)).await?;
        let now = entropy::now();
        let mut updated = known.clone();
        let heard = known.worker.revision == known.controller.revision;
        if heard && updated.news(false, steady(now)).is_empty() {
            return Ok(known);
        }
        let write = self.shared.store.write(Durability::Full, 1, move |tx| {
            let added = accounts::add_budget_events(tx, id, now)?;
            Ok((added, accounts::accounts(tx.connection(), id)?))
        });
        let (added, accounts) = write.await?;
        self.adopt(self.worker.clone(), &[], added.last().map(|(_, seq)| *seq));
        Ok(accounts)
    }

    async fn follow_budgets(&mut self, accounts: &Accounts) -> bool {
        let now = steady(entropy::now());
        self.budgets.limited = !accounts.is_boundless();
        self.worker.queue.gated = self.budgets.limited || self.tasks.is_task();
        let over = accounts.cancels_others(now);
        if over.iter().any(|one| !self.budgets.over.contains(one)) {
            // The budget is exhausted for all workers that share it.
            self.shared.budgets.send_modify(|changes| *changes += 1);
        }
        self.budgets.over = over;
        let runs = runs(&self.worker);
        self.time_runs(runs && accounts.shares_time());
        let left = accounts.left(now).filter(|_| self.budgets.limited && runs);
        // One millisecond after the limit, never before it.
        let left = left.and_then(|millis| millis.checked_add(1)).map(Duration::from_millis);
        // A time that overflows the clock means no timer.
        self.budgets.at = left.and_then(|left| Instant::now().checked_add(left));
        let open = self.worker.turn().is_some_and(|turn| turn.cancel.is_none());
        match accounts.cancels(now).filter(|_| open) {
            Some(error) => {
                self.apply(WorkerInput::OverBudget { error }).await;
                true
            }
            None => self.open_queued().await,
        }
    }

    /// Updates whether time on a shared budget runs. When it stops, the others' timers are too
    /// late.
    fn time_runs(&mut self, shares: bool) {
        if std::mem::replace(&mut self.budgets.shares_time, shares) && !shares {
            self.shared.budgets.send_modify(|changes| *changes += 1);
        }
    }

    /// Opens the turn of the first queued message, or pauses the queue.
    async fn open_queued(&mut self) -> bool {
        if !self.worker.waits_to_open() {
            return false;
        }
        let opens = WorkerInput::OpenQueued { refused: None };
        let check = |tx: &Tx<'_>, worker, now| {
            tasks::places::may_take(tx, worker)?;
            accounts::may_open_turn(tx, worker, now)
        };
        match self.apply_if(opens, check).await {
            Ok(()) => true,
            // The task tree has no free slot. The actor is notified when one becomes free.
            Err(error) if error.code == Code::WorkerBusy => false,
            Err(error) if matches!(error.code, Code::BudgetExceeded | Code::BudgetUnknown) => {
                self.apply(WorkerInput::OpenQueued { refused: Some(error) }).await;
                true
            }
            Err(error) => {
                self.look_later(&error);
                false
            }
        }
    }

    pub(super) async fn set_limits(&mut self, order: LimitOrder) {
        let LimitOrder { owner, key, change, label, reply } = order;
        let stopped = matches!(self.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped);
        let refused = stopped.then(|| stopped_for_good(self.worker.public_state()));
        let (id, controller, now) = (self.id, self.controller.clone(), entropy::now());
        let worker_id = self.worker_id.clone();
        subagent_failpoint::hit("budget.before_commit");
        let write = self.shared.store.write(Durability::Full, 2, move |tx| {
            let mut added = Vec::new();
            let (response, once) = requests::once(tx, key.as_ref(), now, |tx| {
                controllers::check_owner(tx.connection(), &owner, &controller)?;
                if let Some(refused) = refused {
                    return Err(refused);
                }
                let (accounts, events) = accounts::change_worker_limits(tx, id, &change, now)?;
                added = events;
                let shown = WorkerBudget { worker_id, label, budget: accounts.worker.view(steady(now)) };
                Ok(serde_json::json!(shown))
            })?;
            Ok((response, added, once))
        });
        let result = write.await.map(|(response, added, once)| {
            if once == Execution::Fresh {
                self.adopt(self.worker.clone(), &[], last(&added));
                self.budgets.is_news();
                if self.tasks.gives() {
                    // Tasks of the worker share its budget.
                    self.shared.budgets.send_modify(|changes| *changes += 1);
                }
            }
            response
        });
        subagent_failpoint::hit("budget.after_commit");
        // The client may be gone.
        let _ = reply.send(result);
    }
}

fn last(added: &[(EventType, i64)]) -> Option<i64> {
    added.last().map(|(_, seq)| *seq)
}
