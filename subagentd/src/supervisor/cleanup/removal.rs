//! Removes workers on request. A worker is invisible from the commit of its mark on. The janitor
//! deletes its data.

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use subagent_core::model::WorkerInput;
use subagent_protocol::api::{Prune, Pruned, PrunedWorker, RemoveWorker, WorkerRemoved};
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::{janitor, orphaned_files};
use crate::store::{
    Durability, OwnerCheck, RowId, Tx, WorkerRow, controllers, removal, requests, retention, workers,
};
use crate::supervisor::orders::read_response;
use crate::supervisor::start::stop::stop_with;
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// Minimum age of deleted idempotency keys. A request repeated after a lost connection must find
/// its result.
const KEYS_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Number of workers that one transaction marks, so that other writes do not wait long.
pub(crate) const AT_ONCE: usize = 100;

/// Removes a worker that is stopped, or that failed and has no runtime. With `force`, removes
/// any worker and stops it first.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`, `INVALID_WORKER_STATE{workerId,state}` for
/// one that is not stopped, `STOP_INCOMPLETE`, `IDEMPOTENCY_CONFLICT`; `STORAGE_ERROR` for one
/// that is set aside.
pub(crate) async fn remove_worker(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request: RemoveWorker,
) -> Result<WorkerRemoved> {
    let (this, worker) = (supervisor.clone(), worker.to_owned());
    // In its own task: a client that disconnects must not leave the worker stopped but not
    // removed.
    tokio::spawn(async move { remove(&this, caller, &worker, request).await })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn remove(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request: RemoveWorker,
) -> Result<WorkerRemoved> {
    let (owner, key) = supervisor.guarded(caller, &format!("remove {worker}"), &request)?;
    // The worker is gone when the request is repeated.
    if let Some(earlier) = supervisor.recall(&key).await? {
        return read_response(earlier);
    }
    let removed = remove_now(supervisor, owner, key.clone(), worker, request).await;
    supervisor.or_earlier(&key, removed).await
}

async fn remove_now(
    supervisor: &Supervisor,
    owner: OwnerCheck,
    key: Option<(String, String)>,
    worker: &str,
    request: RemoveWorker,
) -> Result<WorkerRemoved> {
    let mut row = supervisor.row(worker).await?;
    if row.state != "stopped" {
        let input = if request.force { WorkerInput::Stop } else { WorkerInput::Retire };
        stop_for_removal(supervisor, &row, &owner, input).await?;
        row = supervisor.row(worker).await?;
    }
    let removed = WorkerRemoved {
        worker_id: row.worker_id.clone(),
        controller_id: row.controller_id.clone(),
        stopped_at: row.history.ended_at(),
        removed_at: entropy::now(),
    };
    subagent_failpoint::hit("remove.before_mark");
    let marked = supervisor
        .shared
        .store
        .write(Durability::Full, 1, move |tx| {
            let (removed, _) = requests::once(tx, key.as_ref(), removed.removed_at, |tx| {
                controllers::check_owner_of(tx.connection(), &owner, &row.controller_id)?;
                if !removal::mark(tx, row.id, removed.removed_at)? {
                    return Err(gone());
                }
                Ok(removed)
            })?;
            Ok(removed)
        })
        .await;
    subagent_failpoint::hit("remove.after_mark");
    // Another request removed it first.
    let removed = marked.map_err(|error| match error.code {
        Code::WorkerNotFound => supervisor.roster.not_found(worker),
        _ => error,
    })?;
    forget(supervisor, [worker]);
    Ok(removed)
}

async fn stop_for_removal(
    supervisor: &Supervisor,
    row: &WorkerRow,
    owner: &OwnerCheck,
    input: WorkerInput,
) -> Result<()> {
    let handle = match supervisor.reach(row, owner, &None).await {
        Ok(crate::supervisor::orders::RequestTarget::Live(handle)) => handle,
        Ok(crate::supervisor::orders::RequestTarget::Replayed(_)) => return Ok(()),
        Err(error) if error.code == Code::WorkerStopped => return Ok(()),
        Err(error) => return Err(error),
    };
    let worker = row.worker_id.as_str();
    stop_with(supervisor, &handle, Some(owner.clone()), None, input, None).await.map(drop).map_err(|error| {
        match error.code {
            Code::InvalidWorkerState => error
                .with("workerId", worker)
                .recommend("stop the worker first, or use --force")
                .with("recommendedCommand", format!("subagent worker stop {worker}")),
            _ => error,
        }
    })
}

/// Drops marked workers from the roster and notifies the janitor.
pub(crate) fn forget<'a>(supervisor: &Supervisor, workers: impl IntoIterator<Item = &'a str>) {
    workers.into_iter().for_each(|worker| supervisor.roster.forget(worker));
    supervisor.shared.changes.removals.notify_one();
}

