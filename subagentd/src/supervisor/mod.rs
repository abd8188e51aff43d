//! The control plane: each folder has the functions of one subject, which take the [`Supervisor`].
//! Changes of a worker go through its actor (`worker`); durable changes go through the store's
//! writer. No lock or statement is held across an await.

pub(crate) mod addresses;
mod changes;
pub(crate) mod cleanup;
pub(crate) mod command_run;
pub(crate) mod controllers;
pub(crate) mod entropy;
pub(crate) mod events;
mod handle;
pub(crate) mod handoffs;
pub(crate) mod hooks;
mod live_runtimes;
mod locks;
mod orders;
mod per_worker;
mod policy;
pub(crate) mod questions;
mod roster;
pub(crate) mod runtimes;
mod shared;
pub(crate) mod start;
pub(crate) mod tasks;
pub(crate) mod turns;
pub(crate) mod views;
mod worker;
pub(crate) mod worktrees;

use std::sync::Arc;

use subagent_config::{StateIdentity, proc};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;
use subagent_protocol::stream::DaemonEpoch;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{mpsc, watch};

pub(crate) use events::collected::{Collected, Last};
pub(crate) use events::follow::WorkerFollower;
pub(crate) use events::follow_all::{AllFollower, EventStreamFilter};
pub(crate) use events::follow_below::EventScope;
pub(crate) use events::stream::EventAccess;
pub(crate) use events::wait::WaitMatch;
pub(crate) use handle::{ApiCaller, Supervisor};
pub(crate) use questions::inbox::{InboxFilter, listed};
pub(crate) use questions::standing_rules::RuleFilter;
pub(crate) use runtimes::health::HealthCheckOptions;
#[cfg(feature = "testing")]
pub(crate) use runtimes::journal::JournalReader;
#[cfg(feature = "testing")]
pub use runtimes::link::frames_of_runtime;
pub(crate) use runtimes::stream::channels::PlacedConnection;
pub(crate) use shared::DaemonSettings;
pub(crate) use start::scheduled::{NewSchedule, ScheduleChange};
pub(crate) use tasks::{TaskCaller, TaskFilter};
pub(crate) use views::inspect::InspectQuery;
pub(crate) use views::overview::OverviewFilter;
pub(crate) use views::question::pending_approval;
#[cfg(test)]
pub(crate) use worker::{REPORT_AFTER, REPORT_WAITING_AFTER, is_progress};
#[cfg(any(test, feature = "testing"))]
pub(crate) use worker::{SessionUpdates, input};

pub use runtimes::stray_processes;
pub use tasks::result_check;

use crate::store::database::identity;
use crate::store::{Durability, RowId, Store, Tx};
use roster::Roster;
use shared::{CopiedWorkers, SupervisorState};

