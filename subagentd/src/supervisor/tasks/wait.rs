//! Waits for a task.

use std::sync::Arc;
use std::time::Duration;

use subagent_protocol::api::{KnownTask, TaskShown, WaitTask};
use subagent_protocol::{Code, Error, Result};
use tokio::time::Instant;

use super::{TaskCaller, shown};
use crate::or_never::sleep_until;
use crate::store::tasks::{self, TaskRow};
use crate::supervisor::Supervisor;
use crate::supervisor::shared::{ending_error, is_ending};
use crate::supervisor::tasks::shown::with_worktree;
use crate::supervisor::worker::Snapshot;

/// Waits until a task has ended, its progress differs from `known`, or the time is over.
/// Returns its state then.
///
/// # Errors
/// `TASK_NOT_FOUND`, `STORAGE_ERROR` for a worker that is set aside, `DAEMON_NOT_RUNNING` if
/// the daemon is ending.
pub(crate) async fn wait_task(
    supervisor: &Supervisor,
    caller: TaskCaller,
    task: &str,
    request: WaitTask,
) -> Result<TaskShown> {
    // A time that overflows the clock means no limit.
    let deadline =
        request.timeout_ms.and_then(|millis| Instant::now().checked_add(Duration::from_millis(millis)));
    let mut row = super::task(supervisor, &caller, task).await?;
    let task_id = row.task_id.clone();
    let mut news = match supervisor.roster.live(task_id.as_str()) {
        Ok(handle) => Some(handle.follow()),
        Err(_) if row.end.outcome.is_some() => None,
        Err(_) => {
            let worker = supervisor.row(task_id.as_str()).await?;
            Some(supervisor.roster.adopted(&supervisor.shared, &worker).await?.follow())
        }
    };
    let mut ending = supervisor.shared.ending.subscribe();
    loop {
        if let Some(news) = &mut news {
            news.mark_unchanged();
        }
        row = task_row(supervisor, task_id.as_str()).await?;
        if is_found(&row, request.known) || news.is_none() {
            return with_worktree(supervisor, shown::shown(supervisor, &row)).await;
        }
        // A wait for the end ignores changes during an open turn.
        let matters =
            |snapshot: &Arc<Snapshot>| request.known.is_some() || snapshot.worker.open_turn().is_none();
        let changed = async {
            let Some(news) = &mut news else { return false };
            while news.changed().await.is_ok() {
                if matters(&news.borrow()) {
                    return true;
                }
            }
            false
        };
        tokio::select! {
            goes_on = changed => if !goes_on {
                // The worker is stopped, and so the task has ended.
                news = None;
            },
            () = is_ending(&mut ending) => return Err(ending_error()),
            () = sleep_until(deadline) => return Ok(shown::shown(supervisor, &row)),
        }
        if *ending.borrow() {
            return Err(ending_error());
        }
    }
}

pub(super) async fn task_row(supervisor: &Supervisor, task_id: &str) -> Result<TaskRow> {
    let id = task_id.to_owned();
    let row = supervisor.shared.store.read(move |connection| tasks::of_worker(connection, &id)).await?;
    row.ok_or_else(|| {
        Error::new(Code::TaskNotFound, "the task was removed while it was waited for").with("task", task_id)
    })
}

fn is_found(row: &TaskRow, known: Option<KnownTask>) -> bool {
    let now = KnownTask { status: row.status(), steps: row.work.steps };
    now.status.is_end() || known.is_some_and(|known| known != now)
}
