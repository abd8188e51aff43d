//! Hibernation: the runtime of an idle worker ends in order, and another one is started when the
//! agent is needed again.

use serde_json::json;
use subagent_protocol::event::EventType;

use super::step::TransitionBuilder;
use super::worker::{LifecycleState, RuntimeStatus, WorkerAction};

/// State of the hibernation of a worker whose next agent resumes the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hibernation {
    /// The worker is awake.
    None,
    /// The runtime is asked to end, unless something is open.
    Wanted {
        /// Duration of the idle time, in seconds.
        idle_seconds: u64,
    },
    /// The runtime has ended. The next one resumes the session.
    Begun,
}

impl TransitionBuilder {
    /// Asks the runtime to end. Does nothing if the worker is no longer at rest.
    pub(super) fn hibernate(&mut self, idle_seconds: u64) {
        if self.worker.rests() {
            self.worker.hibernation = Hibernation::Wanted { idle_seconds };
            self.end_for_hibernation();
        }
    }

    fn end_for_hibernation(&mut self) {
        self.worker.link = RuntimeStatus::Ending;
        self.actions.push(WorkerAction::Hibernate { last_turn: self.worker.last_turn });
    }

    /// Keeps a runtime that refused to end, and sends it what arrived meanwhile.
    pub(super) fn hibernate_refused(&mut self) {
        if !self.gives_hibernation_up() {
            return;
        }
        // Another reason to end it takes precedence.
        if self.worker.link == RuntimeStatus::Ending {
            self.worker.link = RuntimeStatus::Ready;
            self.prompt_if_waiting();
        }
    }

    /// Cancels a wanted hibernation in favor of another use of the runtime. Returns whether one was
    /// wanted.
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

    /// Handles the hello of a runtime that did not get the command to end. Returns whether it is
    /// sent again.
    pub(super) fn attached_awake(&mut self, reported: RuntimeStatus, last_turn: u64) -> bool {
        if reported >= RuntimeStatus::Ending || !self.hibernation_is_wanted() {
            return false;
        }
        self.worker.last_turn = self.worker.last_turn.max(last_turn);
        if self.worker.state == LifecycleState::Idle && self.worker.approvals.is_empty() {
            self.end_for_hibernation();
            return true;
        }
        // There is work now, so the runtime stays.
        self.worker.hibernation = Hibernation::None;
        self.worker.link = reported;
        false
    }

    /// Handles the end of a runtime. Returns whether it ended for hibernation.
    pub(super) fn hibernates(&mut self) -> bool {
        let Hibernation::Wanted { idle_seconds } = self.worker.hibernation else { return false };
        self.worker.hibernation = Hibernation::Begun;
        self.event(EventType::WorkerHibernated, json!({"idleSeconds": idle_seconds}), None);
        true
    }

    /// Starts a runtime for a hibernating worker.
    pub(super) fn wake(&mut self) {
        let idle = matches!(self.worker.state, LifecycleState::Idle | LifecycleState::Local(_));
        if idle && self.worker.hibernation == Hibernation::Begun && self.worker.link == RuntimeStatus::None {
            self.start_for_waking();
        }
    }

    /// Starts the runtime that an order needs.
    pub(super) fn start_for_waking(&mut self) {
        self.worker.link = RuntimeStatus::Starting;
        self.actions.push(WorkerAction::StartRuntime);
    }

    /// Records that the worker has a runtime again. Returns whether it hibernated.
    pub(super) fn is_awake(&mut self) -> bool {
        std::mem::replace(&mut self.worker.hibernation, Hibernation::None) == Hibernation::Begun
    }
}
