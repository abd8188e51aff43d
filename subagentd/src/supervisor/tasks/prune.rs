//! Removes archived tasks on request. They are not removed otherwise, because they may hold work.
//! Open tasks and those above them are kept. `removal` removes the workers.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use subagent_protocol::api::{KeptTask, PruneTasks, PrunedTask, PrunedTasks, PrunedWorker};
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use crate::store::tasks::prune::Archived;
use crate::store::tasks::{self, TaskRow};
use crate::store::{RowId, removal};
use crate::supervisor::cleanup::removal::{mark_in_steps, measured, retention_cutoff};
use crate::supervisor::orders::read_response;
use crate::supervisor::tasks::task_archive::stop_archived;
use crate::supervisor::worker::Also;
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// Removes ended tasks that were archived before the cutoff. Stops their workers first if
/// necessary.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE` if it is not right for each controller that is concerned; then
/// nothing is removed. `IDEMPOTENCY_CONFLICT`, `STORAGE_ERROR`.
pub(crate) async fn prune_tasks(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: PruneTasks,
) -> Result<PrunedTasks> {
    let this = supervisor.clone();
    tokio::spawn(async move { prune_tasks_now(&this, caller, request).await })
        .await
        .unwrap_or_else(|error| Err(Error::new(Code::Internal, error.to_string())))
}

async fn prune_tasks_now(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: PruneTasks,
) -> Result<PrunedTasks> {
    let (owner, key) = supervisor.guarded(caller, "prune tasks", &request)?;
    let _one_at_a_time = supervisor.shared.locks.pruning.lock().await;
    if let Some(earlier) = supervisor.recall(&key).await? {
        return read_response(earlier);
    }
    let (now, age) = (entropy::now(), Duration::from_secs(request.older_than_seconds));
    let cutoff = retention_cutoff(supervisor, now, age).await?;
    let found =
        supervisor.shared.store.read(move |connection| tasks::prune::archived(connection, cutoff)).await?;
    let mut all = Vec::with_capacity(found.len());
    for archived in found {
        match supervisor.row(archived.task.task_id.as_str()).await {
            Ok(row) => all.push((archived, row)),
            // Another request removed it first.
            Err(error) if error.code == Code::WorkerNotFound => {}
            Err(error) => return Err(error),
        }
    }
    let concerned: HashSet<ControllerId> = all.iter().map(|(_, row)| row.controller_id.clone()).collect();
    let (check_owner, check_concerned) = (owner.clone(), concerned.clone());
    let check = move |connection: &_| removal::check_owner_of_all(connection, &check_owner, &check_concerned);
    supervisor.shared.store.read(check).await?;
    let (mut items, mut kept): (Vec<(RowId, PrunedWorker)>, _) = (Vec::new(), Vec::new());
    let mut tasks = HashMap::new();
    for (archived, mut row) in all {
        if let Some(why) = keeps(&archived) {
            kept.push(why);
            continue;
        }
        if row.state != "stopped" && !request.dry_run {
            // The task, or one below it, may be resumed meanwhile.
            let check: Also = Box::new(|tx, id| tasks::prune::may_go(tx.connection(), id));
            if let Err(error) = stop_archived(supervisor, &row, Some(check)).await {
                let reason = format!("its worker cannot be stopped: {}", error.message);
                kept.push(kept_for(&archived.task, reason, None));
                continue;
            }
            row = supervisor.row(row.worker_id.as_str()).await?;
        }
        items.push((row.id, measured(supervisor, &row).await?));
        tasks.insert(row.worker_id.clone(), archived.task);
    }
    let result = move |removed: Vec<PrunedWorker>| pruned(&request, removed, &tasks, kept);
    if request.dry_run {
        return Ok(result(items.into_iter().map(|(_, item)| item).collect()));
    }
    mark_in_steps(supervisor, items, (owner, concerned), key, now, result, |pruned| {
        pruned.items.iter().map(|item| item.task_id.clone()).collect()
    })
    .await
}

/// Returns the reason for keeping a task, if there is one.
fn keeps(archived: &Archived) -> Option<KeptTask> {
    let Archived { task, is_above } = archived;
    let (reason, command) = match (task.end.outcome, is_above) {
        (None, _) => ("it has not ended", Some(format!("subagent task cancel {}", task.task_id))),
        (Some(_), true) => ("a task below it has not ended", None),
        (Some(_), false) => return None,
    };
    Some(kept_for(task, reason.to_owned(), command))
}

fn kept_for(task: &TaskRow, reason: String, recommended_command: Option<String>) -> KeptTask {
    KeptTask {
        task_id: task.task_id.clone(),
        name: task.name.clone(),
        status: task.status(),
        reason,
        recommended_command,
    }
}

fn pruned(
    request: &PruneTasks,
    removed: Vec<PrunedWorker>,
    tasks: &HashMap<WorkerId, TaskRow>,
    kept: Vec<KeptTask>,
) -> PrunedTasks {
    let item = |worker: PrunedWorker| {
        let task = tasks.get(&worker.worker_id)?;
        Some(PrunedTask {
            task_id: worker.worker_id,
            name: task.name.clone(),
            path: task.tree.path.clone(),
            status: task.status(),
            archived_at: task.times.archived_at.unwrap_or(Timestamp(0)),
            events: worker.events,
            bytes: worker.bytes,
        })
    };
    let items: Vec<PrunedTask> = removed.into_iter().filter_map(item).collect();
    PrunedTasks {
        dry_run: request.dry_run,
        older_than_seconds: request.older_than_seconds,
        count: items.len(),
        events: items.iter().map(|item| item.events).sum(),
        bytes: items.iter().map(|item| item.bytes).sum(),
        items,
        kept,
    }
}
