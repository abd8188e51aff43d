//! The rules of a restart that somebody asked for: the old runtime ends in order, then another one is started.

use subagent_protocol::{Code, Error, Result};

use super::step::Next;
use super::worker::{Action, Fact, Link, State, stopped_for_good};

/// A restart that somebody asked for, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Nobody asked for one, or it is over.
    None,
    /// The old runtime is to end first.
    Wanted,
    /// The new one is being started.
    Begun,
}

impl Restart {
    /// All of them, with the words by which they are stored.
    pub const WORDS: [(Self, &'static str); 3] =
        [(Self::None, "none"), (Self::Wanted, "wanted"), (Self::Begun, "begun")];
}

/// Why a turn is canceled when its worker is restarted.
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
            // Whoever canceled it before has seen to its end.
            State::Turn(turn) if turn.cancel.is_some() => {}
            // A runtime that may have it is told by its end.
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
            // It was told something that it may refuse.
            Link::Ending if !told => self.end_for_restart(),
            Link::Adopted | Link::Starting | Link::Ready => self.end_for_restart(),
            Link::Ending => {}
        }
        Ok(())
    }

    /// The old runtime is gone.
    pub(super) fn begin_restart(&mut self) {
        if self.worker.state == State::Error {
            self.worker.state = State::Starting;
        }
        self.facts.push(Fact::LastError(None));
        self.worker.restart = Restart::Begun;
        self.worker.link = Link::Starting;
        self.actions.push(Action::StartRuntime);
    }

    /// Has the old runtime end; it ends an open turn itself.
    pub(super) fn end_for_restart(&mut self) {
        self.worker.link = Link::Ending;
        self.actions.push(Action::Terminate);
    }
}
