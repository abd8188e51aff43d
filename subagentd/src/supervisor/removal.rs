//! Removing workers because somebody asked for it. From the commit of the mark on a worker is nowhere; the janitor does
//! the rest.

use std::collections::HashSet;
use std::time::Duration;

use subagent_protocol::api::{Prune, Pruned, PrunedWorker, RemoveWorker, WorkerRemoved};
use subagent_protocol::ids::ControllerId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::{Caller, Supervisor, entropy, janitor, leftovers};
use crate::core::Input;
use crate::store::{Durability, OwnerCheck, WorkerRow, controllers, removal, retention, workers};

/// The key of a request is kept at least so long: whoever repeats it after a lost connection must find its result.
const KEYS_KEPT: Duration = Duration::from_secs(24 * 3600);

impl Supervisor {
    /// Removes a worker that is stopped, or has failed and has no runtime; with `force` any, which is stopped first.
    ///
    /// # Errors
    /// `WORKER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`, `INVALID_WORKER_STATE{workerId,state}` for one that is not
    /// stopped, `STOP_INCOMPLETE`, `IDEMPOTENCY_CONFLICT`; `STORAGE_ERROR` for one that is set aside.
    pub async fn remove_worker(
        &self,
        caller: Caller,
        worker: &str,
        request: RemoveWorker,
    ) -> Result<WorkerRemoved> {
        let (this, worker) = (self.clone(), worker.to_owned());
        // On its own: a client that goes away must not leave it stopped and not removed.
        tokio::spawn(async move { this.remove(caller, &worker, request).await })
            .await
            .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
    }

    async fn remove(&self, caller: Caller, worker: &str, request: RemoveWorker) -> Result<WorkerRemoved> {
        let (owner, key) = self.guarded(caller, &format!("remove {worker}"), &request)?;
        // There is no worker any more when the request is repeated.
        if let Some(earlier) = self.recall(&key).await? {
            return read(earlier);
        }
        let mut row = self.row(worker).await?;
        if row.state != "stopped" {
            let input = if request.force { Input::Stop } else { Input::Retire };
            self.stop_for_removal(&row, &owner, input).await?;
            row = self.row(worker).await?;
        }
        let removed = WorkerRemoved {
            worker_id: row.worker_id.clone(),
            controller_id: row.controller_id.clone(),
            stopped_at: row.stopped_at.unwrap_or(row.updated_at),
            removed_at: entropy::now(),
        };
        subagent_failpoint::hit("remove.before_mark");
        let marked = self
            .shared
            .store
            .write(Durability::Full, 1, move |tx| {
                let (removed, _) = tx.once(key.as_ref(), removed.removed_at, |tx| {
                    controllers::check_owner_of(tx.connection(), &owner, &row.controller_id)?;
                    if !tx.mark_removed(row.id, removed.removed_at)? {
                        return Err(gone());
                    }
                    Ok(removed)
                })?;
                Ok(removed)
            })
            .await;
        subagent_failpoint::hit("remove.after_mark");
        // Somebody else was faster.
        let removed = marked.map_err(|error| match error.code {
            Code::WorkerNotFound => self.roster.not_found(worker),
            _ => error,
        })?;
        self.forget([worker]);
        Ok(removed)
    }

    async fn stop_for_removal(&self, row: &WorkerRow, owner: &OwnerCheck, input: Input) -> Result<()> {
        let handle = match self.reach(row, owner, &None).await {
            Ok(super::orders::Reached::Actor(handle)) => handle,
            Ok(super::orders::Reached::Past(_)) => return Ok(()),
            Err(error) if error.code == Code::WorkerStopped => return Ok(()),
            Err(error) => return Err(error),
        };
        let worker = row.worker_id.as_str();
        self.stop_with(&handle, Some(owner.clone()), None, input).await.map(drop).map_err(|error| match error
            .code
        {
            Code::InvalidWorkerState => error
                .with("workerId", worker)
                .recommend("stop the worker first, or let --force do it")
                .with("recommendedCommand", format!("subagent worker stop {worker}")),
            _ => error,
        })
    }

