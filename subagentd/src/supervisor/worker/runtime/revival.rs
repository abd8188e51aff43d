//! When a runtime is started without a message, if `subagentd run` supervises the workers, and what
//! came of the last start of this kind.

use std::time::Duration;

use subagent_core::model::{Restart, RuntimeStatus, Worker};
use subagent_protocol::{Code, Error, Result};
use tokio::time::Instant;

/// The last start of this kind.
#[derive(Debug, Clone)]
pub(crate) struct Revival {
    /// Start time of the attempt.
    pub(crate) begun: Instant,
    /// The outcome, or `None` while the agent is starting.
    pub(crate) outcome: Option<Result<()>>,
}

/// The last and the next start of this kind.
#[derive(Default)]
pub(crate) struct Revivals {
    pub(crate) last: Option<Revival>,
    pub(crate) at: Option<Instant>,
}

impl Revivals {
    /// Returns whether the last start is older than the cooldown.
    pub(crate) fn may_begin(&self, cooldown: Duration) -> bool {
        self.last.as_ref().is_none_or(|last| last.begun.elapsed() >= cooldown)
    }

    /// Records that such a start begins.
    pub(crate) fn begin(&mut self) {
        *self = Self { last: Some(Revival { begun: Instant::now(), outcome: None }), at: None };
    }

    /// Schedules a start after the end of a runtime.
    pub(crate) fn plan(&mut self, cooldown: Duration) {
        let now = Instant::now();
        // A time that overflows the clock means no timer.
        self.at = match &self.last {
            None => Some(now),
            Some(last) => last.begun.checked_add(cooldown).map(|at| at.max(now)),
        };
    }

    /// Updates the outcome of the last attempt.
    pub(crate) fn follow(&mut self, worker: &Worker, last_error: Option<&Error>) {
        let Some(revival) = self.last.as_mut().filter(|revival| revival.outcome.is_none()) else { return };
        revival.outcome = match worker.link {
            RuntimeStatus::Adopted | RuntimeStatus::Starting => None,
            RuntimeStatus::Ready => Some(Ok(())),
            // The runtime was ended by a restart, which starts another one.
            RuntimeStatus::None | RuntimeStatus::Ending if worker.restart != Restart::None => None,
            RuntimeStatus::None | RuntimeStatus::Ending => {
                Some(Err(last_error.cloned().unwrap_or_else(|| {
                    Error::new(Code::RuntimeLost, "the runtime ended before its agent was ready")
                })))
            }
        };
    }
}
