//! Restart on request: the old runtime ends in order, then another one is started.

use subagent_protocol::{Code, Error, Result};

use super::step::TransitionBuilder;
use super::worker::{Fact, LifecycleState, RuntimeStatus, WorkerAction, stopped_for_good};

/// State of a requested restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// No restart is in progress.
    None,
    /// The old runtime must end first.
    Wanted,
    /// The new runtime is being started.
    Begun,
}

impl Restart {
    /// All states with their stored names.
    pub(crate) const WORDS: [(Self, &'static str); 3] =
        [(Self::None, "none"), (Self::Wanted, "wanted"), (Self::Begun, "begun")];
}

/// Reason of a cancel because the worker is restarted.
pub(crate) const RESTARTED_BY_MANAGER: &str = "worker restarted by manager";

impl TransitionBuilder {
    pub(super) fn restart(&mut self, force: bool) -> Result<()> {
        let state = self.worker.public_state();
        match &self.worker.state {
            LifecycleState::Stopping(_) | LifecycleState::Stopped => return Err(stopped_for_good(state)),
            LifecycleState::Starting => {
                let error = Error::new(Code::WorkerBusy, "the worker is being started; wait for it");
                return Err(error.retryable().with("state", state.as_str()));
            }
            LifecycleState::Turn(_) | LifecycleState::Local(_) if !force => {
                let message = format!("the worker is {state}; cancel its turn first, or use --force");
                return Err(Error::new(Code::WorkerBusy, message).with("state", state.as_str()));
            }
            // Its earlier cancel takes care of its end.
            LifecycleState::Turn(turn) if turn.cancel.is_some() => {}
            // A runtime that may have the prompt learns it from the terminate command.
            LifecycleState::Turn(_) => {
                self.cancel_turn(RESTARTED_BY_MANAGER.to_owned(), None);
            }
            LifecycleState::Local(local) => {
                let local = local.clone();
                self.cancel_local(&local, RESTARTED_BY_MANAGER.to_owned());
            }
            LifecycleState::Idle | LifecycleState::Error => {}
        }
        self.worker.restart = Restart::Wanted;
        let in_effect = !self.gives_hibernation_up();
        match self.worker.link {
            RuntimeStatus::None => self.begin_restart(),
            // The earlier hibernate command may be refused.
            RuntimeStatus::Ending if !in_effect => self.end_for_restart(),
            RuntimeStatus::Adopted | RuntimeStatus::Starting | RuntimeStatus::Ready => self.end_for_restart(),
            RuntimeStatus::Ending => {}
        }
        Ok(())
    }

    /// Starts the new runtime after the old one is gone.
    pub(super) fn begin_restart(&mut self) {
        if self.worker.state == LifecycleState::Error {
            self.worker.state = LifecycleState::Starting;
        }
        self.facts.push(Fact::LastError(None));
        self.worker.restart = Restart::Begun;
        self.worker.link = RuntimeStatus::Starting;
        self.actions.push(WorkerAction::StartRuntime);
    }

    /// Terminates the old runtime, which ends an open turn itself.
    pub(super) fn end_for_restart(&mut self) {
        self.worker.link = RuntimeStatus::Ending;
        self.actions.push(WorkerAction::Terminate);
    }
}
