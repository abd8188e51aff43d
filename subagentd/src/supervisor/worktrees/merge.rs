//! Merging: the changes of a worktree come to the files of the main work tree, one by one and without a commit.

use subagent_protocol::api::{ChangeWorktree, WorktreeMerged};
use subagent_protocol::{Code, Error, Result};

use super::land::{may_land, note};
use super::lookup::worktree;
use super::merging::{Merging, StoredMerge};
use super::rows::begin_landing;
use crate::supervisor::orders::read_response;
use crate::supervisor::{ApiCaller, Supervisor};

/// Merges the worktree with this name, or that of the worker with this address, file by file.
///
/// # Errors
/// `LAND_CONFLICT{files,merged}` for files that have changed on both sides: all others are merged;
/// `WORKTREE_NOT_FOUND`, `WORKTREE_BUSY{reason}`, `GIT_FAILED`, `INVALID_CONTROLLER_HANDLE`, `STORAGE_ERROR`.
pub(crate) async fn merge_worktree(
    supervisor: &Supervisor,
    caller: ApiCaller,
    address: &str,
    request: ChangeWorktree,
) -> Result<WorktreeMerged> {
    let (this, address) = (supervisor.clone(), address.to_owned());
    // On its own: a client that goes away must not end it halfway.
    tokio::spawn(async move { merge(&this, caller, &address, request).await })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn merge(
    supervisor: &Supervisor,
    caller: ApiCaller,
    address: &str,
    request: ChangeWorktree,
) -> Result<WorktreeMerged> {
    let (owner, key) = supervisor.guarded(caller, &format!("merge {address}"), &request)?;
    let _one_at_a_time = supervisor.shared.locks.worktrees.lock(address).await;
    if let Some(earlier) = supervisor.recall(&key).await? {
        return read_response(earlier);
    }
    let row = worktree(supervisor, address).await?;
    let (then, launcher) = may_land(supervisor, &row).await?;
    let time = begin_landing(&supervisor.shared, &row, Some(owner)).await?;
    let merging = Merging { row, launcher, then, time, withheld: Vec::new() };
    let worker_id = merging.row.worker_id.clone();
    let StoredMerge { merged, seq } = merging.carry_out(&supervisor.shared, &request.env, key).await?;
    note(supervisor, &worker_id, seq).await;
    merged
}