/// Removes all workers that were stopped before the cutoff, idempotency keys as old, and files
/// of unknown workers and replaced states. Marks more than 100 workers in several transactions.
/// The result lists those that this request removed.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE` if the handle does not fit every affected controller; then
/// nothing is removed. `IDEMPOTENCY_CONFLICT`, `STORAGE_ERROR`.
pub(crate) async fn prune(supervisor: &Supervisor, caller: ApiCaller, request: Prune) -> Result<Pruned> {
    let this = supervisor.clone();
    tokio::spawn(async move { prune_now(&this, caller, request).await })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn prune_now(supervisor: &Supervisor, caller: ApiCaller, request: Prune) -> Result<Pruned> {
    let (owner, key) = supervisor.guarded(caller, "prune", &request)?;
    let _one_at_a_time = supervisor.shared.locks.pruning.lock().await;
    if let Some(earlier) = supervisor.recall(&key).await? {
        return read_response(earlier);
    }
    let now = entropy::now();
    let age = Duration::from_secs(request.older_than_seconds);
    let cutoff = retention_cutoff(supervisor, now, age).await?;
    let rows = stopped_before(supervisor, cutoff).await?;
    let concerned: HashSet<ControllerId> = rows.iter().map(|row| row.controller_id.clone()).collect();
    let (check_owner, check_concerned) = (owner.clone(), concerned.clone());
    let check = move |connection: &_| removal::check_owner_of_all(connection, &check_owner, &check_concerned);
    supervisor.shared.store.read(check).await?;
    let mut items = Vec::with_capacity(rows.len());
    for row in &rows {
        items.push((row.id, measured(supervisor, row).await?));
    }
    let old_keys = retention_cutoff(supervisor, now, age.max(KEYS_KEPT)).await?;
    let keys =
        supervisor.shared.store.read(move |connection| retention::count_requests(connection, old_keys));
    let keys = keys.await?;
    let left = orphaned_files::find(&supervisor.shared, cutoff).await?;
    let left_bytes = left.iter().map(|left| left.bytes).sum::<u64>();
    let paths: Vec<_> = left.iter().map(|left| left.path.display().to_string()).collect();
    let result = move |items: Vec<PrunedWorker>| Pruned {
        dry_run: request.dry_run,
        older_than_seconds: request.older_than_seconds,
        count: items.len(),
        events: items.iter().map(|item| item.events).sum(),
        bytes: left_bytes + items.iter().map(|item| item.bytes).sum::<u64>(),
        items,
        keys,
        leftovers: paths,
    };
    if request.dry_run {
        return Ok(result(items.into_iter().map(|(_, item)| item).collect()));
    }
    let ids = |pruned: &Pruned| pruned.items.iter().map(|item| item.worker_id.clone()).collect();
    let pruned = mark_in_steps(supervisor, items, (owner, concerned), key, now, result, ids).await?;
    // Only now the caller's permission is certain. If the daemon dies here, the next run finds
    // the rest.
    orphaned_files::remove(left).await;
    janitor::forget_requests(&supervisor.shared, old_keys).await?;
    Ok(pruned)
}

/// Marks workers in steps. The last step stores the response of the request: what `result`
/// makes of the workers that were really marked.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`, `STORAGE_ERROR`.
pub(crate) async fn mark_in_steps<T>(
    supervisor: &Supervisor,
    items: Vec<(RowId, PrunedWorker)>,
    (owner, concerned): (OwnerCheck, HashSet<ControllerId>),
    key: Option<(String, String)>,
    now: Timestamp,
    result: impl FnOnce(Vec<PrunedWorker>) -> T + Send + 'static,
    ids: impl FnOnce(&T) -> Vec<WorkerId>,
) -> Result<T>
where
    T: Serialize + DeserializeOwned + Send + 'static,
{
    let check = move |connection: &_| removal::check_owner_of_all(connection, &owner, &concerned);
    subagent_failpoint::hit("remove.before_mark");
    let mut marked = Vec::with_capacity(items.len());
    let mut rest = items.as_slice();
    while rest.len() > AT_ONCE {
        let (some, more) = rest.split_at(AT_ONCE);
        rest = more;
        let (some, check) = (some.to_vec(), check.clone());
        let mark = move |tx: &mut Tx<'_>| {
            check(tx.connection())?;
            mark_all(tx, some, now)
        };
        let some = supervisor.shared.store.write(Durability::Full, AT_ONCE, mark).await?;
        forget(supervisor, some.iter().map(|item| item.worker_id.as_str()));
        marked.extend(some);
    }
    let rest = rest.to_vec();
    let last = move |tx: &mut Tx<'_>| {
        let (pruned, _) = requests::once(tx, key.as_ref(), now, |tx| {
            check(tx.connection())?;
            // Workers that another request removes at the same time are not counted.
            marked.extend(mark_all(tx, rest, now)?);
            Ok(result(marked))
        })?;
        Ok(pruned)
    };
    let pruned = supervisor.shared.store.write(Durability::Full, AT_ONCE, last).await?;
    subagent_failpoint::hit("remove.after_mark");
    forget(supervisor, ids(&pruned).iter().map(WorkerId::as_str));
    Ok(pruned)
}

