//! What follows from a step of the rules: what must be stored with it, and what must be done afterwards.

use subagent_protocol::ids::RequestId;

use super::worker::{Fact, Worker};

/// What must be done after that transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start a runtime.
    StartRuntime,
    /// Send the prompt of the open turn.
    Prompt {
        /// Its number.
        turn: u64,
    },
    /// Send a cancel.
    Cancel {
        /// The turn's number.
        turn: u64,
        /// Why.
        reason: String,
    },
    /// Send a decision.
    Answer {
        /// Which request.
        request_id: RequestId,
        /// The option, or the action of an elicitation, whose content is the store's; `None` answers `cancelled`.
        option_id: Option<String>,
    },
    /// End the runtime.
    Terminate,
    /// End the runtime if nothing is open and it took no turn after this one.
    Hibernate {
        /// The last one that it may have taken.
        last_turn: u64,
    },
}

/// The result of an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The next value.
    pub worker: Worker,
    /// To be stored with it, in order.
    pub facts: Vec<Fact>,
    /// To be done afterwards, in order.
    pub actions: Vec<Action>,
}
