//! What the API and the making of workers ask about worktrees. Changes nothing.

use std::path::Path;
use std::time::Duration;

use subagent_protocol::api::{
    CopyMode, NewWorktree, WorktreeEnd, WorktreeState, WorktreeView, WorktreesListed,
};
use subagent_protocol::placement::Placement;
use subagent_protocol::worktree::{Contents, CopyRequest, Operation, WorktreeResult};
use subagent_protocol::{Code, Error, Result};
use tokio::time::timeout;

use super::operation;
use super::planned::Planned;
use super::rows::look;
use crate::store::worktrees::{self, WorktreeRow};
use crate::supervisor::runtimes::carrier::state_name;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::start::environment::Variables;
use crate::supervisor::start::sandbox::always_hidden;
use crate::supervisor::{Supervisor, addresses};

/// How long a list waits for what is in a worktree on another machine.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);

/// All worktrees, the newest first, with their contents if `with_contents` is set.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) async fn list_worktrees(supervisor: &Supervisor, with_contents: bool) -> Result<WorktreesListed> {
    let rows = supervisor.shared.store.read(worktrees::list).await?;
    let views = rows.into_iter().map(|row| async move {
        let contents = if with_contents { contents(&supervisor.shared, &row).await } else { None };
        WorktreeView { contents, ..row.view() }
    });
    let items = futures_util::future::join_all(views).await;
    Ok(WorktreesListed { count: items.len(), items })
}

/// What is in a worktree, if that can be said. One machine that does not answer must not hold up a list.
async fn contents(shared: &SupervisorState, row: &WorktreeRow) -> Option<Contents> {
    let looked = look(shared, row);
    match row.worktree.placed {
        Some(_) => timeout(LIST_TIMEOUT, looked).await.ok()?.ok(),
        None => looked.await.ok(),
    }
}

/// One worktree with its contents.
///
/// # Errors
/// `WORKTREE_NOT_FOUND`, those of git, `STORAGE_ERROR`.
pub(crate) async fn show_worktree(supervisor: &Supervisor, address: &str) -> Result<WorktreeView> {
    let row = worktree(supervisor, address).await?;
    let contents = look(&supervisor.shared, &row).await?;
    Ok(WorktreeView { contents: Some(contents), ..row.view() })
}

/// The worktree with this name, or that of the worker with this address.
///
/// # Errors
/// `WORKTREE_NOT_FOUND{worktree,worktrees}`, `AMBIGUOUS_WORKER`, `STORAGE_ERROR`.
pub(in crate::supervisor) async fn worktree(supervisor: &Supervisor, address: &str) -> Result<WorktreeRow> {
    let name = address.to_owned();
    if let Some(row) =
        supervisor.shared.store.read(move |connection| worktrees::by_name(connection, &name)).await?
    {
        return Ok(row);
    }
    let worker_id = addresses::find(supervisor, address).await?;
    let found = supervisor.shared.store.read(move |connection| {
        Ok((worktrees::of_worker(connection, &worker_id)?, worktrees::names(connection)?))
    });
    let (found, names) = found.await?;
    found.ok_or_else(|| {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort();
        let address = subagent_protocol::clean::one_line(address);
        Error::new(
            Code::WorktreeNotFound,
            format!("there is no worktree {address}, and no worker {address} with a worktree"),
        )
        .with("worktree", address)
        .with("worktrees", names)
        .recommend("`subagent worktree list` shows all worktrees")
    })
}

/// The worktree of a worker as `worker show` has it.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(in crate::supervisor) async fn worktree_of(
    supervisor: &Supervisor,
    worker_id: &str,
) -> Result<Option<WorktreeView>> {
    let worker_id = worker_id.to_owned();
    let found = supervisor.shared.store.read(move |connection| worktrees::of_worker(connection, &worker_id));
    Ok(found.await?.map(WorktreeRow::view))
}

/// What has become of the worktree of a stopped worker; `before` is the worktree that it had, if any.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(in crate::supervisor) async fn worktree_end(
    supervisor: &Supervisor,
    worker_id: &str,
    before: Option<WorktreeView>,
) -> Result<Option<WorktreeEnd>> {
    let Some(before) = before else { return Ok(None) };
    let worker_id = worker_id.to_owned();
    let row =
        supervisor.shared.store.read(move |connection| worktrees::of_worker(connection, &worker_id)).await?;
    let Some(row) = row else { return Ok(Some(WorktreeEnd::Removed { name: before.name })) };
    if row.state == WorktreeState::Landing {
        // A look would wait for the landing.
        return Ok(Some(WorktreeEnd::Kept(Box::new(row.view()))));
    }
    Ok(Some(match look(&supervisor.shared, &row).await {
        Ok(contents) => WorktreeEnd::Kept(Box::new(WorktreeView { contents: Some(contents), ..row.view() })),
        Err(error) => WorktreeEnd::Unknown { name: before.name, error },
    }))
}

/// When the worktree of a new worker is a copy. It never contains the daemon's own folders.
fn copy_request(supervisor: &Supervisor, wanted: &NewWorktree) -> Option<CopyRequest> {
    if wanted.copy == CopyMode::Never {
        return None;
    }
    let without = always_hidden(supervisor.shared.setup.own_folders()).to_vec();
    Some(CopyRequest { always: wanted.copy == CopyMode::Always, limit: wanted.copy_limit, without })
}

/// What the worktree of a new worker would be made from. Nothing is stored. `placement` is the other machine
/// where the worker works, if it does.
///
/// # Errors
/// `INVALID_ARGUMENT{field}`, `WORKTREE_NEEDS_GIT{reason}`, `WORKTREE_EXISTS{branch}`, `WORKTREE_BUSY{reason}`.
pub(in crate::supervisor) async fn plan_worktree(
    supervisor: &Supervisor,
    wanted: Option<&NewWorktree>,
    cwd: &Path,
    env: &Variables,
    placement: Option<&Placement>,
) -> Result<Option<Planned>> {
    let Some(wanted) = wanted else { return Ok(None) };
    if !wanted.root.is_absolute() {
        let message = "the folder of worktrees is not an absolute path";
        return Err(Error::new(Code::InvalidArgument, message).with("field", "worktree.root"));
    }
    let operation = Operation::Plan {
        cwd: wanted.source.as_deref().unwrap_or(cwd).to_owned(),
        root: wanted.root.clone(),
        branch: wanted.choice.branch.clone(),
        base: wanted.choice.base.clone(),
        with_changes: wanted.choice.with_changes,
        copy: copy_request(supervisor, wanted),
    };
    match operation::run(&supervisor.shared, &operation, env).await? {
        WorktreeResult::Planned(plan) => {
            let planned = Planned::new(plan, wanted.clone());
            Ok(Some(planned.placed(placement, &state_name(&supervisor.shared.setup))))
        }
        other => Err(operation::unexpected(&other)),
    }
}
