//! Values of a worker's state: where it stands, its open turn, and its runtime. Pure data.

use subagent_protocol::ids::{RequestId, TurnId};

/// What a worker is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Its first runtime is being started.
    Starting,
    /// No turn is open.
    Idle,
    /// A turn is open that its runtime carries out.
    Turn(Turn),
    /// A turn is open that the daemon simulates.
    Local(LocalTurn),
    /// It is being stopped; a turn may still be open.
    Stopping(Option<Turn>),
    /// Its first runtime could not be started.
    Error,
    /// Stopped, and nothing of it is left.
    Stopped,
}

/// A simulated turn: it is open as long as its permission request is. No runtime knows of either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTurn {
    /// The worker's number of it.
    pub no: u64,
    /// Its id.
    pub id: TurnId,
    /// Its permission request, which is pending.
    pub request_id: RequestId,
}

/// Who carries out a turn that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// The worker's runtime, with its agent.
    Runtime,
    /// The daemon: it is completed at once.
    Local,
    /// The daemon: it asks for a permission.
    LocalAsking {
        /// The id of that request.
        request_id: RequestId,
    },
}

/// An open turn of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The worker's number of it.
    pub no: u64,
    /// Its id.
    pub id: TurnId,
    /// Whether the runtime journaled that it was about to write the prompt.
    pub dispatching: bool,
    /// Whether another runtime was started for it because the one before died without having taken it.
    pub retried: bool,
    /// Whether it is being canceled.
    pub cancel: Option<Cancel>,
}

/// A cancel of the open turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// Why.
    pub reason: String,
    /// Whether the runtime journaled it: then every end of the turn is `turn.canceled`.
    pub requested: bool,
}

/// What is known of the runtime, in the order in which it goes through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// None lives.
    None,
    /// One lives that this daemon has not started and has not heard of: it may have been given a prompt before.
    Adopted,
    /// One was started and has no session yet.
    Starting,
    /// It has a session and takes commands.
    Ready,
    /// It is on its way out: its agent failed or ended.
    Ending,
}
