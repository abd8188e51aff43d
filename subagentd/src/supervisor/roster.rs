//! The live workers and the handles of their actors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use subagent_core::model::Worker;
use subagent_protocol::{Code, Error, Result};

use super::hooks::after_hooks;
use super::shared::SupervisorState;
use super::worker::ActorHandle;
use crate::store::{ControllerRow, WorkerRow, events, workers};

/// The actors of all workers that are not stopped.
pub(super) struct Roster {
    state_db: String,
    live: Mutex<HashMap<String, ActorHandle>>,
}

impl Roster {
    /// Creates an actor for each stored worker; it starts when it is needed. A worker with
    /// unreadable rows is set aside, and the rest works.
    pub(super) async fn adopt(shared: &Arc<SupervisorState>) -> Result<Self> {
        let found = shared
            .store
            .read(|connection| {
                let mut found = Vec::new();
                for row in workers::list(connection, None)? {
                    if row.state == "stopped" {
                        continue;
                    }
                    match workers::load(connection, &row) {
                        Ok(worker) => found.push((events::last_seq(connection, row.id)?, worker, row)),
                        Err(error) => {
                            tracing::error!(worker = %row.worker_id, %error, "a worker is set aside")
                        }
                    }
                }
                Ok(found)
            })
            .await?;
        let roster = Self { state_db: shared.store.path().display().to_string(), live: Mutex::default() };
        for (last_seq, worker, row) in found {
            if let Err(error) = roster.start(shared, &row, worker, last_seq) {
                tracing::error!(worker = %row.worker_id, %error, "a worker is set aside");
            }
        }
        after_hooks::catch_up(shared).await?;
        Ok(roster)
    }

    /// Starts the actor of a worker.
    ///
    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(super) fn start(
        &self,
        shared: &Arc<SupervisorState>,
        row: &WorkerRow,
        worker: Worker,
        last_seq: i64,
    ) -> Result<ActorHandle> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = live.get(row.worker_id.as_str()) {
            // A repeated request has already started the actor.
            return Ok(handle.clone());
        }
        let controller = ControllerRow {
            id: row.controller,
            controller_id: row.controller_id.clone(),
            label: String::new(),
            workspace_key: String::new(),
        };
        if row.runtime.may_live && !shared.is_copy(row.id) {
            // Registered before the first request, so that a process below the worker never counts
            // as the owner.
            shared.live.set_processes(&row.worker_id, row.runtime.process, row.runtime.guard);
        }
        let handle = ActorHandle::start(shared, row, controller, worker, last_seq)?;
        live.insert(row.worker_id.as_str().to_owned(), handle.clone());
        after_hooks::begin(shared, row, handle.snapshot.clone());
        Ok(handle)
    }

    /// Returns the actor of a worker that is not stopped. Creates one from the stored rows if there
    /// is none: its creation was interrupted, or its rows were unreadable when the daemon started.
    ///
    /// # Errors
    /// `STORAGE_ERROR` for a worker that is set aside, because its rows are still unreadable.
    pub(super) async fn adopted(
        &self,
        shared: &Arc<SupervisorState>,
        row: &WorkerRow,
    ) -> Result<ActorHandle> {
        if let Ok(handle) = self.live(row.worker_id.as_str()) {
            return Ok(handle);
        }
        let stored = row.clone();
        let loaded = shared
            .store
            .read(move |connection| {
                Ok((events::last_seq(connection, stored.id)?, workers::load(connection, &stored)?))
            })
            .await;
        let started = loaded.and_then(|(last_seq, worker)| self.start(shared, row, worker, last_seq));
        started.inspect(ActorHandle::begin).map_err(|error| {
            tracing::error!(worker = %row.worker_id, %error, "a worker is set aside");
            set_aside(row, &error)
        })
    }

    /// Returns the actor of a worker. Its channel is closed once the worker is stopped.
    ///
    /// # Errors
    /// `WORKER_NOT_FOUND` if the worker does not exist, was stopped before this daemon started, or
    /// is set aside.
    pub(super) fn live(&self, worker_id: &str) -> Result<ActorHandle> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.get(worker_id).cloned().ok_or_else(|| self.not_found(worker_id))
    }

    /// Drops the actor of a removed worker. The actor ended when the worker was stopped.
    pub(super) fn forget(&self, worker_id: &str) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(worker_id);
    }

    /// Returns the actors of all workers.
    pub(super) fn all(&self) -> Vec<ActorHandle> {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.values().cloned().collect()
    }

    pub(super) fn not_found(&self, worker_id: &str) -> Error {
        Error::new(Code::WorkerNotFound, format!("there is no worker {worker_id} in this state dir"))
            .with("workerId", worker_id)
            .with("stateDbPath", self.state_db.as_str())
            .recommend("list the workers with `subagent worker list`; check --cwd and SUBAGENT_STATE_DIR")
    }
}

/// Returns the error for a worker with unreadable rows. The details have the reason.
fn set_aside(row: &WorkerRow, why: &Error) -> Error {
    Error::new(
        Code::StorageError,
        "the stored state of the worker cannot be used; the worker was set aside and is read-only",
    )
    .with("workerId", row.worker_id.as_str())
    .with("error", why.message.as_str())
    .recommend("start another worker; the events of this one can still be read with `subagent watch`")
}
