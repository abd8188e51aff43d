//! Stops workers: stores the stop, and waits until nothing of the worker runs.

use std::sync::Arc;
use std::time::Duration;

use subagent_core::model::{LifecycleState, RuntimeStatus, Worker, WorkerInput};
use subagent_protocol::api::{StopWorker, WorkerStopped, WorktreeEnd, WorktreeView};
use subagent_protocol::{Code, Error, Result};

use super::{placed, spec};
use crate::store::{OwnerCheck, WorkerRow};
use crate::supervisor::orders::RequestTarget;
use crate::supervisor::runtimes::{locks, stray_processes};
use crate::supervisor::worker::{ActorHandle, Also, Snapshot};
use crate::supervisor::worktrees::lookup::{worktree_end, worktree_of};
use crate::supervisor::{ApiCaller, Supervisor};

/// Time after which a stop checks the lock files: something that is not a lock may be at their
/// path.
const LOCKS_LOOKED_AT: Duration = Duration::from_secs(5);

/// Time after which a place that has not answered can be given up.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(5);

/// Stops a worker permanently and waits until none of its processes is left.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `INVALID_CONTROLLER_HANDLE`. `STOP_INCOMPLETE{pids}` if a process does
/// not end in time; the guard keeps trying. `FENCED` if its place serves another daemon.
/// `STORAGE_ERROR` for a worker that is set aside.
pub(crate) async fn stop_worker(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request: StopWorker,
) -> Result<WorkerStopped> {
    let row = supervisor.row(worker).await?;
    let (owner, key) = supervisor.guarded(caller, &format!("stop {worker}"), &())?;
    match supervisor.reach(&row, &owner, &key).await {
        Ok(RequestTarget::Live(handle)) if request.without_host => {
            stop_or_give_up(supervisor, &handle, owner, key).await
        }
        Ok(RequestTarget::Live(handle)) => {
            stop_with(supervisor, &handle, Some(owner), key, WorkerInput::Stop, None).await
        }
        Ok(RequestTarget::Replayed(_)) => past_stop(supervisor, row).await,
        Err(error) if error.code == Code::WorkerStopped => past_stop(supervisor, row).await,
        Err(error) => Err(error),
    }
}

/// Stops a worker. If its place does not answer meanwhile, the owner gives it up.
async fn stop_or_give_up(
    supervisor: &Supervisor,
    handle: &ActorHandle,
    owner: OwnerCheck,
    key: Option<(String, String)>,
) -> Result<WorkerStopped> {
    let of_owner = || Some(owner.clone());
    // The stop dials the place, so what is known after it is new.
    let stop = stop_with(supervisor, handle, of_owner(), key, WorkerInput::Stop, None);
    if let Ok(stopped) = tokio::time::timeout(GIVEN_UP_AFTER, stop).await {
        return stopped;
    }
    if is_silent(handle) {
        // Without a key: a daemon may have died between its commit and the end of the stop.
        match stop_with(supervisor, handle, of_owner(), None, WorkerInput::GiveUp, None).await {
            // The place has answered in the last moment.
            Err(error) if error.code == Code::InvalidWorkerState => {}
            given_up => return given_up,
        }
    }
    stop_with(supervisor, handle, of_owner(), None, WorkerInput::Stop, None).await
}

/// Whether the place of a worker does not answer, or its end is not proved.
fn is_silent(handle: &ActorHandle) -> bool {
    let snapshot = handle.snapshot.borrow();
    let is_unproved = snapshot.place.pending.is_some() || snapshot.worker.link == RuntimeStatus::None;
    handle.placement.is_some() && (snapshot.unreachable.is_some() || is_unproved)
}

async fn past_stop(supervisor: &Supervisor, row: WorkerRow) -> Result<WorkerStopped> {
    let before = worktree_of(supervisor, row.worker_id.as_str()).await?;
    let worktree = worktree_end(supervisor, row.worker_id.as_str(), before).await?;
    Ok(worker_stopped(row, worktree))
}

/// Stops a worker with this input, and with another check or change in the same transaction. Without an
/// owner, the daemon stops it.
pub(in crate::supervisor) async fn stop_with(
    supervisor: &Supervisor,
    handle: &ActorHandle,
    owner: Option<OwnerCheck>,
    key: Option<(String, String)>,
    input: WorkerInput,
    also: Option<Also>,
) -> Result<WorkerStopped> {
    let respond = Box::new(|_: &Worker, _: &[_]| serde_json::Value::Null);
    let worker = handle.worker_id.as_str();
    let worktree = worktree_of(supervisor, worker).await?;
    supervisor.order_also(handle, owner, key, input, respond, None, also).await?;
    stopped(supervisor, handle, worktree.as_ref()).await?;
    let row = supervisor.row(worker).await?;
    if row.state != "stopped" {
        // The actor reports the stop only after its commit, so another process has changed the
        // row.
        return Err(Error::new(Code::Internal, "the worker has ended, but it is not stored as stopped")
            .with("workerId", worker)
            .with("state", row.state.as_str()));
    }
    let worktree = worktree_end(supervisor, worker, worktree).await?;
    Ok(worker_stopped(row, worktree))
}

