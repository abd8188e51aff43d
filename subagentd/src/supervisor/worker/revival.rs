//! A runtime for an idle worker whose last one died, started without a message that asks for it: only where a person
//! watches over the workers (`subagentd run`). It repeats no prompt, since no turn is open, and never touches a worker
//! that is stopped.

use std::time::Duration;

use subagent_protocol::{Code, Error, Result};
use tokio::time::Instant;

use super::actor::Actor;
use crate::core::Action;
use crate::core::worker::{Link, State};

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
        let lacks_one =
            self.worker.state == State::Idle && self.worker.link == Link::None && self.runtime.is_none();
        if !lacks_one {
            return Demand::Needless;
        }
        if self.revival.as_ref().is_some_and(|last| last.begun + cooldown > Instant::now()) {
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
        if let Some(cooldown) = self.shared.setup.restart_cooldown {
            let now = Instant::now();
            self.revive_at = Some(self.revival.as_ref().map_or(now, |last| now.max(last.begun + cooldown)));
        }
    }

    /// Sees whether the last one has come to something.
    pub(super) fn follow_revival(&mut self) {
        let Some(revival) = self.revival.as_mut().filter(|revival| revival.outcome.is_none()) else { return };
        revival.outcome = match self.worker.link {
            Link::Adopted | Link::Starting => None,
            Link::Ready => Some(Ok(())),
            Link::None | Link::Ending => Some(Err(self.last_error.clone().unwrap_or_else(|| {
                Error::new(Code::RuntimeLost, "the runtime ended before its agent was ready")
            }))),
        };
    }
}
