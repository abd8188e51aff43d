//! Changes of a worktree that its owner asks for: its setup again, and its removal with or without work in it.

use subagent_protocol::api::{
    ChangeWorktree, DiscardWorktree, PruneWorktrees, WorktreeRemoved, WorktreeState, WorktreeView,
    WorktreesPruned,
};
use subagent_protocol::clean::one_line;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Contents, Operation, WorktreeResult};
use subagent_protocol::{Code, Error, Result};

use super::lookup::show_worktree;
use super::{ends, operation};
use crate::store::worktrees::{self, WorktreeRow};
use crate::store::{Durability, OwnerCheck, removal, requests, workers};
use crate::supervisor::orders::read_response;
use crate::supervisor::start::environment::Variables;
use crate::supervisor::worktrees::land::note;
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// How the owner ends a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorktreeEnding {
    /// If nothing would be lost.
    Removed,
    /// A ref keeps all that is in it.
    Discarded,
    /// The same of the mirror. The machine of the worker is given up.
    DiscardedWithoutHost,
}

/// The key of a request, and its fingerprint.
type RequestKey = Option<(String, String)>;

/// Copies and runs again what makes a worktree usable.
///
/// # Errors
/// `WORKTREE_NOT_FOUND`, `WORKTREE_SETUP_FAILED`, `INVALID_CONTROLLER_HANDLE`.
pub(crate) async fn set_up_worktree(
    supervisor: &Supervisor,
    caller: ApiCaller,
    address: &str,
    request: ChangeWorktree,
) -> Result<WorktreeView> {
    let (owner, _) = supervisor.guarded(caller, &format!("set up {address}"), &request)?;
    let row = super::lookup::worktree(supervisor, address).await?;
    check_worktree_owner(supervisor, &row, owner).await?;
    let operation = Operation::Setup { worktree: row.worktree.clone(), setup: row.setup.clone() };
    match operation::run(&supervisor.shared, &operation, &request.env).await? {
        WorktreeResult::Ready => show_worktree(supervisor, &row.worktree.name).await,
        other => Err(operation::unexpected(&other)),
    }
}

/// Removes a worktree whose worker is stopped, if nothing would be lost.
///
/// # Errors
/// `WORKTREE_NOT_FOUND`, `WORKTREE_BUSY`, `WORKTREE_HAS_WORK`, `INVALID_CONTROLLER_HANDLE`, `STORAGE_ERROR`.
pub(crate) async fn remove_worktree(
    supervisor: &Supervisor,
    caller: ApiCaller,
    address: &str,
    request: ChangeWorktree,
) -> Result<WorktreeRemoved> {
    let (owner, key) = supervisor.guarded(caller, &format!("remove worktree {address}"), &request)?;
    end_worktree(supervisor, (owner, key), address, (request.env, WorktreeEnding::Removed)).await
}

/// Keeps all that is in a worktree under a ref, and removes it.
///
/// # Errors
/// As [`remove_worktree`], without `WORKTREE_HAS_WORK`. `INVALID_ARGUMENT` if a worktree of this machine is
/// discarded without its host.
pub(crate) async fn discard_worktree(
    supervisor: &Supervisor,
    caller: ApiCaller,
    address: &str,
    request: DiscardWorktree,
) -> Result<WorktreeRemoved> {
    let (owner, key) = supervisor.guarded(caller, &format!("discard {address}"), &request)?;
    let ending = match request.without_host {
        true => WorktreeEnding::DiscardedWithoutHost,
        false => WorktreeEnding::Discarded,
    };
    end_worktree(supervisor, (owner, key), address, (request.env, ending)).await
}

