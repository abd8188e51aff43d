//! State shared by all workers of a daemon.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_config::RuntimeDir;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::Placement;
use subagent_protocol::process::ProcessId;
use subagent_protocol::stream::DaemonEpoch;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{Notify, watch};

use super::keyed_locks::KeyedLocks;
use super::per_worker::PerWorker;
use super::runtimes::stray_processes::FormerClients;
use super::runtimes::stream::channels::PlacedConnections;
use super::runtimes::stream::turns::DialTurns;
use crate::descriptors;

use crate::store::database::identity;
use crate::store::{Durability, RowId, Store, Tx, WorkerRow, workers};

/// Maximum number of hooks that run at once; others wait. Each costs a process and three
/// descriptors.
const MAX_HOOKS: usize = 16;

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
    /// Sequence number of the newest readable event of all workers.
    pub(super) news: watch::Sender<i64>,
    /// Counts changes of owner rules.
    pub(super) rules: watch::Sender<u64>,
    /// Counts changes of shared budgets.
    pub(super) budgets: watch::Sender<u64>,
    /// Notifies actors that have tasks or work on one.
    pub(super) bells: PerWorker<u64>,
    /// The newest event of a worker that was stored outside of its actor.
    pub(super) noted: PerWorker<i64>,
    /// Notified when a worker was marked as removed.
    pub(super) removals: Notify,
    /// Held while the database is copied.
    pub(super) backing_up: tokio::sync::Mutex<()>,
    /// Held by `prune`. A second request with the same key then finds the result of the first.
    pub(super) pruning: tokio::sync::Mutex<()>,
    /// Held while definition files are read for a task, one at a time.
    pub(super) composing: Arc<tokio::sync::Mutex<()>>,
    /// Held by a request that changes a worktree; keyed by the address in the request.
    pub(super) worktrees: KeyedLocks,
    /// Held while the after hooks of a worker run; keyed by its id.
    pub(super) after_hooks: KeyedLocks,
    /// Limits the number of hooks that run at once.
    pub(super) hooks: tokio::sync::Semaphore,
    live: watch::Sender<usize>,
    /// Counts parked workers with queued work.
    pub(super) parked: watch::Sender<usize>,
    /// The open files that are left for live runtimes.
    runtime_files: Arc<tokio::sync::Semaphore>,
    /// Connections from below placed workers, on their way to the API.
    pub(super) placed_connections: PlacedConnections,
    guards: Mutex<HashMap<WorkerId, ProcessId>>,
    runtimes: Mutex<HashMap<WorkerId, ProcessId>>,
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
            news: watch::Sender::new(0),
            rules: watch::Sender::new(0),
            budgets: watch::Sender::new(0),
            bells: PerWorker::default(),
            noted: PerWorker::default(),
            removals: Notify::new(),
            backing_up: tokio::sync::Mutex::default(),
            pruning: tokio::sync::Mutex::default(),
            composing: Arc::default(),
            worktrees: KeyedLocks::default(),
            after_hooks: KeyedLocks::default(),
            hooks: tokio::sync::Semaphore::new(MAX_HOOKS),
            live: watch::Sender::new(0),
            parked: watch::Sender::new(0),
            runtime_files: Arc::new(tokio::sync::Semaphore::new(descriptors::for_runtimes(
                descriptors::limit(),
            ))),
            placed_connections: PlacedConnections::default(),
            guards: Mutex::default(),
            runtimes: Mutex::default(),
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

    /// Records an event that was stored outside of the worker's actor. Readers may read up to it.
    pub(super) fn noted(&self, worker: RowId, seq: i64) {
        self.noted.update([worker], |newest| *newest = seq.max(*newest));
        self.announce(seq);
    }

    /// Notifies the actors of these workers that a task changed.
    pub(super) fn wake_actors(&self, ids: impl IntoIterator<Item = RowId>) {
        self.bells.update(ids, |rung| *rung += 1);
    }

    /// Notifies readers of all workers' events that they may read up to this one.
    pub(super) fn announce(&self, seq: i64) {
        self.news.send_if_modified(|newest| {
            let is_news = seq > *newest;
            *newest = seq.max(*newest);
            is_news
        });
    }

    pub(super) fn live(&self) -> watch::Receiver<usize> {
        self.live.subscribe()
    }

    /// Returns the processes above everything that an agent starts, with their worker: the guards,
    /// then the runtimes, which are the parents of terminals.
    pub(super) fn guards(&self) -> Vec<(WorkerId, ProcessId)> {
        let both =
            [&self.guards, &self.runtimes].map(|map| map.lock().unwrap_or_else(PoisonError::into_inner));
        both.iter().flat_map(|map| map.iter()).map(|(worker, process)| (worker.clone(), *process)).collect()
    }

    /// Registers the stored processes of a worker.
    pub(super) fn set_processes(
        &self,
        worker: &WorkerId,
        runtime: Option<ProcessId>,
        guard: Option<ProcessId>,
    ) {
        self.set_guard(worker, guard);
        if let Some(runtime) = runtime {
            self.set_runtime(worker, runtime);
        }
    }

    pub(super) fn set_runtime(&self, worker: &WorkerId, runtime: ProcessId) {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        runtimes.insert(worker.clone(), runtime);
    }

    pub(super) fn set_guard(&self, worker: &WorkerId, guard: Option<ProcessId>) {
        let mut guards = self.guards.lock().unwrap_or_else(PoisonError::into_inner);
        match guard {
            Some(guard) => guards.insert(worker.clone(), guard),
            None => {
                // Both locks are always taken in this order.
                self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).remove(worker);
                guards.remove(worker)
            }
        };
    }
}

/// Returns when the daemon is ending.
pub(super) async fn is_ending(ending: &mut watch::Receiver<bool>) {
    // An error means that the daemon's parts have ended already.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// Counts a parked worker with queued work until it is dropped.
pub(super) struct ParkedWorkGuard(Arc<SupervisorState>);

impl ParkedWorkGuard {
    pub(super) fn count(shared: &Arc<SupervisorState>) -> Self {
        shared.parked.send_modify(|parked| *parked += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for ParkedWorkGuard {
    fn drop(&mut self) {
        self.0.parked.send_modify(|parked| *parked = parked.saturating_sub(1));
    }
}

/// Counts a live runtime and its open files until it is dropped.
pub(super) struct LiveToken {
    shared: Arc<SupervisorState>,
    _files: tokio::sync::OwnedSemaphorePermit,
}

impl LiveToken {
    /// Reserves the files of a live runtime, which may be placed.
    ///
    /// # Errors
    /// `TOO_MANY_OPEN_FILES`: the remaining descriptors are reserved for requests.
    pub(super) fn take(shared: &Arc<SupervisorState>, is_placed: bool) -> Result<Self> {
        let files = if is_placed { descriptors::PER_PLACED_RUNTIME } else { descriptors::PER_RUNTIME };
        let Ok(files) = Arc::clone(&shared.runtime_files).try_acquire_many_owned(files) else {
            return Err(descriptors::too_many("cannot reach the worker"));
        };
        shared.live.send_modify(|live| *live += 1);
        Ok(Self { shared: Arc::clone(shared), _files: files })
    }
}

impl Drop for LiveToken {
    fn drop(&mut self) {
        self.shared.live.send_modify(|live| *live = live.saturating_sub(1));
    }
}

/// Returns the error for requests that the daemon cannot finish because it ends.
pub(super) fn ending_error() -> Error {
    Error::new(Code::DaemonNotRunning, "the daemon is ending; ask again").retryable()
}
