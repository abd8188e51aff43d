//! Tasks: giving one, looking at them, waiting for one, and what may be said to one.
//!
//! Must not decide what ends a task, or whose turn it is: that is `core::task` and the store, carried out by the actors.

mod messages;
mod prune;
pub(super) mod shown;
mod spawn;
#[cfg(test)]
mod tests;
mod wait;

pub use shown::TaskFilter;

use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Code, Error, Result};

use super::compose::Gives;
use super::delegation::TaskToken;
use super::orders::Reached;
use super::{Caller, Supervisor, spec};
use crate::store::tasks::{self, TaskRow};
use crate::store::{OwnerCheck, RowId, Tx, WorkerRow};

/// Who asks for something about tasks.
#[derive(Debug, Clone)]
pub enum TaskCaller {
    /// A person or a program.
    Manager(Caller),
    /// The agent of this worker, by the task server that it was given: for its own tasks, and nothing else.
    Parent {
        /// The worker.
        worker: WorkerId,
        /// The idempotency key.
        idempotency_key: Option<String>,
    },
    /// A schedule, for one of its firings.
    Schedule {
        /// The row of the firing.
        firing: RowId,
    },
    /// The daemon, for the task that labels this worker. There is one for each worker.
    Title {
        /// The worker.
        worker: WorkerId,
    },
}

impl TaskCaller {
    /// The firing that it is for.
    pub(super) const fn firing(&self) -> Option<RowId> {
        match self {
            Self::Schedule { firing } => Some(*firing),
            _ => None,
        }
    }

    /// What its tasks are for.
    pub(super) const fn gives(&self) -> Gives {
        match self {
            Self::Manager(_) | Self::Parent { .. } | Self::Schedule { .. } => Gives::Tasks,
            Self::Title { .. } => Gives::Title,
        }
    }

    /// The only worker whose tasks it can see.
    pub(super) fn parent(&self) -> Option<&WorkerId> {
        match self {
            Self::Manager(_) | Self::Schedule { .. } => None,
            Self::Parent { worker, .. } | Self::Title { worker } => Some(worker),
        }
    }
}

/// A request of a caller as it is carried out.
type Guarded = (Option<OwnerCheck>, Option<(String, String)>);

impl Supervisor {
    /// Whose handle counts, and what tells the request from another one with its key.
    fn guarded_task(
        &self,
        caller: TaskCaller,
        what: &str,
        request: &impl serde::Serialize,
    ) -> Result<Guarded> {
        match caller {
            TaskCaller::Manager(caller) => {
                let (owner, key) = self.guarded(caller, what, request)?;
                Ok((Some(owner), key))
            }
            TaskCaller::Parent { worker, idempotency_key } => {
                let caller = Caller { handle: None, idempotency_key };
                let (_, key) = self.guarded(caller, &format!("{what} of {worker}"), request)?;
                // Of one agent another one's key says nothing.
                Ok((None, key.map(|(key, fingerprint)| (format!("{worker} {key}"), fingerprint))))
            }
            TaskCaller::Schedule { firing } => {
                let key = Some(format!("{what} firing {}", firing.0));
                let (_, key) = self.guarded(Caller { handle: None, idempotency_key: key }, what, &())?;
                Ok((None, key))
            }
            TaskCaller::Title { worker } => {
                let caller = Caller { handle: None, idempotency_key: Some(format!("title of {worker}")) };
                let (_, key) = self.guarded(caller, "label", request)?;
                Ok((None, key))
            }
        }
    }

    /// The task that the caller means.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND{task}`, `INVALID_ARGUMENT{task,tasks}` for a name that several have.
    async fn task(&self, caller: &TaskCaller, wanted: &str) -> Result<TaskRow> {
        let (parent, name) = (caller.parent().cloned(), wanted.to_owned());
        let found =
            self.shared.store.read(move |connection| tasks::find(connection, parent.as_ref(), &name)).await?;
        let mut found = found.into_iter();
        let Some(first) = found.next() else {
            let message = format!("there is no task {wanted:?} of this caller");
            let error = Error::new(Code::TaskNotFound, message).with("task", wanted);
            return Err(error.recommend("list the tasks; one that is archived is found by its id alone"));
        };
        let others: Vec<TaskRow> = found.collect();
        // An id is nobody else's.
        if first.task_id.as_str() == wanted || others.is_empty() {
            return Ok(first);
        }
        let all: Vec<&str> = std::iter::once(&first).chain(&others).map(|row| row.task_id.as_str()).collect();
        let message = format!("{} tasks are called {wanted:?}; say which by its id", all.len());
        Err(Error::new(Code::InvalidArgument, message).with("task", wanted).with("tasks", all))
    }

    /// Whether this is the token of the task server that the agent of this worker was given.
    ///
    /// # Errors
    /// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
    pub async fn is_task_token(&self, worker: &WorkerId, token: &str) -> Result<bool> {
        if token.is_empty() {
            return Ok(false);
        }
        let row = self.row(worker.as_str()).await?;
        let known = spec::stored(&row).and_then(|spec| spec.delegation).and_then(|spec| spec.token_hash);
        Ok(known == Some(TaskToken::hash(token)))
    }

    /// The actor of a task's worker.
    async fn reach_task(&self, row: &TaskRow, guarded: &Guarded) -> Result<(WorkerRow, Reached)> {
        let worker = self.row(row.task_id.as_str()).await?;
        let owner = guarded.0.clone().unwrap_or(OwnerCheck(None));
        let reached = match (&guarded.0, self.roster.live(row.task_id.as_str())) {
            (_, Ok(handle)) => Reached::Actor(handle),
            (None, Err(_)) if worker.state != "stopped" => {
                Reached::Actor(self.roster.adopted(&self.shared, &worker).await?)
            }
            _ => self.reach(&worker, &owner, &guarded.1).await?,
        };
        Ok((worker, reached))
    }
}

/// Whether the agent of a worker may have tasks begin or go on: not if its own is over, or about to be. Its processes may live
/// for a while after that, and what they begin then nobody would end.
///
/// # Errors
/// `WORKER_STOPPED`, `STORAGE_ERROR`.
fn gives_tasks(tx: &Tx<'_>, parent: RowId) -> Result<()> {
    if tasks::is_over(tx.connection(), parent)? {
        return Err(Error::new(Code::WorkerStopped, "the task of this agent is over: it gives no tasks"));
    }
    Ok(())
}