    /// Lets go of workers that were just marked, and has the rest of them deleted.
    pub(super) fn forget<'a>(&self, workers: impl IntoIterator<Item = &'a str>) {
        workers.into_iter().for_each(|worker| self.roster.forget(worker));
        self.shared.removals.notify_one();
    }

    /// Removes all workers that have been stopped for so long, the keys of requests that are as old, and what is left in
    /// the state dir of workers that nobody knows.
    ///
    /// # Errors
    /// `INVALID_CONTROLLER_HANDLE` if it is not right for each controller that is concerned; then nothing is removed.
    /// `IDEMPOTENCY_CONFLICT`, `STORAGE_ERROR`.
    pub async fn prune(&self, caller: Caller, request: Prune) -> Result<Pruned> {
        let this = self.clone();
        tokio::spawn(async move { this.prune_now(caller, request).await })
            .await
            .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
    }

    async fn prune_now(&self, caller: Caller, request: Prune) -> Result<Pruned> {
        let (owner, key) = self.guarded(caller, "prune", &request)?;
        if let Some(earlier) = self.recall(&key).await? {
            return read(earlier);
        }
        let now = entropy::now();
        let age = Duration::from_secs(request.older_than_seconds);
        let cutoff = before(now, age);
        let rows = self.stopped_before(cutoff).await?;
        let concerned: HashSet<ControllerId> = rows.iter().map(|row| row.controller_id.clone()).collect();
        let (check, of) = (owner.clone(), concerned.clone());
        self.shared
            .store
            .read(move |connection| {
                of.iter().try_for_each(|id| controllers::check_owner_of(connection, &check, id))
            })
            .await?;
        let mut items = Vec::with_capacity(rows.len());
        for row in &rows {
            items.push(self.measured(row).await?);
        }
        let old_keys = before(now, age.max(KEYS_KEPT));
        let keys = self.shared.store.read(move |connection| retention::count_requests(connection, old_keys));
        let keys = keys.await?;
        let left = leftovers::find(&self.shared, cutoff).await?;
        let bytes = items.iter().map(|item: &PrunedWorker| item.bytes).sum::<u64>();
        let pruned = Pruned {
            dry_run: request.dry_run,
            older_than_seconds: request.older_than_seconds,
            count: items.len(),
            events: items.iter().map(|item| item.events).sum(),
            bytes: bytes + left.iter().map(|left| left.bytes).sum::<u64>(),
            items,
            keys,
            leftovers: left.iter().map(|left| left.path.display().to_string()).collect(),
        };
        if request.dry_run {
            return Ok(pruned);
        }
        leftovers::remove(left).await;
        janitor::forget_requests(&self.shared, old_keys).await?;
        subagent_failpoint::hit("remove.before_mark");
        let pruned = self
            .shared
            .store
            .write(Durability::Full, rows.len(), move |tx| {
                let (pruned, _) = tx.once(key.as_ref(), now, |tx| {
                    for controller in &concerned {
                        controllers::check_owner_of(tx.connection(), &owner, controller)?;
                    }
                    for row in &rows {
                        // What somebody else removes at the same time is removed all the same.
                        tx.mark_removed(row.id, now)?;
                    }
                    Ok(pruned)
                })?;
                Ok(pruned)
            })
            .await?;
        subagent_failpoint::hit("remove.after_mark");
        self.forget(pruned.items.iter().map(|item| item.worker_id.as_str()));
        Ok(pruned)
    }

    /// All workers that have been stopped since before then.
    pub(super) async fn stopped_before(&self, cutoff: Timestamp) -> Result<Vec<WorkerRow>> {
        let mut rows = self.shared.store.read(|connection| workers::list(connection, None)).await?;
        rows.retain(|row| row.state == "stopped" && row.stopped_at.unwrap_or(row.updated_at) < cutoff);
        Ok(rows)
    }

    async fn measured(&self, row: &WorkerRow) -> Result<PrunedWorker> {
        let mut size = removal::Size::default();
        let id = row.id;
        loop {
            // Piece by piece: no reader holds the database for long.
            let more =
                self.shared.store.read(move |connection| removal::measure(connection, id, size)).await?;
            match more {
                Some(more) => size = more,
                None => break,
            }
        }
        Ok(PrunedWorker {
            worker_id: row.worker_id.clone(),
            controller_id: row.controller_id.clone(),
            label: row.label.clone(),
            stopped_at: row.stopped_at.unwrap_or(row.updated_at),
            events: size.events,
            bytes: size.bytes + leftovers::bytes_of(&self.shared, row.worker_id.as_str()).await,
        })
    }
}

/// So long before.
pub(super) fn before(now: Timestamp, age: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)))
}

fn gone() -> Error {
    Error::new(Code::WorkerNotFound, "the worker was removed by somebody else")
}

fn read<T: serde::de::DeserializeOwned>(response: serde_json::Value) -> Result<T> {
    serde_json::from_value(response)
        .map_err(|error| Error::new(Code::Internal, format!("a stored result cannot be read: {error}")))
}
