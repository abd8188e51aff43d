//! What all workers of a daemon share.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subagent_config::RuntimeDir;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{Notify, watch};

use super::keyed_locks::KeyedLocks;
use super::per_worker::PerWorker;
use crate::descriptors;

use crate::store::{Durability, RowId, Store, WorkerRow};

/// Maximum number of hooks that run at once; others wait. Each costs a process and three descriptors.
const MAX_HOOKS: usize = 16;

/// Where the daemon keeps things.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The state dir; exists, 0700, writable, on a usable file system; `daemon.lock` is held by the caller.
    pub state_dir: PathBuf,
    /// The directory of the sockets.
    pub runtime_dir: RuntimeDir,
    /// The executable `subagent-runtime`.
    pub runtime_program: PathBuf,
    /// Whether a runtime that died is started again at once, and how long after the last time at the earliest.
    /// Otherwise the next message does it.
    pub restart_cooldown: Option<Duration>,
    /// After which time what is over is removed; `None`: never.
    pub retention: Option<Duration>,
}

impl Setup {
    /// The folders that are the daemon's alone: the state dir, and that of the sockets.
    pub(super) fn own_folders(&self) -> [&Path; 2] {
        [&self.state_dir, self.runtime_dir.path()]
    }
}

/// The workers that came with the files of another state dir.
#[derive(Debug)]
pub(super) struct Copies {
    /// All up to this one; 0: none.
    pub(super) newest: RowId,
    /// Where the original was, if that is known.
    pub(super) from: Option<PathBuf>,
}

impl Copies {
    /// The error of a worker that is such a copy.
    pub(super) fn error(&self) -> Error {
        let from = self.from.as_ref().map(|path| path.display().to_string());
        let of = from.as_ref().map_or_else(|| "another one".to_owned(), Clone::clone);
        let message =
            format!("the worker is a copy: this state dir was copied from {of}, where the worker itself is");
        let error = Error::new(Code::WorkerCopied, message).recommend(
            "use the worker in the original workspace; here, start another one, or remove this one with `subagent worker rm`",
        );
        match from {
            Some(from) => error.with("copiedFrom", from),
            None => error,
        }
    }
}

pub(super) struct Shared {
    pub(super) setup: Setup,
    pub(super) copies: Copies,
    pub(super) store: Store,
    generation: AtomicU64,
    pub(super) boot_id: String,
    /// Turns true when the daemon ends: actors return, waits end.
    pub(super) ending: watch::Sender<bool>,
    /// The newest event of all workers that may be read.
    pub(super) news: watch::Sender<i64>,
    /// Counts changes of rules that decisions became.
    pub(super) rules: watch::Sender<u64>,
    /// Counts changes of budgets that several workers have.
    pub(super) budgets: watch::Sender<u64>,
    /// What wakes actors that have tasks, or are one's.
    pub(super) bells: PerWorker<u64>,
    /// The newest event of a worker that was stored beside its actor.
    pub(super) noted: PerWorker<i64>,
    /// Told when a worker was marked as removed.
    pub(super) removals: Notify,
    /// Held while the database is copied.
    pub(super) backing_up: tokio::sync::Mutex<()>,
    /// Held by `prune`: of two at once the second finds what the first has left, and its result under their key.
    pub(super) pruning: tokio::sync::Mutex<()>,
    /// Held while the files of definitions are read for somebody: of one at a time.
    pub(super) composing: Arc<tokio::sync::Mutex<()>>,
    /// Held by a request that changes a worktree, by the address in the request.
    pub(super) worktrees: KeyedLocks,
    /// Held while the hooks after the events of a worker run, by its id.
    pub(super) after_hooks: KeyedLocks,
    /// Bounds how many hooks run at once.
    pub(super) hooks: tokio::sync::Semaphore,
    live: watch::Sender<usize>,
    /// Counts parked workers for which something waits.
    pub(super) parked: watch::Sender<usize>,
    /// The maximum of `live`.
    max_runtimes: usize,
    guards: Mutex<HashMap<WorkerId, ProcessId>>,
    runtimes: Mutex<HashMap<WorkerId, ProcessId>>,
}