/// Returns the time before which something has this age. After a restore, ages count from the
/// restore.
pub(crate) async fn retention_cutoff(
    supervisor: &Supervisor,
    now: Timestamp,
    age: Duration,
) -> Result<Timestamp> {
    let cutoff = before(now, age);
    let restored = supervisor.shared.store.read(retention::restored_at).await?;
    Ok(if restored.is_some_and(|at| at >= cutoff) { Timestamp(0) } else { cutoff })
}

/// Returns all workers that were stopped before the cutoff.
pub(crate) async fn stopped_before(supervisor: &Supervisor, cutoff: Timestamp) -> Result<Vec<WorkerRow>> {
    let mut rows = supervisor.shared.store.read(|connection| workers::list(connection, None)).await?;
    rows.retain(|row| row.state == "stopped" && row.history.ended_at() < cutoff);
    Ok(rows)
}

pub(crate) async fn measured(supervisor: &Supervisor, row: &WorkerRow) -> Result<PrunedWorker> {
    let mut size = removal::Size::default();
    let id = row.id;
    loop {
        // In steps, so that no reader holds the database for long.
        let more =
            supervisor.shared.store.read(move |connection| removal::measure(connection, id, size)).await?;
        match more {
            Some(more) => size = more,
            None => break,
        }
    }
    Ok(PrunedWorker {
        worker_id: row.worker_id.clone(),
        controller_id: row.controller_id.clone(),
        label: row.agent.label.clone(),
        stopped_at: row.history.ended_at(),
        events: size.events,
        bytes: size.bytes + orphaned_files::bytes_of(&supervisor.shared, row.worker_id.as_str()).await,
    })
}

/// Marks workers. Returns those that were not marked before.
fn mark_all(tx: &Tx<'_>, items: Vec<(RowId, PrunedWorker)>, now: Timestamp) -> Result<Vec<PrunedWorker>> {
    let mut marked = Vec::with_capacity(items.len());
    for (id, item) in items {
        if removal::mark(tx, id, now)? {
            marked.push(item);
        }
    }
    Ok(marked)
}

/// Returns the time `age` before `now`.
fn before(now: Timestamp, age: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)))
}

fn gone() -> Error {
    Error::new(Code::WorkerNotFound, "the worker was removed in the meantime")
}
