//! The client of the daemon: finds or starts it, sends requests, and repeats them after a lost
//! connection. Clients read `<stateDir>/daemon.json` and must not compute paths.

// A repeated change keeps its idempotency key, a repeated wait or stream its cursor. Every wait
// has a deadline or probes the daemon.

mod answers;
mod connect;
mod daemons;
mod exchange;
mod far;
mod glance;
pub(crate) mod last_worker;
mod losses;
mod query;
mod questions;
mod request;
mod starting;
mod state_watch;
mod stream;
mod tasks;

use std::ffi::OsString;
use std::future::Future;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use subagent_config::Workspace;
use subagent_protocol::api::{ControllerHandle, DaemonInfo};
use subagent_protocol::worker_name::LAST;
use tokio::time::Instant;

use crate::context::CliContext;
use crate::failure::{Failure, Result};
use losses::RetryBudget;

pub use answers::{into_items, items, items_mut, read, view};
pub(crate) use connect::info_path;
pub use connect::{foreign_info, read_info};
pub use daemons::{Unreachable, daemons};
pub use exchange::ApiRequest;
pub(crate) use far::{HostLink, end_dialing};
pub use glance::glance;
pub use query::{RequestPath, segment};
pub use questions::QuestionReader;
pub(crate) use starting::running::announced;
pub use starting::running::{ended, running, running_of, running_or_forgotten, running_soon, shown};
pub use starting::spawn::log_path;
pub(crate) use state_watch::created;
pub use stream::{EventBatch, EventSubscription, SubscriptionStep};
pub use tasks::TaskWait;
pub use waits::wait::{WaitStart, WorkerWait, into_matched, matched_event};
pub(crate) use waits::wait_many;

/// Default timeout of a request.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Maximum time from the daemon's start to its readiness.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(30);
/// Maximum wait for a daemon that this command may not start.
pub(crate) const APPEAR_LIMIT: Duration = Duration::from_secs(10);
/// Silence of the daemon during a request before a probe. It doubles after each answered probe, up to
/// `PROBE_LAST`, so that a long `follow` of an idle worker causes few wakeups.
pub(crate) const PROBE_FIRST: Duration = Duration::from_secs(15);
pub(crate) const PROBE_LAST: Duration = Duration::from_secs(300);
pub(crate) const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// A client for the daemon of one state dir. It connects on first use.
#[derive(Debug)]
pub struct DaemonClient {
    place: DaemonLocator,
    handle: Option<ControllerHandle>,
    /// The idempotency key of the whole of which the requests are parts.
    key: Option<String>,
    link: Option<connect::DaemonConnection>,
    /// The name of the worker that `@last` was, once it was looked up.
    last_name: Option<String>,
    /// Whether the request that has lost its connection waits; `None` once one has had an answer.
    cut: Option<bool>,
    /// Whether all of its requests belong to a wait.
    waits: bool,
}

/// How to find or start the daemon.
#[derive(Debug, Clone)]
struct DaemonLocator {
    state_dir: PathBuf,
    start: StartPolicy,
    /// Maximum wait for a daemon that another process must start.
    patience: Duration,
    /// The environment of a daemon that this client starts.
    vars: Vec<(OsString, OsString)>,
    /// The daemon is on another host; the rest is for those of this machine.
    far: Option<far::FarLocator>,
}

/// The policy if no daemon runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartPolicy {
    /// Start a daemon in the background.
    Start,
    /// Fail, because of `SUBAGENT_NO_AUTOSTART=1`.
    Refuse,
    /// Use only a running daemon and never wait for one (`subagentd status`, `subagentd stop`).
    OnlyRunning,
}

impl DaemonClient {
    /// Creates a client for commands of a workspace. It starts the daemon if necessary.
    #[must_use]
    pub fn new(context: &CliContext, workspace: &Workspace) -> Self {
        let refuse = context.forbids_autostart();
        let start = if refuse { StartPolicy::Refuse } else { StartPolicy::Start };
        Self::with_policy(context, workspace, start)
    }

    /// Creates a client for a command that starts the daemon explicitly, even with `SUBAGENT_NO_AUTOSTART`.
    #[must_use]
    pub fn starting(context: &CliContext, workspace: &Workspace) -> Self {
        Self::with_policy(context, workspace, StartPolicy::Start)
    }

