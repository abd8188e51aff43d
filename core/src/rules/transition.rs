//! The next state while it is being built.

use subagent_protocol::data::EventData;

use crate::model::{Fact, RateLimit, Transition, Worker, WorkerAction};

/// The next state while it is being built.
pub(super) struct TransitionBuilder {
    pub(super) worker: Worker,
    pub(super) facts: Vec<Fact>,
    pub(super) actions: Vec<WorkerAction>,
    /// The rate limit that the input reports, until it is handled.
    pub(super) limit: Option<RateLimit>,
}

impl TransitionBuilder {
    /// Begins with an unchanged worker.
    pub(super) fn new(worker: Worker, limit: Option<RateLimit>) -> Self {
        Self { worker, facts: Vec::new(), actions: Vec::new(), limit }
    }

    /// Adds an event of the daemon.
    pub(super) fn event(&mut self, data: EventData, turn: Option<u64>) {
        self.facts.push(Fact::Event { data, turn });
    }

    /// Returns what was built.
    pub(super) fn finish(self) -> Transition {
        Transition { worker: self.worker, facts: self.facts, actions: self.actions }
    }
}