async fn stopped(
    supervisor: &Supervisor,
    handle: &ActorHandle,
    worktree: Option<&WorktreeView>,
) -> Result<()> {
    let mut snapshots = handle.follow();
    let is_over = |snapshot: &Arc<Snapshot>| {
        snapshot.worker.state == LifecycleState::Stopped || snapshot.place.fenced.is_some()
    };
    let begun = tokio::time::Instant::now();
    if tokio::time::timeout(LOCKS_LOOKED_AT, snapshots.wait_for(is_over)).await.is_err() {
        // Without these locks, the end of all processes cannot be proved.
        let directory = supervisor.shared.setup.state_dir.join("runtimes").join(handle.worker_id.as_str());
        for name in [locks::RUNTIME, locks::GUARD] {
            locks::check(&directory, name)?;
        }
    }
    let over = snapshots.wait_for(is_over);
    match tokio::time::timeout_at(begun + spec::STOP_TIMEOUT, over).await {
        Ok(Ok(snapshot)) => match &snapshot.place.fenced {
            Some(error) if snapshot.worker.state != LifecycleState::Stopped => {
                Err(error.clone().with("workerId", handle.worker_id.as_str()))
            }
            _ => Ok(()),
        },
        Ok(Err(_)) if handle.snapshot.borrow().worker.state == LifecycleState::Stopped => Ok(()),
        Ok(Err(_)) => Err(supervisor.abandoned()),
        Err(_) => {
            if let Some(unreachable) = handle.snapshot.borrow().unreachable.clone() {
                let message = "the worker's place does not answer, so it is unknown what runs there; \
                               the stop is stored and goes on when the place answers";
                return Err(Error::new(Code::StopIncomplete, message)
                    .retryable()
                    .with("workerId", handle.worker_id.as_str())
                    .with("unreachable", serde_json::json!(unreachable))
                    .recommend(placed::GIVE_UP));
            }
            if let Some(pending) = handle.snapshot.borrow().place.pending.clone() {
                return Err(placed::is_queued(handle.worker_id.as_str(), &pending));
            }
            let guards = supervisor.shared.live.guards();
            let guard = guards.iter().find(|(worker, _)| *worker == handle.worker_id);
            if let (None, Some(worktree)) = (guard, worktree) {
                let message = "the worker has ended; its worktree is still being removed";
                return Err(Error::new(Code::WorktreeBusy, message)
                    .retryable()
                    .with("workerId", handle.worker_id.as_str())
                    .with("worktree", worktree.name.as_str())
                    .with("reason", "removing")
                    .recommend("repeat the command to wait longer"));
            }
            if handle.placement.is_some() && guard.is_none() && worktree.is_none() {
                let message = "the worker's place does not prove that nothing of it runs there";
                return Err(Error::new(Code::StopIncomplete, message)
                    .retryable()
                    .with("workerId", handle.worker_id.as_str())
                    .recommend(placed::GIVE_UP));
            }
            // A pid of another machine says nothing here.
            let local = guard.filter(|_| handle.placement.is_none());
            let left = local.map(|(_, guard)| stray_processes::below(guard.pid)).unwrap_or_default();
            Err(Error::new(
                Code::StopIncomplete,
                "not all processes of the worker have ended yet; they are being killed again and again",
            )
            .retryable()
            .with("workerId", handle.worker_id.as_str())
            .with("pids", left)
            .recommend("look at these processes (of another user?); repeat the command to wait longer"))
        }
    }
}

/// Stops all workers concurrently. They belong to several owners, so no handle is required.
pub(in crate::supervisor) async fn stop_all(supervisor: &Supervisor) -> Result<()> {
    let stops = supervisor.shared.last_workers().await?.into_iter().map(|row| {
        let this = supervisor.clone();
        tokio::spawn(async move {
            // One that is set aside is logged as such.
            let Ok(handle) = this.roster.adopted(&this.shared, &row).await else { return Ok(()) };
            stop_with(&this, &handle, None, None, WorkerInput::Stop, None).await.map(drop)
        })
    });
    let mut first = Ok(());
    for stop in stops.collect::<Vec<_>>() {
        let result = stop.await.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())));
        first = first.and(result);
    }
    first
}

fn worker_stopped(row: WorkerRow, worktree: Option<WorktreeEnd>) -> WorkerStopped {
    WorkerStopped {
        worktree,
        worker_id: row.worker_id,
        controller_id: row.controller_id,
        state: subagent_protocol::state::WorkerState::Stopped,
        stopped_at: row.history.ended_at(),
        updated_at: row.history.updated_at,
    }
}
