//! What becomes of a worktree when its worker is stopped, and of landings that a daemon has begun and not finished.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use subagent_protocol::api::{WorktreeRemoved, WorktreeState};
use subagent_protocol::data::EventData;
use subagent_protocol::worktree::{Operation, WorktreeResult};
use subagent_protocol::{Code, Result};

use super::operation;
use super::rows::store_event;
use crate::store::worktrees::{self, WorktreeRow};
use crate::store::{Durability, RowId};
use crate::supervisor::entropy;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::start::environment::Variables;

/// Removes the worktree of a worker whose processes have ended, if nothing would be lost. A failure keeps it, as does a
/// landing in progress: the end of a worker does not wait for checks.
pub(in crate::supervisor) async fn finish(shared: &SupervisorState, worker: RowId, worker_id: &str) {
    let id = worker_id.to_owned();
    let row = match shared.store.read(move |connection| worktrees::of_worker(connection, &id)).await {
        Ok(Some(row)) if row.state != WorktreeState::Kept => row,
        Ok(_) => return,
        Err(error) => return tracing::error!(worker = worker_id, %error, "a worktree cannot be looked up"),
    };
    subagent_failpoint::hit("worktree_end.before_run");
    let removed = row.state != WorktreeState::Landing && remove(shared, &row).await;
    subagent_failpoint::hit("worktree_end.before_commit");
    match store_end(shared, row, removed).await {
        Ok(Some(seq)) => shared.changes.noted(worker, seq),
        Ok(None) => {}
        Err(error) => tracing::error!(worker = worker_id, %error, "the end of a worktree cannot be stored"),
    }
}

async fn remove(shared: &SupervisorState, row: &WorktreeRow) -> bool {
    let operation = Operation::Remove { worktree: row.worktree.clone() };
    match operation::run(shared, &operation, &Variables::new()).await {
        Ok(answer) => answer == WorktreeResult::Removed,
        // No agent has worked in it, and not even the folder of the copies was made.
        Err(error)
            if error.code == Code::WorktreeNotFound
                && row.state == WorktreeState::Creating
                && row.worktree.copied.is_some() =>
        {
            true
        }
        Err(error) => {
            tracing::warn!(worker = %row.worker_id, %error, "a worktree stays because it cannot be looked at");
            false
        }
    }
}

async fn store_end(shared: &SupervisorState, row: WorktreeRow, removed: bool) -> Result<Option<i64>> {
    let write = shared.store.write(Durability::Full, 2, move |tx| {
        if removed {
            return delete(tx, &row, None).map(|(_, seq)| seq);
        }
        let now = worktrees::by_name(tx.connection(), &row.worktree.name)?;
        // A landing stores what becomes of its worktree when it ends.
        if let Some(row) = now.filter(|now| now.state != WorktreeState::Landing) {
            worktrees::update(tx, &WorktreeRow { state: WorktreeState::Kept, ..row }, entropy::now())?;
        }
        Ok(None)
    });
    write.await
}

/// Forgets a worktree that is gone, with its event. `retired` is the ref that keeps what was in it.
pub(super) fn delete(
    tx: &mut crate::store::Tx<'_>,
    row: &WorktreeRow,
    retired: Option<String>,
) -> Result<(WorktreeRemoved, Option<i64>)> {
    let event = if retired.is_some() { EventData::WorktreeRetired } else { EventData::WorktreeRemoved };
    let removed = WorktreeRemoved {
        name: row.worktree.name.clone(),
        worker_id: row.worker_id.clone(),
        path: row.worktree.path.clone(),
        branch: row.worktree.branch.clone(),
        retired,
    };
    let seq = match worktrees::delete(tx, row.id)? {
        true => store_event(tx, row, event(removed.clone()))?,
        false => None,
    };
    Ok((removed, seq))
}

/// Ends the landings that a daemon before this one has begun: these worktrees can be landed again. What git has not
/// finished is finished beside the daemon's other work, and before the next landing in the same repository.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(in crate::supervisor) async fn recover_landings(shared: &Arc<SupervisorState>) -> Result<()> {
    let rows = shared.store.read(worktrees::landing).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let repositories: BTreeSet<PathBuf> = {
        // The next landing of a copy finishes it.
        let of_git = rows.iter().filter(|row| row.worktree.copied.is_none());
        of_git.map(|row| row.worktree.repository.clone()).collect()
    };
    let reset = shared.store.write(Durability::Full, rows.len(), move |tx| {
        for row in rows {
            let state = worktrees::after_landing(tx.connection(), &row)?;
            worktrees::update(tx, &WorktreeRow { state, ..row }, entropy::now())?;
        }
        Ok(())
    });
    reset.await?;
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        for repository in repositories {
            let operation = Operation::Recover { repository };
            match operation::run(&shared, &operation, &Variables::new()).await {
                Ok(WorktreeResult::Recovered(Some(branch))) => {
                    tracing::info!(branch, "a landing was finished")
                }
                Ok(_) => {}
                Err(error) => tracing::error!(%error, ?operation, "a landing cannot be finished"),
            }
        }
    });
    Ok(())
}