impl Supervisor {
    /// Opens the store, increments the generation, and begins to adopt runtimes.
    ///
    /// # Errors
    /// `STATE_DIR_FOREIGN`, `STATE_DIR_TOO_NEW`, `STORAGE_ERROR`, `INTERNAL_ERROR`.
    pub(crate) async fn open(setup: DaemonSettings) -> Result<Self> {
        let store = Store::open(&setup.state_dir.join("state.db"))?;
        let identity = StateIdentity::read(&setup.state_dir);
        let named = identity.clone();
        let begin = move |tx: &mut Tx<'_>| {
            let copied = match &named {
                Some(identity) => identity::belong_to(tx, &identity.folder.id, identity.copy_of.as_deref())?,
                None => RowId(0),
            };
            Ok((identity::raise_generation(tx, 0)?, copied))
        };
        let (generation, newest_copy) = store.write(Durability::Full, 1, begin).await?;
        let boot_id = proc::boot_id()
            .map_err(|error| Error::new(Code::Internal, format!("this boot's id cannot be read: {error}")))?;
        let copies =
            CopiedWorkers { newest: newest_copy, from: identity.and_then(|identity| identity.copied_from) };
        let epoch = DaemonEpoch { generation, start: entropy::token()? };
        let shared = Arc::new(SupervisorState::new(setup, store, epoch, boot_id, copies));
        start::environment::remove_strays(&shared).await;
        handoffs::remove_strays(&shared).await;
        worktrees::recover_landings(&shared).await?;
        let roster = Arc::new(Roster::adopt(&shared).await?);
        let supervisor = Self { shared, roster };
        turns::titles::take_up_titles(&supervisor).await?;
        tokio::spawn(runtimes::adoption::run(Arc::clone(&supervisor.shared), supervisor.roster.all()));
        tokio::spawn(cleanup::janitor::run(supervisor.clone()));
        Ok(supervisor)
    }

    /// Returns the generation of this daemon.
    #[must_use]
    pub(crate) fn generation(&self) -> u64 {
        self.shared.generation()
    }

    /// Gives parts outside of the control plane access to the events of all workers.
    pub(crate) fn stream(&self) -> EventAccess {
        EventAccess::of(&self.shared)
    }

    /// Returns the guards of all live workers, which identify the worker that sends a request.
    #[must_use]
    pub(crate) fn guards(&self) -> Vec<(WorkerId, ProcessId)> {
        self.shared.live.guards()
    }

    /// Returns the connections from below workers on other machines; `None` if they were taken before.
    pub(crate) fn placed_connections(&self) -> Option<mpsc::Receiver<PlacedConnection>> {
        self.shared.placed_connections.take()
    }

    /// Watches the number of workers with a live runtime.
    #[must_use]
    pub(crate) fn live_workers(&self) -> watch::Receiver<usize> {
        self.shared.live.count()
    }

    /// Watches the number of parked workers with queued work.
    #[must_use]
    pub(crate) fn parked_workers(&self) -> watch::Receiver<usize> {
        self.shared.changes.parked.subscribe()
    }

    /// Stores an event about a refused request from below a worker. Returns the error for the
    /// request.
    pub(crate) async fn forbidden(&self, worker: &WorkerId, what: &str) -> Error {
        tracing::warn!(%worker, what, "a request from below a worker was refused");
        // An agent that keeps asking must not fill the actor's queue.
        if let Ok(handle) = self.roster.live(worker.as_str())
            && handle.has_room()
        {
            // The event is informative. The request is refused even if the event cannot be queued.
            let _ = handle.send(worker::ActorMessage::Forbidden { what: what.to_owned() });
        }
        Error::new(
            Code::ForbiddenFromWorker,
            format!("{what} is only for the owner of the worker, not for its agent or a process below it"),
        )
        .with("workerId", worker.as_str())
        .recommend("ask the person or program that manages this worker")
    }

    /// Ends all parts of this daemon. The runtimes continue, unless `stop_workers` is set.
    ///
    /// # Errors
    /// `STOP_INCOMPLETE` if a worker could not be stopped. The daemon's parts have ended anyway.
    pub(crate) async fn shutdown(&self, stop_workers: bool) -> Result<()> {
        let stopped = if stop_workers { start::stop::stop_all(self).await } else { Ok(()) };
        self.shared.ending.send_replace(true);
        self.shared.store.close().await;
        // Nothing is stored any more, so remaining environment files belong to no live worker.
        start::environment::remove_strays(&self.shared).await;
        stopped
    }
}

/// Fixtures of the unit tests below this module: a control plane in its own folder, with a runtime
/// program that does not exist.
#[cfg(test)]
mod testing {
    use std::path::Path;

    use subagent_config::{Environment, RuntimeDir};
    use subagent_protocol::api::{ControllerChoice, ControllerInitialized, InitController};
    use subagent_protocol::budget::Limits;

    use crate::supervisor::runtimes::stray_processes::FormerClients;
    use crate::supervisor::runtimes::stream::turns::DialTurns;
    use crate::supervisor::{ApiCaller, DaemonSettings, ProcessId, Supervisor, proc};

    pub(super) fn setup(dir: &Path) -> DaemonSettings {
        let state_dir = dir.join("state");
        std::fs::create_dir_all(&state_dir).unwrap();
        let env = Environment::new([("XDG_RUNTIME_DIR".into(), dir.into())], dir);
        DaemonSettings {
            runtime_dir: RuntimeDir::prepare(&env, &state_dir).unwrap(),
            state_dir,
            runtime_program: dir.join("no-such-program"),
            restart_cooldown: None,
            retention: None,
            placement: None,
            dial_turns: DialTurns::default(),
            former_clients: FormerClients::default(),
        }
    }

    pub(super) fn folder() -> tempfile::TempDir {
        // Not in TMPDIR: the path of a socket has at most 107 bytes.
        tempfile::tempdir_in("/tmp").unwrap()
    }

    pub(super) fn caller(key: Option<&str>) -> ApiCaller {
        ApiCaller { handle: None, idempotency_key: key.map(str::to_owned) }
    }

    pub(super) fn choice(dir: &Path) -> ControllerChoice {
        ControllerChoice {
            controller_id: None,
            hinted_controller_id: None,
            workspace_key: dir.display().to_string(),
        }
    }

    /// Returns this test's own process as a live owner.
    pub(super) fn own_process() -> ProcessId {
        let pid = nix::unistd::getpid().as_raw();
        ProcessId { pid, start_time: proc::start_time(pid).unwrap() }
    }

    pub(super) async fn init(
        supervisor: &Supervisor,
        dir: &Path,
        owner: ProcessId,
        key: Option<&str>,
    ) -> subagent_protocol::Result<ControllerInitialized> {
        let request = InitController {
            choice: choice(dir),
            label: None,
            require_handle: false,
            budget: Limits::default(),
            owner,
        };
        super::controllers::ownership::init_controller(supervisor, caller(key), request).await
    }
}