    /// Creates a client that uses only a running daemon, perhaps on another host.
    #[must_use]
    pub fn looking(context: &CliContext, workspace: &Workspace) -> Self {
        Self::with_policy(context, workspace, StartPolicy::OnlyRunning)
    }

    fn with_policy(context: &CliContext, workspace: &Workspace, start: StartPolicy) -> Self {
        let far = |link: &Arc<HostLink>| far::FarLocator {
            link: Arc::clone(link),
            root: workspace.root.clone(),
            after: None,
        };
        Self {
            place: DaemonLocator {
                state_dir: workspace.state_dir.clone(),
                start,
                patience: APPEAR_LIMIT,
                vars: starting::autostart::daemon_environment(&context.env),
                far: context.host.as_ref().map(far),
            },
            handle: context.handle(),
            key: None,
            link: None,
            last_name: None,
            cut: None,
            waits: false,
        }
    }

    /// Creates a client that uses only a running daemon.
    #[must_use]
    pub fn of_running(state_dir: PathBuf) -> Self {
        let start = StartPolicy::OnlyRunning;
        let place = DaemonLocator { state_dir, start, patience: APPEAR_LIMIT, vars: Vec::new(), far: None };
        Self { place, handle: None, key: None, link: None, last_name: None, cut: None, waits: false }
    }

    /// Sets the maximum wait for a daemon that another process must start.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.place.patience = patience;
        self
    }

    /// Creates another client of the same daemon, for a conversation beside this one.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            place: self.place.clone(),
            handle: self.handle.clone(),
            key: None,
            link: None,
            last_name: None,
            cut: None,
            waits: false,
        }
    }

    /// Counts each connection as a lost one of a wait: the command has reached the daemon before.
    #[must_use]
    pub fn during_wait(self) -> Self {
        Self { cut: Some(true), waits: true, ..self }
    }

    /// Sets the controller on whose behalf the client sends requests.
    #[must_use]
    pub fn in_the_name_of(self, handle: Option<ControllerHandle>) -> Self {
        Self { handle, ..self }
    }

    /// Makes the changes of this client parts of one whole with this idempotency key: each path is changed once.
    #[must_use]
    pub fn under_key(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// Returns the daemon, started if the policy permits it, and a connection on which nothing was
    /// sent. `after` is the generation of a daemon whose end is awaited.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`].
    pub async fn into_stream(self, after: Option<u64>) -> Result<(DaemonInfo, StdStream)> {
        let deadline = Instant::now() + START_LIMIT;
        if let Some(info) = read_info(&self.place.state_dir).filter(|info| Some(info.generation) == after) {
            starting::autostart::gone(&info, deadline).await?;
        }
        let found = starting::autostart::find_or_start(&self.place, &RetryBudget::default()).await?;
        match connect::stream(&found.info, deadline).await? {
            Some(stream) => {
                let failed = |error| Failure::internal(format!("cannot use a connection: {error}"));
                let stream = stream.into_std().map_err(failed)?;
                stream.set_nonblocking(false).map_err(failed)?;
                Ok((found.info, stream))
            }
            None => Err(connect::unresponsive(&found.info, "it has ended at once")),
        }
    }

    /// Returns the daemon of the current connection.
    #[must_use]
    pub fn daemon(&self) -> Option<&DaemonInfo> {
        self.link.as_ref().map(|link| &link.info)
    }

    /// Returns the typed addresses for a view: with the worker's name in place of `@last`.
    #[must_use]
    pub fn names(&self, addresses: &[String]) -> Vec<String> {
        let name = |address: &String| match &self.last_name {
            Some(name) if address == LAST => name.clone(),
            _ => address.clone(),
        };
        addresses.iter().map(name).collect()
    }
}

/// Runs async requests of a command on this thread.
///
/// # Errors
/// Those of the requests, and `INTERNAL_ERROR` if the system provides no event queue.
pub fn block_on<T>(conversation: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("cannot set up an event queue: {error}")))?;
    let result = runtime.block_on(conversation);
    // A thread that waits for a lock must not delay the end of the process.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
mod waits;
