//! A runtime for a worker without an open turn of the runtime whose last one died, started without a message that asks for it: only where a person
//! watches over the workers (`subagentd run`). It repeats no prompt, since no turn is open, and never touches a worker
//! that is stopped.

use std::time::Duration;

use subagent_protocol::{Code, Error, Result};
use tokio::time::Instant;

use super::actor::Actor;
use crate::core::Action;
use crate::core::worker::{Link, Restart, State};

/// The last such start.
#[derive(Debug, Clone)]
pub(in crate::supervisor) struct Revival {
    /// When.
    pub(in crate::supervisor) begun: Instant,
    /// What came of it; `None` while the agent is still starting.
    pub(in crate::supervisor) outcome: Option<Result<()>>,
}

/// What became of a demand for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::supervisor) enum Demand {
    /// One is being started.
    Begun,
    /// The last attempt is too young.
    TooEarly,
    /// There is a runtime, or there must be none.
    Needless,
}

impl Actor {
    /// Starts a runtime if the worker lacks one and the last attempt is old enough.
    pub(super) fn demand(&mut self, cooldown: Duration) -> Demand {
        let lacks_one = matches!(self.worker.state, State::Idle | State::Local(_))
            && self.worker.link == Link::None
            && !self.sleeps()
            && !self.tasks.is_task()
            && self.runtime.is_none();
        if !lacks_one {
            return Demand::Needless;
        }
        if self.revival.as_ref().is_some_and(|last| last.begun.elapsed() < cooldown) {
            return Demand::TooEarly;
        }
        self.revive_at = None;
        self.revival = Some(Revival { begun: Instant::now(), outcome: None });
        self.worker.link = Link::Starting;
        self.todo.push_back(Action::StartRuntime);
        Demand::Begun
    }

    /// When one is to be started after the end of a runtime, if at all.
    pub(super) fn plan_revival(&mut self) {
        if let Some(cooldown) = self.shared.setup.restart_cooldown
            && !self.sleeps()
            && !self.tasks.is_task()
        {
            let now = Instant::now();
            // One that lies beyond all time never comes.
            self.revive_at = match &self.revival {
                None => Some(now),
                Some(last) => last.begun.checked_add(cooldown).map(|at| at.max(now)),
            };
        }
    }

    /// Sees whether the last one has come to something.
    pub(super) fn follow_revival(&mut self) {
        let Some(revival) = self.revival.as_mut().filter(|revival| revival.outcome.is_none()) else { return };
        revival.outcome = match self.worker.link {
            Link::Adopted | Link::Starting => None,
            Link::Ready => Some(Ok(())),
            // Somebody has ended it, and another one takes its place.
            Link::None | Link::Ending if self.worker.restart != Restart::None => None,
            Link::None | Link::Ending => Some(Err(self.last_error.clone().unwrap_or_else(|| {
                Error::new(Code::RuntimeLost, "the runtime ended before its agent was ready")
            }))),
        };
    }
}
