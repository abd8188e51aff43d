//! Starts a runtime without a message for a worker whose last one died, if `subagentd run`
//! supervises the workers. Must not repeat a prompt (no turn of the runtime is open), nor touch a
//! stopped worker.

use std::time::Duration;

use subagent_core::model::{LifecycleState, Restart, RuntimeStatus, WorkerAction};
use subagent_protocol::{Code, Error, Result};
use tokio::time::Instant;

use crate::supervisor::worker::actor::Actor;

/// The last start of this kind.
#[derive(Debug, Clone)]
pub(crate) struct Revival {
    /// Start time of the attempt.
    pub(crate) begun: Instant,
    /// The outcome, or `None` while the agent is starting.
    pub(crate) outcome: Option<Result<()>>,
}

/// The outcome of a demand for a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevivalOutcome {
    /// A runtime is being started.
    Begun,
    /// The last attempt was too recent.
    TooEarly,
    /// A runtime exists, or none may exist.
    Needless,
}

impl Actor {
    /// Starts a runtime if the worker lacks one and the last attempt is old enough.
    pub(crate) fn demand(&mut self, cooldown: Duration) -> RevivalOutcome {
        let lacks_one = matches!(self.worker.state, LifecycleState::Idle | LifecycleState::Local(_))
            && self.worker.link == RuntimeStatus::None
            && !self.sleeps()
            && !self.tasks.is_task()
            && self.runtime.is_none();
        if !lacks_one {
            return RevivalOutcome::Needless;
        }
        if self.revival.as_ref().is_some_and(|last| last.begun.elapsed() < cooldown) {
            return RevivalOutcome::TooEarly;
        }
        self.revive_at = None;
        self.revival = Some(Revival { begun: Instant::now(), outcome: None });
        self.worker.link = RuntimeStatus::Starting;
        self.todo.push_back(WorkerAction::StartRuntime);
        RevivalOutcome::Begun
    }

    /// Schedules a start after the end of a runtime.
    pub(crate) fn plan_revival(&mut self) {
        if let Some(cooldown) = self.shared.setup.restart_cooldown
            && !self.sleeps()
            && !self.tasks.is_task()
        {
            let now = Instant::now();
            // A time that overflows the clock means no timer.
            self.revive_at = match &self.revival {
                None => Some(now),
                Some(last) => last.begun.checked_add(cooldown).map(|at| at.max(now)),
            };
        }
    }

    /// Updates the outcome of the last attempt.
    pub(crate) fn follow_revival(&mut self) {
        let Some(revival) = self.revival.as_mut().filter(|revival| revival.outcome.is_none()) else { return };
        revival.outcome = match self.worker.link {
            RuntimeStatus::Adopted | RuntimeStatus::Starting => None,
            RuntimeStatus::Ready => Some(Ok(())),
            // The runtime was ended by a restart, which starts another one.
            RuntimeStatus::None | RuntimeStatus::Ending if self.worker.restart != Restart::None => None,
            RuntimeStatus::None | RuntimeStatus::Ending => {
                Some(Err(self.last_error.clone().unwrap_or_else(|| {
                    Error::new(Code::RuntimeLost, "the runtime ended before its agent was ready")
                })))
            }
        };
    }
}
