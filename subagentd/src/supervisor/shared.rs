//! State shared by all workers of a daemon.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use subagent_config::RuntimeDir;
use subagent_protocol::placement::Placement;
use subagent_protocol::stream::DaemonEpoch;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::watch;

use super::changes::ChangeSignals;
use super::live_runtimes::LiveRuntimes;
use super::locks::OperationLocks;
use super::runtimes::stray_processes::FormerClients;
use super::runtimes::stream::channels::PlacedConnections;
use super::runtimes::stream::turns::DialTurns;
use crate::store::database::identity;
use crate::store::{Durability, RowId, Store, Tx, WorkerRow, workers};

/// Paths and settings of the daemon.
#[derive(Debug, Clone)]
pub(crate) struct DaemonSettings {
    /// The state dir: exists, mode 0700, writable, on a usable file system. The caller holds
    /// `daemon.lock`.
    pub state_dir: PathBuf,
    /// The directory of the sockets.
    pub runtime_dir: RuntimeDir,
    /// Path of the executable `subagent-runtime`.
    pub runtime_program: PathBuf,
    /// Restarts a dead runtime at once, but at most once in this time. `None`: the next message
    /// restarts it.
    pub restart_cooldown: Option<Duration>,
    /// Age after which stopped workers and old events are deleted. `None`: never.
    pub retention: Option<Duration>,
    /// Where new workers are placed; `None` beside the daemon.
    pub placement: Option<Placement>,
    /// The turns of connections to other places.
    pub dial_turns: DialTurns,
    /// The clients of engines that an earlier daemon has left.
    pub former_clients: FormerClients,
}

impl DaemonSettings {
    /// Returns the folders that only the daemon may use: the state dir and the folder of the
    /// sockets.
    pub(super) fn own_folders(&self) -> [&Path; 2] {
        [&self.state_dir, self.runtime_dir.path()]
    }
}

/// The workers that were copied with the files of another state dir.
#[derive(Debug)]
pub(super) struct CopiedWorkers {
    /// The newest copied worker; all older ones are copies too. 0 if there are none.
    pub(super) newest: RowId,
    /// Path of the original state dir, if it is known.
    pub(super) from: Option<PathBuf>,
}

impl CopiedWorkers {
    /// Returns the error for a copied worker.
    pub(super) fn error(&self) -> Error {
        let from = self.from.as_ref().map(|path| path.display().to_string());
        let of = from.as_ref().map_or_else(|| "another one".to_owned(), Clone::clone);
        let message =
            format!("the worker is a copy: this state dir was copied from {of}, which has the worker itself");
        let error = Error::new(Code::WorkerCopied, message).recommend(
            "use the worker in the original workspace; here, start another one, or remove this one with `subagent worker rm`",
        );
        match from {
            Some(from) => error.with("copiedFrom", from),
            None => error,
        }
    }
}

pub(crate) struct SupervisorState {
    pub(super) setup: DaemonSettings,
    pub(super) copies: CopiedWorkers,
    pub(super) store: Store,
    generation: AtomicU64,
    /// Random id of this start of the daemon.
    start: String,
    pub(super) boot_id: String,
    /// Turns true when the daemon ends: actors end, and waits fail.
    pub(super) ending: watch::Sender<bool>,
    /// Set when all workers are stopped: no worker is added after that.
    refuses_workers: AtomicBool,
    pub(super) changes: ChangeSignals,
    pub(super) locks: OperationLocks,
    pub(super) live: LiveRuntimes,
    /// Connections from below placed workers, on their way to the API.
    pub(super) placed_connections: PlacedConnections,
}

impl SupervisorState {
    pub(super) fn new(
        setup: DaemonSettings,
        store: Store,
        epoch: DaemonEpoch,
        boot_id: String,
        copies: CopiedWorkers,
    ) -> Self {
        Self {
            setup,
            copies,
            store,
            generation: AtomicU64::new(epoch.generation),
            start: epoch.start,
            boot_id,
            ending: watch::Sender::new(false),
            refuses_workers: AtomicBool::new(false),
            changes: ChangeSignals::default(),
            locks: OperationLocks::default(),
            live: LiveRuntimes::new(),
            placed_connections: PlacedConnections::default(),
        }
    }

    /// Refuses a new worker if the daemon stops all workers. Called in the transaction that adds it.
    ///
    /// # Errors
    /// `DAEMON_NOT_RUNNING`.
    pub(super) fn admit_worker(&self) -> Result<()> {
        match self.refuses_workers.load(Ordering::Acquire) {
            true => Err(ending_error()),
            false => Ok(()),
        }
    }

    /// Admits no further worker. Returns all workers that are not stopped.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, `STORAGE_FULL`.
    pub(super) async fn last_workers(&self) -> Result<Vec<WorkerRow>> {
        self.refuses_workers.store(true, Ordering::Release);
        // In a transaction, so that it follows those that were admitted.
        let list = |tx: &mut Tx<'_>| workers::list(tx.connection(), None);
        let mut rows = self.store.write(Durability::Progress, 1, list).await?;
        rows.retain(|row| row.state != "stopped");
        Ok(rows)
    }

    /// Returns whether a worker is a copy. The processes in its rows and files belong to the
    /// original.
    pub(super) fn is_copy(&self, worker: RowId) -> bool {
        worker.0 <= self.copies.newest.0
    }

    /// Returns the error for a request that needs a runtime. For a copy, it names the original's
    /// location.
    pub(super) fn refused(&self, row: &WorkerRow, error: Error) -> Error {
        if error.code != Code::WorkerStopped || !self.is_copy(row.id) {
            return error;
        }
        self.copies.error().with("workerId", row.worker_id.as_str())
    }

    /// Returns the generation of this daemon. It is higher than that of every earlier daemon.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Returns this start of the daemon, for the places of workers.
    pub(super) fn epoch(&self) -> DaemonEpoch {
        DaemonEpoch { generation: self.generation(), start: self.start.clone() }
    }

    /// Stores the generation of a daemon that fences this one, so that the next start of this state
    /// dir has a higher one. This daemon stays fenced.
    pub(super) async fn remember_generation(&self, other: u64) {
        let write = move |tx: &mut Tx<'_>| identity::remember_generation(tx, other);
        if let Err(error) = self.store.write(Durability::Full, 1, write).await {
            tracing::warn!(%error, "the generation of another daemon cannot be stored");
        }
    }

    /// Raises the generation above one that a runtime has seen. Needed if the store is older than
    /// the runtime, as after a restore.
    pub(super) async fn raise_generation(&self, above: u64) {
        match self.store.write(Durability::Full, 1, move |tx| identity::raise_generation(tx, above)).await {
            Ok(generation) => {
                self.generation.fetch_max(generation, Ordering::Relaxed);
            }
            Err(error) => tracing::error!(%error, "the daemon's generation cannot be raised"),
        }
    }
}

/// Returns when the daemon is ending.
pub(super) async fn is_ending(ending: &mut watch::Receiver<bool>) {
    // An error means that the daemon's parts have ended already.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// Returns the error for requests that the daemon cannot finish because it ends.
pub(super) fn ending_error() -> Error {
    Error::new(Code::DaemonNotRunning, "the daemon is ending; ask again").retryable()
}
