//! Tools for a manager: a client that is not the agent of a worker. It starts workers, talks to them, hears their questions and
//! those of the tasks below them, and answers. Each tool is a request to the daemon, as the command of the same job makes it.

mod arguments;
mod calls;
mod cut;
mod tools;

use std::fmt::Debug;
use std::pin::Pin;

use serde::Deserialize;
use serde_json::Value;

pub(super) use self::arguments::Call;
pub(super) use self::calls::{carry_out, result};
pub(super) use self::tools::{NAMES, tools};
use crate::failure::Result;

/// A change that is under way.
pub(crate) type Pending<'a> = Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

/// What a manager says of a new worker; the keys of `worker start --input`.
pub(crate) type NewWorker = serde_json::Map<String, Value>;

/// A message to a worker.
#[derive(Debug)]
pub(crate) struct NewMessage {
    pub(crate) worker_id: String,
    pub(crate) text: String,
    /// Whether it waits for an open turn; else a busy worker refuses it.
    pub(crate) queue: bool,
}

/// A worktree that is to be landed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLanding {
    /// Its worker, or its name.
    pub(crate) worker_id: String,
    /// The branch; without it the one that the worktree came from.
    pub(crate) into: Option<String>,
    /// The message of the commit.
    pub(crate) message: Option<String>,
}

/// Does what the commands do as they do it: with the config and the environment of this process.
pub(crate) trait Commands: Debug + Send + Sync {
    /// Gives the data of `worker.started`.
    fn start_worker(&self, worker: NewWorker) -> Pending<'_>;
    /// Gives the data of `turn.accepted` or `turn.queued`.
    fn send_message(&self, message: NewMessage) -> Pending<'_>;
    /// Gives the data of `worker.diff`.
    fn diff(&self, worker: String) -> Pending<'_>;
    /// Gives the data of `worktree.landed`.
    fn land(&self, landing: NewLanding) -> Pending<'_>;
}
