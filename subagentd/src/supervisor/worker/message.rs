//! The messages to a worker's actor, with the channels for their answers.

use std::time::Duration;

use serde_json::Value;
use subagent_core::model::{Worker, WorkerInput};
use subagent_protocol::api::SetOptions;
use subagent_protocol::budget::LimitsChange;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Error, Result};
use tokio::sync::oneshot;

use crate::store::{OwnerCheck, RowId, Tx};
use crate::supervisor::start::environment::AgentEnvironment;

/// A message to a worker's actor.
pub(in crate::supervisor) enum ActorMessage {
    /// Executes a change by a client.
    Order(Box<ChangeRequest>),
    /// Sets options of the session.
    Set(Box<SetOrder>),
    /// Changes the budget of the worker.
    Limits(Box<LimitOrder>),
    /// Cancels a child session.
    CancelChild(ChildCancel),
    /// Stores an event about a refused request from below the worker.
    Forbidden {
        /// The request that was refused.
        what: String,
    },
    /// Starts a runtime if the worker has lost its own.
    Revive {
        /// Minimum time since the last start.
        cooldown: Duration,
        /// Receives the outcome of the demand.
        reply: oneshot::Sender<RevivalOutcome>,
    },
}

impl ActorMessage {
    /// Answers the message with this error instead of executing it.
    pub(super) fn refuse(self, worker: &WorkerId, error: Error) {
        // The client may be gone.
        match self {
            Self::Order(order) => drop(order.reply.send(Err(error))),
            Self::Set(order) => drop(order.reply.send(Err(error))),
            Self::Limits(order) => drop(order.reply.send(Err(error))),
            Self::CancelChild(order) => drop(order.reply.send(Err(error))),
            Self::Revive { reply, .. } => drop(reply.send(RevivalOutcome::Needless)),
            Self::Forbidden { what } => {
                tracing::error!(%worker, what, "a refused request could not be journaled");
            }
        }
    }
}

/// Builds the response from the new state and the added events.
pub(in crate::supervisor) type Respond = Box<dyn FnOnce(&Worker, &[(EventType, i64)]) -> Value + Send>;

/// A change of other rows in the same transaction.
pub(in crate::supervisor) type Also = Box<dyn FnOnce(&mut Tx<'_>, RowId) -> Result<()> + Send>;

/// A change of a worker by a client.
pub(in crate::supervisor) struct ChangeRequest {
    /// The owner handle of the request. `None` requires no ownership: for the daemon itself, and
    /// for an agent with a task that it created.
    pub(in crate::supervisor) owner: Option<OwnerCheck>,
    /// The idempotency key and the fingerprint of the request.
    pub(in crate::supervisor) key: Option<(String, String)>,
    /// The input for the rules.
    pub(in crate::supervisor) input: WorkerInput,
    /// Builds the response, which is stored under the key.
    pub(in crate::supervisor) respond: Respond,
    /// Another change in the same transaction.
    pub(in crate::supervisor) also: Option<Also>,
    /// An environment for the agent, used if the stored one is gone.
    pub(in crate::supervisor) environment: Option<AgentEnvironment>,
    /// Receives the response or error.
    pub(in crate::supervisor) reply: oneshot::Sender<Result<Value>>,
}

/// A request to set options.
pub(in crate::supervisor) struct SetOrder {
    /// The owner handle of the request.
    pub(in crate::supervisor) owner: OwnerCheck,
    /// The idempotency key and the fingerprint of the request.
    pub(in crate::supervisor) key: Option<(String, String)>,
    /// The options to set.
    pub(in crate::supervisor) request: SetOptions,
    /// Receives the response or error.
    pub(in crate::supervisor) reply: oneshot::Sender<Result<Value>>,
}

/// A request to change a worker's limits.
pub(in crate::supervisor) struct LimitOrder {
    /// The owner handle of the request.
    pub(in crate::supervisor) owner: OwnerCheck,
    /// The idempotency key and the fingerprint of the request.
    pub(in crate::supervisor) key: Option<(String, String)>,
    /// The limits to change.
    pub(in crate::supervisor) change: LimitsChange,
    /// The label of the worker.
    pub(in crate::supervisor) label: String,
    /// Receives the response or error.
    pub(in crate::supervisor) reply: oneshot::Sender<Result<Value>>,
}

/// A request to cancel a child session.
pub(in crate::supervisor) struct ChildCancel {
    /// The agent's id of the session.
    pub(in crate::supervisor) session_id: String,
    /// Answered when the agent has been notified. Dropped if the runtime is lost before.
    pub(in crate::supervisor) reply: oneshot::Sender<Result<()>>,
}

/// The outcome of a demand for a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::supervisor) enum RevivalOutcome {
    /// A runtime is being started.
    Begun,
    /// The last attempt was too recent.
    TooEarly,
    /// A runtime exists, or none may exist.
    Needless,
}