impl Shared {
    pub(super) fn new(setup: Setup, store: Store, generation: u64, boot_id: String, copies: Copies) -> Self {
        Self {
            setup,
            copies,
            store,
            generation: AtomicU64::new(generation),
            boot_id,
            ending: watch::Sender::new(false),
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
            max_runtimes: descriptors::max_runtimes(descriptors::limit()),
            guards: Mutex::default(),
            runtimes: Mutex::default(),
        }
    }

    /// Whether a worker is a copy: everything that its rows and files say of processes is about the original's.
    pub(super) fn is_copy(&self, worker: RowId) -> bool {
        worker.0 <= self.copies.newest.0
    }

    /// The refusal of something that needs a runtime: of a copied worker it says where the worker itself is.
    pub(super) fn refused(&self, row: &WorkerRow, error: Error) -> Error {
        if error.code != Code::WorkerStopped || !self.is_copy(row.id) {
            return error;
        }
        self.copies.error().with("workerId", row.worker_id.as_str())
    }

    /// The number of this daemon, higher than that of every daemon before it.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// A runtime has heard a higher one: the store is older than it, as after a restore.
    pub(super) async fn raise_generation(&self, above: u64) {
        match self.store.write(Durability::Full, 1, move |tx| tx.raise_generation(above)).await {
            Ok(generation) => {
                self.generation.fetch_max(generation, Ordering::Relaxed);
            }
            Err(error) => tracing::error!(%error, "the daemon's generation cannot be raised"),
        }
    }

    /// An event of a worker was stored beside its actor: readers may read up to it.
    pub(super) fn noted(&self, worker: RowId, seq: i64) {
        self.noted.update([worker], |newest| *newest = seq.max(*newest));
        self.announce(seq);
    }

    /// Wakes the actors of workers that have to do with tasks.
    pub(super) fn ring(&self, ids: impl IntoIterator<Item = RowId>) {
        self.bells.update(ids, |rung| *rung += 1);
    }

    /// Notifies readers of the events of all workers that they may read up to this one.
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

    /// What is above everything that an agent starts, and whose agent that is: the guards, and behind them the runtimes,
    /// which have the terminals of their agents below them.
    pub(super) fn guards(&self) -> Vec<(WorkerId, ProcessId)> {
        let both =
            [&self.guards, &self.runtimes].map(|map| map.lock().unwrap_or_else(PoisonError::into_inner));
        both.iter().flat_map(|map| map.iter()).map(|(worker, process)| (worker.clone(), *process)).collect()
    }

    /// What is stored of the processes of a worker.
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
                // The locks of both are taken in this order everywhere.
                self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).remove(worker);
                guards.remove(worker)
            }
        };
    }
}

/// Ends when the daemon is ending.
pub(super) async fn is_ending(ending: &mut watch::Receiver<bool>) {
    // An error means that the daemon's parts are gone already.
    let _ = ending.wait_for(|ending| *ending).await;
}

/// Counts a parked worker for which something waits, for as long as it is kept.
pub(super) struct Waiting(Arc<Shared>);

impl Waiting {
    pub(super) fn count(shared: &Arc<Shared>) -> Self {
        shared.parked.send_modify(|parked| *parked += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.parked.send_modify(|parked| *parked = parked.saturating_sub(1));
    }
}

/// Counts a live runtime for as long as it is kept.
pub(super) struct LiveToken(Arc<Shared>);

impl LiveToken {
    /// # Errors
    /// `TOO_MANY_OPEN_FILES`: the descriptors that are left are for requests.
    pub(super) fn take(shared: &Arc<Shared>) -> Result<Self> {
        let has_room = |live: &usize| *live < shared.max_runtimes;
        let taken = shared.live.send_if_modified(|live| {
            let taken = has_room(live);
            *live += usize::from(taken);
            taken
        });
        if taken {
            Ok(Self(Arc::clone(shared)))
        } else {
            Err(descriptors::too_many("cannot reach the worker"))
        }
    }
}

impl Drop for LiveToken {
    fn drop(&mut self) {
        self.0.live.send_modify(|live| *live = live.saturating_sub(1));
    }
}
