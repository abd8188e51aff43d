//! The state of a worker with its open turn. Pure data.

use subagent_protocol::ids::{RequestId, TurnId};

/// State of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LifecycleState {
    /// Its first runtime is being started.
    Starting,
    /// No turn is open.
    Idle,
    /// A turn of the runtime is open.
    Turn(RuntimeTurn),
    /// A turn simulated by the daemon is open.
    Local(SimulatedTurn),
    /// The worker is being stopped. A turn may still be open.
    Stopping(Option<RuntimeTurn>),
    /// Its first runtime could not be started.
    Error,
    /// Stopped, and no process of it is left.
    Stopped,
}

/// A simulated turn, open as long as its permission request. Runtimes do not know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedTurn {
    /// Number of the turn, counted per worker.
    pub no: u64,
    /// Id of the turn.
    pub id: TurnId,
    /// Its pending permission request.
    pub request_id: RequestId,
}

/// What executes a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The worker's runtime, with its agent.
    Runtime,
    /// The daemon, which completes it at once.
    Local,
    /// The daemon, which asks for a permission first.
    LocalAsking {
        /// Id of the permission request.
        request_id: RequestId,
    },
}

/// An open turn of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeTurn {
    /// Number of the turn, counted per worker.
    pub no: u64,
    /// Id of the turn.
    pub id: TurnId,
    /// Whether the runtime journaled that it was about to send the prompt.
    pub dispatching: bool,
    /// Whether another runtime was started for the turn, because the first one died without taking
    /// it.
    pub retried: bool,
    /// The cancel of the turn, if there is one.
    pub cancel: Option<Cancel>,
}

/// A cancel of the open turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// Why it is canceled.
    pub reason: String,
    /// Whether the runtime journaled it. Then the turn ends with `turn.canceled` in any case.
    pub requested: bool,
}
