//! Landing: the changes of a worktree come to another branch.

use subagent_core::model::LifecycleState;
use subagent_protocol::api::{LandWorktree, WorktreeConflict, WorktreeLanded, WorktreeState};
use subagent_protocol::data::EventData;
use subagent_protocol::worktree::{AfterLanding, Landed, Landing, Operation, WorktreeResult};
use subagent_protocol::{Code, Error, Result};

use super::lookup::worktree;
use super::rows::{begin_landing, store_event, trailer};
use super::{ends, operation};
use crate::store::worktrees::{self, WorktreeRow};
use crate::store::{Durability, Tx, requests, workers};
use crate::supervisor::hooks::after_hooks;
use crate::supervisor::orders::read_response;
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// Lands the worktree with this name, or that of the worker with this address.
///
/// # Errors
/// `WORKTREE_NOT_FOUND`, `WORKTREE_BUSY{reason}`, `LAND_CONFLICT{files}`, `LAND_REFUSED{reason}`,
/// `LAND_CHECK_FAILED`, `GIT_FAILED`, `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`, `STORAGE_ERROR`.
pub(crate) async fn land_worktree(
    supervisor: &Supervisor,
    caller: ApiCaller,
    address: &str,
    request: LandWorktree,
) -> Result<WorktreeLanded> {
    let (this, address) = (supervisor.clone(), address.to_owned());
    // On its own: a client that goes away must not end it halfway.
    tokio::spawn(async move { land(&this, caller, &address, request).await })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn land(
    supervisor: &Supervisor,
    caller: ApiCaller,
    address: &str,
    request: LandWorktree,
) -> Result<WorktreeLanded> {
    let (owner, key) = supervisor.guarded(caller, &format!("land {address}"), &request)?;
    let _one_at_a_time = supervisor.shared.locks.worktrees.lock(address).await;
    if let Some(earlier) = supervisor.recall(&key).await? {
        return read_response(earlier);
    }
    let row = worktree(supervisor, address).await?;
    let (then, launcher) = may_land(supervisor, &row).await?;
    let then = if request.keep { AfterLanding::Keep } else { then };
    let time = begin_landing(&supervisor.shared, &row, Some(owner)).await?;
    let landing = Landing {
        withheld: Vec::new(),
        id: time.0,
        into: request.into,
        how: request.how,
        message: request.message,
        trailer: trailer(&row, launcher),
        checks: request.checks,
        protected: request.protected,
        then,
    };
    let into = landing.into.clone().or_else(|| row.worktree.source_branch.clone()).unwrap_or_default();
    let operation = Operation::Land { worktree: row.worktree.clone(), landing: Box::new(landing) };
    let answer = match operation::run(&supervisor.shared, &operation, &request.env).await {
        Ok(WorktreeResult::Landed(landed)) => Ok(landed),
        Ok(other) => Err(operation::unexpected(&other)),
        Err(error) => Err(error),
    };
    subagent_failpoint::hit("land.before_commit");
    let stored = supervisor.shared.store.write(Durability::Full, 2, move |tx| {
        let state = worktrees::after_landing(tx.connection(), &row)?;
        let row = WorktreeRow { state, landing_at: None, ..row };
        match answer {
            Ok(landed) => {
                let mut seq = None;
                let (landed, _) = requests::once(tx, key.as_ref(), entropy::now(), |tx| {
                    let (landed, stored) = landed_in(tx, row, landed, then)?;
                    seq = stored;
                    Ok(landed)
                })?;
                Ok(Ok((landed, seq)))
            }
            Err(error) => {
                worktrees::update(tx, &row, entropy::now())?;
                conflict(tx, &row, into, &error)?;
                Ok(Err(error))
            }
        }
    });
    let (landed, seq) = stored.await??;
    note(supervisor, &landed.worker_id, seq).await;
    Ok(landed)
}

/// What happens to a worktree after its landing, and the launcher of its worker, if there still is one.
pub(super) async fn may_land(
    supervisor: &Supervisor,
    row: &WorktreeRow,
) -> Result<(AfterLanding, Option<String>)> {
    let busy = |reason: &str, message: &str, action: String| {
        let error = Error::new(Code::WorktreeBusy, message).with("worktree", row.worktree.name.as_str());
        Err(error.with("reason", reason).retryable().recommend(action))
    };
    if row.state == WorktreeState::Creating {
        return busy("creating", "the worktree is still being made", "wait for its worker to start".into());
    }
    let worker_id = row.worker_id.as_str().to_owned();
    let found = supervisor.shared.store.read(move |connection| workers::get(connection, &worker_id)).await?;
    let Some(worker) = found else { return Ok((AfterLanding::Remove, None)) };
    if let Ok(handle) = supervisor.roster.live(worker.worker_id.as_str())
        && matches!(
            handle.snapshot.borrow().worker.state,
            LifecycleState::Turn(_) | LifecycleState::Local(_) | LifecycleState::Stopping(_)
        )
    {
        let action = format!("wait for it with `subagent wait {0}`, or `subagent cancel {0}`", worker.name);
        return busy("turn", "a turn of its worker is open", action);
    }
    let then = if worker.state == "stopped" { AfterLanding::Remove } else { AfterLanding::GoOn };
    Ok((then, Some(worker.launcher)))
}

/// Wakes who waits for events of a worker.
pub(super) async fn note(
    supervisor: &Supervisor,
    worker_id: &subagent_protocol::ids::WorkerId,
    seq: Option<i64>,
) {
    let Some(seq) = seq else { return };
    if let Ok(row) = supervisor.row(worker_id.as_str()).await {
        supervisor.shared.changes.noted(row.id, seq);
        after_hooks::run_of_stopped(&supervisor.shared, &row);
    }
}

fn landed_in(
    tx: &mut Tx<'_>,
    mut row: WorktreeRow,
    landed: Landed,
    then: AfterLanding,
) -> Result<(WorktreeLanded, Option<i64>)> {
    let data = WorktreeLanded {
        name: row.worktree.name.clone(),
        worker_id: row.worker_id.clone(),
        branch: row.worktree.branch.clone(),
        landed,
    };
    let seq = store_event(tx, &row, EventData::WorktreeLanded(data.clone()))?;
    if data.landed.worktree_removed {
        let (_, removed) = ends::delete(tx, &row, data.landed.retired.clone())?;
        return Ok((data, removed.or(seq)));
    }
    if then == AfterLanding::GoOn {
        row.worktree.base.clone_from(&data.landed.commit);
        row.worktree.with_changes = false;
    }
    worktrees::update(tx, &row, entropy::now())?;
    Ok((data, seq))
}

fn conflict(tx: &mut Tx<'_>, row: &WorktreeRow, into: String, error: &Error) -> Result<()> {
    if error.code != Code::LandConflict {
        return Ok(());
    }
    let facts = error.facts();
    let files = facts.files.0.unwrap_or_default().into_iter().map(str::to_owned).collect();
    let more_files = facts.more_files.0.unwrap_or_default();
    let data = WorktreeConflict { name: row.worktree.name.clone(), into, files, more_files };
    store_event(tx, row, EventData::WorktreeConflict(data)).map(drop)
}