async fn end_worktree(
    supervisor: &Supervisor,
    (owner, key): (OwnerCheck, RequestKey),
    address: &str,
    (env, ending): (Variables, WorktreeEnding),
) -> Result<WorktreeRemoved> {
    let (this, address) = (supervisor.clone(), address.to_owned());
    // On its own: a client that goes away must not leave a row without its worktree.
    tokio::spawn(async move {
        let _one_at_a_time = this.shared.locks.worktrees.lock(&address).await;
        if let Some(earlier) = this.recall(&key).await? {
            return read_response(earlier);
        }
        let row = super::lookup::worktree(&this, &address).await?;
        check_worktree_owner(&this, &row, owner).await?;
        check_unused(&this, &row).await?;
        end_unused(&this, row, key, env, ending).await
    })
    .await
    .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn end_unused(
    supervisor: &Supervisor,
    row: WorktreeRow,
    key: RequestKey,
    env: Variables,
    ending: WorktreeEnding,
) -> Result<WorktreeRemoved> {
    let worktree = row.worktree.clone();
    let operation = match ending {
        WorktreeEnding::Removed => Operation::Remove { worktree },
        WorktreeEnding::Discarded => Operation::Discard { worktree, time: entropy::now() },
        WorktreeEnding::DiscardedWithoutHost if worktree.placed.is_none() => return Err(has_no_host(&row)),
        WorktreeEnding::DiscardedWithoutHost => Operation::GiveUp { worktree, time: entropy::now() },
    };
    let ran = operation::run(&supervisor.shared, &operation, &env).await;
    let retired = match ran.map_err(|error| of_lost_host(error, &row))? {
        WorktreeResult::Removed => None,
        WorktreeResult::Discarded(retired) => retired,
        WorktreeResult::Found(contents) => return Err(has_work(&row, &contents)),
        other => return Err(operation::unexpected(&other)),
    };
    subagent_failpoint::hit("worktree_removed.before_commit");
    let write = supervisor.shared.store.write(Durability::Full, 2, move |tx| {
        let mut seq = None;
        let (removed, _) = requests::once(tx, key.as_ref(), entropy::now(), |tx| {
            let (removed, stored) = ends::delete(tx, &row, retired)?;
            seq = stored;
            Ok(removed)
        })?;
        Ok((removed, seq))
    });
    let (removed, seq) = write.await?;
    note(supervisor, &removed.worker_id, seq).await;
    Ok(removed)
}

async fn check_worktree_owner(supervisor: &Supervisor, row: &WorktreeRow, owner: OwnerCheck) -> Result<()> {
    let row = row.clone();
    supervisor.shared.store.read(move |connection| worktrees::check_owner(connection, &owner, &row)).await
}

/// Whether no worker works in it any more.
async fn check_unused(supervisor: &Supervisor, row: &WorktreeRow) -> Result<()> {
    let worker_id = row.worker_id.as_str().to_owned();
    let found = supervisor.shared.store.read(move |connection| workers::get(connection, &worker_id)).await?;
    match found {
        Some(worker) if worker.state != "stopped" => {
            let message = format!("the worker {} works in this worktree", one_line(&worker.name));
            Err(Error::new(Code::WorktreeBusy, message)
                .with("worktree", row.worktree.name.as_str())
                .with("workerId", worker.worker_id.as_str())
                .with("reason", "worker")
                .recommend(format!("stop it first: `subagent stop {}`", worker.name)))
        }
        _ => Ok(()),
    }
}

/// Removes the clean worktrees of stopped workers, and old refs of retired ones.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE`, those of git, `STORAGE_ERROR`.
pub(crate) async fn prune_worktrees(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: PruneWorktrees,
) -> Result<WorktreesPruned> {
    let (owner, key) = supervisor.guarded(caller, "prune worktrees", &request)?;
    let this = supervisor.clone();
    // On its own: a client that goes away must not leave a row without its worktree.
    tokio::spawn(async move {
        let _one_at_a_time = this.shared.locks.pruning.lock().await;
        match this.recall(&key).await? {
            Some(earlier) => read_response(earlier),
            None => prune_unused(&this, owner, key, request).await,
        }
    })
    .await
    .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn prune_unused(
    supervisor: &Supervisor,
    owner: OwnerCheck,
    key: RequestKey,
    request: PruneWorktrees,
) -> Result<WorktreesPruned> {
    let mut rows = supervisor.shared.store.read(worktrees::list).await?;
    let concerned = rows.iter().map(|row| row.controller_id.clone()).collect();
    let read = supervisor
        .shared
        .store
        .read(move |connection| removal::check_owner_of_all(connection, &owner, &concerned));
    read.await?;
    rows.retain(|row| row.state == WorktreeState::Kept);
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    for row in rows {
        if check_unused(supervisor, &row).await.is_err() {
            continue;
        }
        match end_unused(supervisor, row.clone(), None, request.env.clone(), WorktreeEnding::Removed).await {
            Ok(gone) => removed.push(gone),
            Err(_) => kept.push(row.view()),
        }
    }
    let age = request.retired_older_than_ms.map(|age| i64::try_from(age).unwrap_or(i64::MAX));
    let before = age.map(|age| Timestamp(entropy::now().0.saturating_sub(age)));
    let refs = request.repository.map(|repository| Operation::Prune { repository, before });
    let (kept_refs, deleted_refs) = prune_retired(supervisor, refs, &request.env).await?;
    let copies = request.copies.map(|folder| Operation::PruneCopies { folder, before });
    let (kept_copies, deleted_copies) = prune_retired(supervisor, copies, &request.env).await?;
    let pruned = WorktreesPruned { removed, kept, deleted_refs, kept_refs, deleted_copies, kept_copies };
    let write = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
        requests::once(tx, key.as_ref(), entropy::now(), |_| Ok(pruned)).map(|(pruned, _)| pruned)
    });
    write.await
}

