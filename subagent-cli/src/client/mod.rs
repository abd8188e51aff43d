//! Talking to the daemon: find or start it, ask, ask again if the connection was lost.
//!
//! Clients read `<stateDir>/daemon.json` and never compute a path. A command that is repeated after a lost connection
//! is the same command: mutating requests keep their idempotency key, waits and streams their cursor. Nothing here
//! waits without a deadline, or without making sure now and then that the daemon still answers.

mod autostart;
mod connect;
mod daemons;
mod exchange;
mod glance;
mod last_worker;
mod lock;
mod losses;
mod query;
mod questions;
mod request;
mod running;
mod spawn;
mod state_watch;
mod stream;
mod tasks;
mod wait;
mod wait_many;
mod waited;

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use subagent_config::Workspace;
use subagent_protocol::api::{DaemonInfo, Handle};

use crate::context::Context;
use crate::failure::{Failure, Result};

pub use connect::{foreign_info, read_info};
pub use daemons::{Unreachable, daemons};
pub use exchange::Ask;
pub use glance::glance;
pub use query::{Query, segment};
pub use questions::Questions;
pub use running::{ended, running, running_or_forgotten, running_soon, shown};
pub use spawn::log_path;
pub use stream::{Batch, Events, Step};
pub use tasks::{TaskWait, read};
pub use wait::{Cursor, Waiting};

/// How long an ordinary request may take.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// How long a daemon may take from its start to its readiness.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a daemon that must not be started is waited for.
pub(crate) const APPEAR_LIMIT: Duration = Duration::from_secs(10);
/// How long the daemon may say nothing during a request before it is asked for a sign of life. After each one that it
/// gives it may be silent for twice as long, up to the second: who follows an idle worker for days wakes nobody.
pub(crate) const PROBE_FIRST: Duration = Duration::from_secs(15);
pub(crate) const PROBE_LAST: Duration = Duration::from_secs(300);
/// How long a sign of life may take.
pub(crate) const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// A client of the daemon of one state dir. Connects when it is first used.
#[derive(Debug)]
pub struct Client {
    place: Place,
    handle: Option<Handle>,
    link: Option<connect::Link>,
}

/// Where the daemon lives, and whether it may be started.
#[derive(Debug)]
struct Place {
    state_dir: PathBuf,
    start: StartPolicy,
    /// How long a daemon that somebody else has to start is waited for.
    patience: Duration,
    /// The environment for a daemon that is started.
    vars: Vec<(OsString, OsString)>,
}

/// What to do without a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartPolicy {
    /// Start one.
    Start,
    /// `SUBAGENT_NO_AUTOSTART=1`: fail.
    Refuse,
    /// Ask only the daemon that runs; never wait for one (`subagentd status`, `subagentd stop`).
    OnlyRunning,
}

impl Client {
    /// A client for the commands of a workspace: starts the daemon if it must.
    #[must_use]
    pub fn new(context: &Context, workspace: &Workspace) -> Self {
        let refuse = context.env.var("SUBAGENT_NO_AUTOSTART").is_some_and(|value| value != "0");
        let start = if refuse { StartPolicy::Refuse } else { StartPolicy::Start };
        Self::with_policy(context, workspace, start)
    }

    /// A client for a command that is about starting the daemon: nothing forbids it that.
    #[must_use]
    pub fn starting(context: &Context, workspace: &Workspace) -> Self {
        Self::with_policy(context, workspace, StartPolicy::Start)
    }

    fn with_policy(context: &Context, workspace: &Workspace, start: StartPolicy) -> Self {
        Self {
            place: Place {
                state_dir: workspace.state_dir.clone(),
                start,
                patience: APPEAR_LIMIT,
                vars: autostart::daemon_environment(&context.env),
            },
            handle: context.handle(),
            link: None,
        }
    }

    /// A client that asks a running daemon and never starts one.
    #[must_use]
    pub fn of_running(state_dir: PathBuf) -> Self {
        let start = StartPolicy::OnlyRunning;
        let place = Place { state_dir, start, patience: APPEAR_LIMIT, vars: Vec::new() };
        Self { place, handle: None, link: None }
    }

    /// The same, waiting for so long for a daemon that somebody else has to start.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.place.patience = patience;
        self
    }

    /// The same, asking in the name of an owner.
    #[must_use]
    pub fn in_the_name_of(self, handle: Option<Handle>) -> Self {
        Self { handle, ..self }
    }

    /// The daemon that was asked last.
    #[must_use]
    pub fn daemon(&self) -> Option<&DaemonInfo> {
        self.link.as_ref().map(|link| &link.info)
    }
}

/// Runs a command's conversation with the daemon on this thread.
///
/// # Errors
/// Those of the conversation, and `INTERNAL_ERROR` if the system gives no event queue.
pub fn block_on<T>(conversation: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("cannot set up an event queue: {error}")))?;
    let result = runtime.block_on(conversation);
    // A thread that still waits for a lock must not hold up the end of the process.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
