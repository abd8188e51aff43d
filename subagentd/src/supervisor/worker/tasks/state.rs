//! What an actor knows of its own task and of those that its worker created.

use subagent_core::model::Fact;
use subagent_protocol::Error;
use subagent_protocol::ids::WorkerId;
use tokio::sync::watch;
use tokio::time::Instant;

use super::prompt::TaskLimitState;
use crate::supervisor::worker::STORE_RETRY;

/// Task state of an actor.
pub(crate) struct Tasks {
    /// Whether the worker was created for a task.
    own: bool,
    /// Whether the worker may have created tasks.
    gives: bool,
    /// Whether its own task is over.
    pub(crate) ended: bool,
    /// Whether its runtime was ended because of that.
    pub(crate) rests: bool,
    /// Whether the tasks must be checked.
    pub(crate) stale: bool,
    /// When to check them again after a failure of the store.
    pub(crate) again: Option<Instant>,
    /// Whether a change of this worker may concern others.
    pub(crate) changed: bool,
    /// Notified when a stored change concerns this worker.
    pub(crate) bell: watch::Receiver<u64>,
    /// The limits of its own task.
    pub(crate) limits: TaskLimitState,
}

impl Tasks {
    pub(crate) fn new(own: bool, gives: bool, bell: watch::Receiver<u64>) -> Self {
        Self {
            own,
            gives,
            ended: false,
            rests: false,
            stale: true,
            again: None,
            changed: false,
            bell,
            limits: TaskLimitState::default(),
        }
    }

    /// Records a stored change that may concern this worker and others.
    pub(crate) const fn is_news(&mut self) {
        (self.stale, self.changed) = (true, true);
    }

    /// Requires a check after a notification.
    pub(crate) const fn is_rung(&mut self) {
        (self.gives, self.stale) = (true, true);
    }

    /// Schedules another check after a failure of the store.
    pub(crate) fn look_later(&mut self, worker: &WorkerId, error: &Error) {
        tracing::warn!(%worker, %error, "tasks cannot be checked; trying again");
        (self.stale, self.again) = (true, Some(Instant::now() + STORE_RETRY));
    }

    /// Requires a check when the timer fires.
    pub(crate) const fn is_due(&mut self) {
        (self.again, self.stale) = (None, true);
    }

    /// Returns whether the worker was created for a task.
    pub(crate) const fn is_task(&self) -> bool {
        self.own
    }

    /// Returns whether the worker may have created tasks.
    pub(crate) const fn gives(&self) -> bool {
        self.gives
    }

    /// Updates the state from committed facts.
    pub(crate) fn see(&mut self, facts: &[Fact]) {
        let matters = |fact: &Fact| {
            !matches!(fact, Fact::Event { .. } | Fact::MessageSent { .. } | Fact::Spent(_) | Fact::Inbox(_))
        };
        if facts.iter().any(matters) {
            self.is_news();
        }
        // A new turn began, so the earlier end of the runtime does not count.
        if facts.iter().any(|fact| matches!(fact, Fact::TurnOpened { .. } | Fact::QueuedTurnOpened { .. })) {
            self.rests = false;
        }
        self.limits.see(facts);
    }
}
