//! Tasks: creating, showing, waiting for and messaging them. Must not decide what ends a task or
//! which turn starts next. `subagent_core::task` and the store do, executed by the actors.

pub mod result_check;
pub(crate) mod task_archive;

pub(crate) mod messages;
pub(crate) mod prune;
pub(crate) mod shown;
pub(crate) mod spawn;
#[cfg(test)]
mod tests;
pub(crate) mod wait;

pub(crate) use shown::TaskFilter;

use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Code, Error, Result};

use super::orders::RequestTarget;
use super::start::compose::TaskPurpose;
use super::start::delegation::TaskToken;
use super::start::spec;
use super::{ApiCaller, Supervisor};
use crate::store::tasks::{self, TaskRow};
use crate::store::{OwnerCheck, RowId, Tx, WorkerRow};

/// The sender of a request about tasks.
#[derive(Debug, Clone)]
pub(crate) enum TaskCaller {
    /// A person or a program.
    Manager(ApiCaller),
    /// The agent of this worker, through its task server. It may only access its own tasks.
    Parent {
        /// The worker of the agent.
        worker: WorkerId,
        /// The idempotency key of the request.
        idempotency_key: Option<String>,
    },
    /// A schedule, for one of its firings.
    Schedule {
        /// The row of the firing.
        firing: RowId,
    },
    /// The daemon, for the task that labels this worker. Each worker has at most one.
    Title {
        /// The worker to label.
        worker: WorkerId,
    },
}

impl TaskCaller {
    /// Returns the firing that this caller stands for.
    pub(super) const fn firing(&self) -> Option<RowId> {
        match self {
            Self::Schedule { firing } => Some(*firing),
            _ => None,
        }
    }

    /// Returns why this caller creates tasks.
    pub(super) const fn gives(&self) -> TaskPurpose {
        match self {
            Self::Manager(_) | Self::Parent { .. } | Self::Schedule { .. } => TaskPurpose::Tasks,
            Self::Title { .. } => TaskPurpose::Title,
        }
    }

    /// Returns the only worker whose tasks the caller can see.
    pub(crate) fn parent(&self) -> Option<&WorkerId> {
        match self {
            Self::Manager(_) | Self::Schedule { .. } => None,
            Self::Parent { worker, .. } | Self::Title { worker } => Some(worker),
        }
    }
}

/// Owner check and idempotency key of a request. The owner is `None` for requests that do not come
/// from a manager.
type RequestGuard = (Option<OwnerCheck>, Option<(String, String)>);

/// Returns the owner check and the idempotency key of a request.
fn guarded_task(
    supervisor: &Supervisor,
    caller: TaskCaller,
    what: &str,
    request: &impl serde::Serialize,
) -> Result<RequestGuard> {
    match caller {
        TaskCaller::Manager(caller) => {
            let (owner, key) = supervisor.guarded(caller, what, request)?;
            Ok((Some(owner), key))
        }
        TaskCaller::Parent { worker, idempotency_key } => {
            let caller = ApiCaller { handle: None, idempotency_key };
            let (_, key) = supervisor.guarded(caller, &format!("{what} of {worker}"), request)?;
            // Prefixed, so that keys of different agents do not collide.
            Ok((None, key.map(|(key, fingerprint)| (format!("{worker} {key}"), fingerprint))))
        }
        TaskCaller::Schedule { firing } => {
            let key = Some(format!("{what} firing {}", firing.0));
            let (_, key) = supervisor.guarded(ApiCaller { handle: None, idempotency_key: key }, what, &())?;
            Ok((None, key))
        }
        TaskCaller::Title { worker } => {
            let caller = ApiCaller { handle: None, idempotency_key: Some(format!("title of {worker}")) };
            let (_, key) = supervisor.guarded(caller, "label", request)?;
            Ok((None, key))
        }
    }
}

/// Finds a task by id or name.
///
/// # Errors
/// `TASK_NOT_FOUND{task}`. `INVALID_ARGUMENT{task,tasks}` if several tasks have the name.
async fn task(supervisor: &Supervisor, caller: &TaskCaller, wanted: &str) -> Result<TaskRow> {
    let (parent, name) = (caller.parent().cloned(), wanted.to_owned());
    let found = supervisor
        .shared
        .store
        .read(move |connection| tasks::find(connection, parent.as_ref(), &name))
        .await?;
    let mut found = found.into_iter();
    let Some(first) = found.next() else {
        let message = format!("there is no task {wanted:?} of this caller");
        let error = Error::new(Code::TaskNotFound, message).with("task", wanted);
        return Err(error.recommend("list the tasks; one that is archived is found by its id alone"));
    };
    let others: Vec<TaskRow> = found.collect();
    // Ids are unique.
    if first.task_id.as_str() == wanted || others.is_empty() {
        return Ok(first);
    }
    let all: Vec<&str> = std::iter::once(&first).chain(&others).map(|row| row.task_id.as_str()).collect();
    let message = format!("{} tasks are called {wanted:?}; say which by its id", all.len());
    Err(Error::new(Code::InvalidArgument, message).with("task", wanted).with("tasks", all))
}

/// Returns whether this is the task token of this worker's agent.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn is_task_token(supervisor: &Supervisor, worker: &WorkerId, token: &str) -> Result<bool> {
    if token.is_empty() {
        return Ok(false);
    }
    let row = supervisor.row(worker.as_str()).await?;
    let known = spec::stored(&row).and_then(|spec| spec.delegation).and_then(|spec| spec.token_hash);
    Ok(known == Some(TaskToken::hash(token)))
}

/// Returns the row and the actor of a task's worker.
async fn reach_task(
    supervisor: &Supervisor,
    row: &TaskRow,
    guarded: &RequestGuard,
) -> Result<(WorkerRow, RequestTarget)> {
    let worker = supervisor.row(row.task_id.as_str()).await?;
    let owner = guarded.0.clone().unwrap_or(OwnerCheck(None));
    let reached = match (&guarded.0, supervisor.roster.live(row.task_id.as_str())) {
        (_, Ok(handle)) => RequestTarget::Live(handle),
        (None, Err(_)) if worker.state != "stopped" => {
            RequestTarget::Live(supervisor.roster.adopted(&supervisor.shared, &worker).await?)
        }
        _ => supervisor.reach(&worker, &owner, &guarded.1).await?,
    };
    Ok((worker, reached))
}

/// Checks that the agent of a worker may start or resume tasks. If its own task is over or ending,
/// its processes may still run for a while, and nothing would end tasks that they start.
///
/// # Errors
/// `WORKER_STOPPED`, `STORAGE_ERROR`.
fn gives_tasks(tx: &Tx<'_>, parent: RowId) -> Result<()> {
    if tasks::is_over(tx.connection(), parent)? {
        return Err(Error::new(Code::WorkerStopped, "the task of this agent is over: it gives no tasks"));
    }
    Ok(())
}
