//! The live runtimes and the processes of workers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use subagent_protocol::Result;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::process::ProcessId;
use tokio::sync::watch;

use crate::descriptors;

/// The live runtimes of a daemon, and their processes.
#[derive(Debug)]
pub(crate) struct LiveRuntimes {
    count: watch::Sender<usize>,
    /// The open files that are left for them.
    files: Arc<tokio::sync::Semaphore>,
    guards: Mutex<HashMap<WorkerId, ProcessId>>,
    runtimes: Mutex<HashMap<WorkerId, ProcessId>>,
}

impl LiveRuntimes {
    pub(super) fn new() -> Self {
        let files = descriptors::for_runtimes(descriptors::limit());
        Self {
            count: watch::Sender::new(0),
            files: Arc::new(tokio::sync::Semaphore::new(files)),
            guards: Mutex::default(),
            runtimes: Mutex::default(),
        }
    }

    pub(super) fn count(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
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

/// Counts a live runtime and its open files until it is dropped.
pub(super) struct LiveToken {
    count: watch::Sender<usize>,
    _files: tokio::sync::OwnedSemaphorePermit,
}

impl LiveToken {
    /// Reserves the files of a live runtime, which may be placed.
    ///
    /// # Errors
    /// `TOO_MANY_OPEN_FILES`: the remaining descriptors are reserved for requests.
    pub(super) fn take(runtimes: &LiveRuntimes, is_placed: bool) -> Result<Self> {
        let files = if is_placed { descriptors::PER_PLACED_RUNTIME } else { descriptors::PER_RUNTIME };
        let Ok(files) = Arc::clone(&runtimes.files).try_acquire_many_owned(files) else {
            return Err(descriptors::too_many("cannot reach the worker"));
        };
        runtimes.count.send_modify(|live| *live += 1);
        Ok(Self { count: runtimes.count.clone(), _files: files })
    }
}

impl Drop for LiveToken {
    fn drop(&mut self) {
        self.count.send_modify(|live| *live = live.saturating_sub(1));
    }
}
