//! Tools for a manager: a client that is not a worker's agent. It starts workers, sends messages, and
//! answers questions. Each tool sends the same request as the corresponding command.

mod arguments;
mod calls;
mod cut;
mod tools;

use std::fmt::Debug;
use std::pin::Pin;

use serde::Deserialize;
use serde_json::Value;

pub(super) use self::arguments::ManagerToolCall;
pub(super) use self::calls::{carry_out, result};
pub(super) use self::tools::{NAMES, tools};
use crate::failure::Result;

/// A change that is running.
pub(crate) type CommandFuture<'a> = Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

/// Options of a new worker, with the keys of `worker start --input`.
pub(crate) type WorkerOptions = serde_json::Map<String, Value>;

#[derive(Debug)]
pub(crate) struct NewMessage {
    pub(crate) worker_id: String,
    pub(crate) text: String,
    /// Whether to queue behind an open turn; `false` is an error for a busy worker.
    pub(crate) queue: bool,
}

/// A worktree to land.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLanding {
    /// Id of its worker, or name of the worktree.
    pub(crate) worker_id: String,
    /// The target branch; `None` uses the branch of its creation.
    pub(crate) into: Option<String>,
    pub(crate) message: Option<String>,
}

/// Executes changes like the commands: with the config and environment of this process.
pub(crate) trait Commands: Debug + Send + Sync {
    /// Returns the data of `worker.started`.
    fn start_worker(&self, worker: WorkerOptions) -> CommandFuture<'_>;
    /// Returns the data of `turn.accepted` or `turn.queued`.
    fn send_message(&self, message: NewMessage) -> CommandFuture<'_>;
    /// Returns the data of `worker.diff`.
    fn diff(&self, worker: String) -> CommandFuture<'_>;
    /// Returns the data of `worktree.landed`.
    fn land(&self, landing: NewLanding) -> CommandFuture<'_>;
}
