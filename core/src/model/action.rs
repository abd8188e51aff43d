//! The outcome of an input: facts to store with it, and actions to perform afterwards.

use subagent_protocol::ids::RequestId;

use crate::model::{Fact, Worker};

/// An action that is performed after the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerAction {
    /// Start a new runtime.
    StartRuntime,
    /// Send the prompt of the open turn.
    Prompt {
        /// Number of the turn.
        turn: u64,
    },
    /// Send a cancel to the runtime.
    Cancel {
        /// Number of the turn.
        turn: u64,
        /// The reason for the cancel.
        reason: String,
    },
    /// Send a decision to the runtime.
    Answer {
        /// The request that is answered.
        request_id: RequestId,
        /// The chosen option, or the action of an elicitation, whose content only the store has.
        /// `None` answers `cancelled`.
        option_id: Option<String>,
    },
    /// Terminate the current runtime.
    Terminate,
    /// End the runtime, if nothing is open and it took no later turn.
    Hibernate {
        /// Number of the last turn that it may have taken.
        last_turn: u64,
    },
}

/// The result of an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The next state of the worker.
    pub worker: Worker,
    /// Facts to store with it, in order.
    pub facts: Vec<Fact>,
    /// Actions to perform afterwards, in order.
    pub actions: Vec<WorkerAction>,
}