/// Returns what is kept, and what was deleted.
async fn prune_retired(
    supervisor: &Supervisor,
    operation: Option<Operation>,
    env: &Variables,
) -> Result<(Vec<String>, Vec<String>)> {
    let Some(operation) = operation else { return Ok((Vec::new(), Vec::new())) };
    match operation::run(&supervisor.shared, &operation, env).await? {
        WorktreeResult::Pruned { kept, deleted } => Ok((kept, deleted)),
        other => Err(operation::unexpected(&other)),
    }
}

/// Adds the way out if the host of a worktree does not answer.
fn of_lost_host(error: Error, row: &WorktreeRow) -> Error {
    const CODES: [Code; 3] =
        [Code::PlacementUnreachable, Code::PlacementNotPrepared, Code::PlacementIncompatible];
    if !CODES.contains(&error.code) {
        return error;
    }
    let known = error.details.get("recommendedAction").and_then(serde_json::Value::as_str).map(str::to_owned);
    let way_out = format!(
        "if the host does not come back, run `subagent worktree discard {} --without-host`",
        row.worktree.name
    );
    error.recommend(known.into_iter().chain([way_out]).collect::<Vec<_>>().join("; "))
}

fn has_no_host(row: &WorktreeRow) -> Error {
    let name = &row.worktree.name;
    Error::new(Code::InvalidArgument, format!("the worktree {name} is on this machine, and has no host"))
        .with("field", "withoutHost")
        .with("worktree", name.as_str())
        .recommend("leave out --without-host")
}

fn has_work(row: &WorktreeRow, contents: &Contents) -> Error {
    let name = &row.worktree.name;
    Error::new(Code::WorktreeHasWork, format!("the worktree {name} has work: {}", work(contents)))
        .with("worktree", name.as_str())
        .with("path", row.worktree.path.display().to_string())
        .with("branch", row.worktree.branch.as_str())
        .with("contents", serde_json::to_value(contents).unwrap_or_default())
        .recommend(format!("take it with `subagent land {name}`, or keep it under a ref and remove the worktree with `subagent worktree discard {name}`"))
}

/// The reasons why a worktree stays, as in "2 uncommitted files, a merge in progress".
fn work(contents: &Contents) -> String {
    let counted = |number: u64, what: &str, which: &str| {
        (number > 0).then(|| format!("{number} {what}{}{which}", if number == 1 { "" } else { "s" }))
    };
    let parts = [
        counted(contents.uncommitted, "uncommitted file", ""),
        counted(contents.commits, "commit", " on no other branch"),
        counted(contents.ignored, "ignored file", " newer than the setup"),
        contents.under_way.as_ref().map(|what| format!("a {what} in progress")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_counts_what_would_be_lost() {
        let all = Contents {
            uncommitted: 2,
            commits: 1,
            ignored: 3,
            under_way: Some("merge".to_owned()),
            ..Contents::default()
        };
        assert_eq!(
            work(&all),
            "2 uncommitted files, 1 commit on no other branch, 3 ignored files newer than the setup, a merge in progress"
        );
        assert_eq!(work(&Contents { uncommitted: 1, ..Contents::default() }), "1 uncommitted file");
    }
}
