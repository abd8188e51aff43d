//! Restart on request: the old runtime ends in order, then another one is started.

use subagent_protocol::{Code, Error, Result};

use super::step::Next;
use super::worker::{Action, Fact, Link, State, stopped_for_good};

/// State of a requested restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// No restart is in progress.
    None,
    /// The old runtime must end first.
    Wanted,
    /// The new runtime is being started.
    Begun,
}

impl Restart {
    /// All states with their stored names.
    pub const WORDS: [(Self, &'static str); 3] =
        [(Self::None, "none"), (Self::Wanted, "wanted"), (Self::Begun, "begun")];
}

/// Reason of a cancel because the worker is restarted.
pub(crate) const RESTARTED_BY_MANAGER: &str = "worker restarted by manager";

impl Next {
    pub(super) fn restart(&mut self, force: bool) -> Result<()> {
        let state = self.worker.public_state();
        match &self.worker.state {
            State::Stopping(_) | State::Stopped => return Err(stopped_for_good(state)),
            State::Starting => {
                let error = Error::new(Code::WorkerBusy, "the worker is being started; wait for it");
                return Err(error.retryable().with("state", state.as_str()));
            }
            State::Turn(_) | State::Local(_) if !force => {
                let message = format!("the worker is {state}; cancel its turn first, or do it with --force");
                return Err(Error::new(Code::WorkerBusy, message).with("state", state.as_str()));
            }
            // Its earlier cancel takes care of its end.
            State::Turn(turn) if turn.cancel.is_some() => {}
            // A runtime that may have the prompt learns it from the terminate command.
            State::Turn(_) => {
                self.cancel_turn(RESTARTED_BY_MANAGER.to_owned(), None);
            }
            State::Local(local) => {
                let local = local.clone();
                self.cancel_local(&local, RESTARTED_BY_MANAGER.to_owned());
            }
            State::Idle | State::Error => {}
        }
        self.worker.restart = Restart::Wanted;
        let told = !self.gives_hibernation_up();
        match self.worker.link {
            Link::None => self.begin_restart(),
            // The earlier hibernate command may be refused.
            Link::Ending if !told => self.end_for_restart(),
            Link::Adopted | Link::Starting | Link::Ready => self.end_for_restart(),
            Link::Ending => {}
        }
        Ok(())
    }

    /// Starts the new runtime after the old one is gone.
    pub(super) fn begin_restart(&mut self) {
        if self.worker.state == State::Error {
            self.worker.state = State::Starting;
        }
        self.facts.push(Fact::LastError(None));
        self.worker.restart = Restart::Begun;
        self.worker.link = Link::Starting;
        self.actions.push(Action::StartRuntime);
    }

    /// Terminates the old runtime, which ends an open turn itself.
    pub(super) fn end_for_restart(&mut self) {
        self.worker.link = Link::Ending;
        self.actions.push(Action::Terminate);
    }
}
