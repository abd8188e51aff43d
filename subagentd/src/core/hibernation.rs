//! The rules of hibernation: the runtime of a worker that is idle for long ends in order, and another one is started for
//! whatever needs its agent next.

use serde_json::json;
use subagent_protocol::event::EventType;

use super::step::Next;
use super::worker::{Action, Link, State};

/// The end of an idle agent whose session the next one restores, and how far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hibernation {
    /// There is none.
    None,
    /// The runtime is to end, unless something of it is open; nothing was for so long.
    Wanted {
        /// How long.
        idle_seconds: u64,
    },
    /// The runtime has ended; the next one goes on.
    Begun,
}

impl Next {
    /// A worker that does not rest any more has something to do: nothing follows.
    pub(super) fn hibernate(&mut self, idle_seconds: u64) {
        if self.worker.rests() {
            self.worker.hibernation = Hibernation::Wanted { idle_seconds };
            self.end_for_hibernation();
        }
    }

    fn end_for_hibernation(&mut self) {
        self.worker.link = Link::Ending;
        self.actions.push(Action::Hibernate { last_turn: self.worker.last_turn });
    }

    /// The runtime stays. What was ordered meanwhile is told to it.
    pub(super) fn hibernate_refused(&mut self) {
        if !self.gives_hibernation_up() {
            return;
        }
        // Whatever else has had it end is newer.
        if self.worker.link == Link::Ending {
            self.worker.link = Link::Ready;
            self.prompt_if_waiting();
        }
    }

    /// Something else is done with the runtime now. Whether it was to end for hibernation.
    pub(super) fn gives_hibernation_up(&mut self) -> bool {
        let wanted = self.hibernation_is_wanted();
        if wanted {
            self.worker.hibernation = Hibernation::None;
        }
        wanted
    }

    fn hibernation_is_wanted(&self) -> bool {
        matches!(self.worker.hibernation, Hibernation::Wanted { .. })
    }

    /// A runtime that was to end answers a hello, and has not heard of it. Whether that was all.
    pub(super) fn attached_awake(&mut self, told: Link, last_turn: u64) -> bool {
        if told >= Link::Ending || !self.hibernation_is_wanted() {
            return false;
        }
        self.worker.last_turn = self.worker.last_turn.max(last_turn);
        if self.worker.state == State::Idle && self.worker.approvals.is_empty() {
            self.end_for_hibernation();
            return true;
        }
        // Something has come in between: it stays.
        self.worker.hibernation = Hibernation::None;
        self.worker.link = told;
        false
    }

    /// The runtime is gone. Whether it ended for hibernation.
    pub(super) fn hibernates(&mut self) -> bool {
        let Hibernation::Wanted { idle_seconds } = self.worker.hibernation else { return false };
        self.worker.hibernation = Hibernation::Begun;
        self.event(EventType::WorkerHibernated, json!({"idleSeconds": idle_seconds}), None);
        true
    }

    /// Starts a runtime for a worker that hibernates; it has its session back when that is ready.
    pub(super) fn wake(&mut self) {
        let idle = matches!(self.worker.state, State::Idle | State::Local(_));
        if idle && self.worker.hibernation == Hibernation::Begun && self.worker.link == Link::None {
            self.start_for_waking();
        }
    }

    /// Starts the runtime that an order needs.
    pub(super) fn start_for_waking(&mut self) {
        self.worker.link = Link::Starting;
        self.actions.push(Action::StartRuntime);
    }

    /// The worker has a runtime again. Whether it hibernated.
    pub(super) fn is_awake(&mut self) -> bool {
        std::mem::replace(&mut self.worker.hibernation, Hibernation::None) == Hibernation::Begun
    }
}
