//! From the request of a worker with a worktree to the worktree on disk: planned before the worker is stored, stored with
//! it, made by its actor before the first runtime.

use std::path::Path;
use std::sync::Arc;

use subagent_protocol::api::WorktreeState;
use subagent_protocol::data::EventData;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Operation, Worktree, WorktreeResult};
use subagent_protocol::{Code, Error, Result};
use tokio::task::JoinHandle;

use super::operation;
use super::planned::{Planned, confined, moved};
use super::rows::store_event;
use crate::store::worktrees::{self, WorktreeRow};
use crate::store::{Durability, RowId, Tx, workers};
use crate::supervisor::entropy;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::start::spec::Spec;
use crate::supervisor::start::{environment, sandbox};

impl Planned {
    /// Stores the worktree of a worker that was inserted in this transaction and has its name, and that the worker
    /// works there.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a path that is not UTF-8, `STORAGE_ERROR`.
    pub(in crate::supervisor) fn store(
        &self,
        tx: &Tx<'_>,
        worker_id: &str,
        own: [&Path; 2],
        now: Timestamp,
    ) -> Result<()> {
        let internal = |problem: String| Error::new(Code::Internal, problem);
        let row = workers::get(tx.connection(), worker_id)?;
        let row = row.ok_or_else(|| internal(format!("worker {worker_id} is not stored")))?;
        let mut worktree = self.named(&row.name, &worktrees::names(tx.connection())?);
        let mut spec = read(&row.spec)?;
        let notes = spec.policy.as_ref().and_then(|policy| policy.memory.as_deref());
        if let Some(sandbox) = &mut spec.sandbox {
            sandbox.spec = confined(sandbox.spec.clone(), &worktree, self.root(), notes);
        }
        worktree.sandbox = sandbox::of_agent(spec.sandbox.as_ref(), own).map(Box::new);
        worktrees::insert(tx, (&row.worker_id, &row.controller_id), &worktree, self.setup(), now)?;
        workers::update_cwd(tx, row.id, &self.cwd(&worktree).display().to_string())?;
        works_in(tx, row.id, spec, &worktree)
    }
}

/// Stores that a worker has a worktree.
fn works_in(tx: &Tx<'_>, worker: RowId, mut spec: Spec, worktree: &Worktree) -> Result<()> {
    spec.has_worktree = true;
    if let Some(policy) = &mut spec.policy {
        // Relative patterns are about files where the agent works.
        policy.workspace = match &worktree.placed {
            Some(placed) => placed.path.clone(),
            None => moved(&policy.workspace, worktree),
        };
    }
    let text = serde_json::to_string(&spec).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    workers::update_spec(tx, worker, &text)
}

fn read(spec: &str) -> Result<Spec> {
    serde_json::from_str(spec).map_err(|error| Error::new(Code::Internal, error.to_string()))
}

/// Gives the worktree of a worker, if it has one, to a worker that was inserted in this transaction and goes on there.
///
/// # Errors
/// `WORKTREE_BUSY{reason}` while it is being landed, `SANDBOX_UNAVAILABLE` if it was not made for one, `STORAGE_ERROR`.
pub(in crate::supervisor) fn take_over(
    tx: &Tx<'_>,
    from: &str,
    worker_id: &str,
    own: [&Path; 2],
    now: Timestamp,
) -> Result<()> {
    let Some(mut row) = worktrees::of_worker(tx.connection(), from)? else { return Ok(()) };
    let Some(worker) = workers::get(tx.connection(), worker_id)? else { return Ok(()) };
    let works_there = Path::new(&worker.cwd).starts_with(&row.worktree.path);
    if works_there && row.state == WorktreeState::Landing {
        return Err(Error::new(Code::WorktreeBusy, "the worktree is being landed")
            .with("worktree", row.worktree.name)
            .with("reason", "landing")
            .retryable());
    }
    if !works_there || !matches!(row.state, WorktreeState::Ready | WorktreeState::Kept) {
        return Ok(());
    }
    let spec = read(&worker.spec)?;
    if spec.sandbox.is_some() && row.worktree.sandbox.is_none() {
        let message = "the worktree was not made for an agent in a sandbox: its commits would need the repository's git directory";
        return Err(Error::new(Code::SandboxUnavailable, message)
            .with("missing", "worktree")
            .recommend("go on without a sandbox, or land it and start a worker with both"));
    }
    if spec.sandbox.is_some() {
        row.worktree.sandbox = sandbox::of_agent(spec.sandbox.as_ref(), own).map(Box::new);
        worktrees::update(tx, &row, now)?;
    }
    worktrees::move_to(tx, row.id, &worker.worker_id, now)?;
    works_in(tx, worker.id, spec, &row.worktree)
}

/// A worktree that is being made. Dropping it ends the making, with all processes of it.
pub(in crate::supervisor) struct Making(JoinHandle<Result<()>>);

impl Making {
    /// Begins to make the worktree of a worker, if it is not there yet.
    pub(in crate::supervisor) fn begin(
        shared: &Arc<SupervisorState>,
        worker: RowId,
        worker_id: &str,
    ) -> Self {
        let (shared, worker_id) = (Arc::clone(shared), worker_id.to_owned());
        Self(tokio::spawn(async move { make(&shared, worker, &worker_id).await }))
    }

    /// Waits until it is there.
    ///
    /// # Errors
    /// `WORKTREE_EXISTS`, `WORKTREE_SETUP_FAILED`, `WORKTREE_NOT_FOUND`, `GIT_FAILED`, `STORAGE_FULL`.
    pub(in crate::supervisor) async fn done(&mut self) -> Result<()> {
        (&mut self.0).await.unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn make(shared: &SupervisorState, worker: RowId, worker_id: &str) -> Result<()> {
    let id = worker_id.to_owned();
    let row = shared.store.read(move |connection| worktrees::of_worker(connection, &id)).await?;
    let row = row.ok_or_else(|| {
        Error::new(Code::WorktreeNotFound, "the worktree of this worker was removed")
            .recommend("start another worker, or go on with `subagent worker continue`")
    })?;
    if row.state != WorktreeState::Creating {
        return is_there(&row);
    }
    let file = shared.setup.runtime_dir.worker_environment(worker_id);
    let env = environment::read(&file)?.variables;
    let operation = Operation::Create { worktree: row.worktree.clone(), setup: row.setup.clone() };
    subagent_failpoint::hit("worktree_create.before_run");
    match operation::run(shared, &operation, &env).await? {
        WorktreeResult::Ready => {}
        other => return Err(operation::unexpected(&other)),
    }
    subagent_failpoint::hit("worktree_create.before_commit");
    let row = WorktreeRow { state: WorktreeState::Ready, ..row };
    let stored = shared.store.write(Durability::Full, 2, move |tx| {
        let now = entropy::now();
        worktrees::update(tx, &row, now)?;
        store_event(tx, &row, EventData::WorktreeCreated(row.clone().view()))
    });
    if let Some(seq) = stored.await? {
        shared.changes.noted(worker, seq);
    }
    Ok(())
}

fn is_there(row: &WorktreeRow) -> Result<()> {
    let path = &row.worktree.path;
    if path.is_dir() {
        return Ok(());
    }
    let message = format!("the worktree {} is gone", path.display());
    Err(Error::new(Code::WorktreeNotFound, message)
        .with("worktree", row.worktree.name.as_str())
        .with("path", path.display().to_string())
        .recommend(format!("restore it with `git worktree add {} {}`", path.display(), row.worktree.branch)))
}
