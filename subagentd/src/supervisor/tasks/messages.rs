//! Messages to a task: appended to a queued task, another turn of a running one, another run of an
//! ended one, or a cancel.

use serde_json::{Value, json};
use subagent_core::model::{QueuePosition, Queued, TaskEnding, Worker, WorkerInput};
use subagent_core::rules::reasons::CANCELED_BY_MANAGER;
use subagent_protocol::api::{CancelTask, MessageTask, TaskMessage, TaskMessaged, TaskStatus, TaskView};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::TurnId;
use subagent_protocol::{Code, Error, Result};

use super::{RequestGuard, TaskCaller, shown};
use crate::store::tasks::{self, TaskRow};
use crate::store::turns::queue;
use crate::store::{Durability, RowId, Tx, requests};
use crate::supervisor::orders::{RequestTarget, read_response};
use crate::supervisor::start::spec;
use crate::supervisor::tasks::wait::task_row;
use crate::supervisor::tasks::{guarded_task, reach_task};
use crate::supervisor::turns::text;
use crate::supervisor::worker::Also;
use crate::supervisor::{Supervisor, entropy, hooks};

/// Sends a message to a task.
///
/// # Errors
/// `TASK_NOT_FOUND`, `INVALID_ARGUMENT`, `CONTEXT_LOST{task}`, `QUEUE_FULL`,
/// `IDEMPOTENCY_CONFLICT`, `INVALID_CONTROLLER_HANDLE`, `HOOK_DENIED{task,hook}`,
/// `HOOK_FAILED{task,hook}`. `WORKER_STOPPED`, also for a parent whose own task is over.
pub(crate) async fn message_task(
    supervisor: &Supervisor,
    caller: TaskCaller,
    task: &str,
    request: MessageTask,
) -> Result<TaskMessaged> {
    if request.message.trim().is_empty() && !request.cancel {
        let message = "the message is empty";
        return Err(Error::new(Code::InvalidArgument, message).with("field", "message"));
    }
    text::check_text(&request.message)?;
    let row = super::task(supervisor, &caller, task).await?;
    let guarded = guarded_task(supervisor, caller, &format!("message {}", row.task_id), &request)?;
    let earlier = supervisor.recall(&guarded.1).await?;
    let message = match earlier {
        Some(earlier) => read_response(earlier)?,
        None => {
            let request = with_hooks(supervisor, &row, &guarded, request).await?;
            say(supervisor, &row, &guarded, &request).await?
        }
    };
    let row = task_row(supervisor, row.task_id.as_str()).await?;
    Ok(TaskMessaged { task: shown::view(supervisor, &row, false), message })
}

/// Runs the hooks of the task's worker for a message of the owner, and appends their text.
/// Messages of an agent to its tasks have no hooks.
async fn with_hooks(
    supervisor: &Supervisor,
    row: &TaskRow,
    (owner, _): &RequestGuard,
    mut request: MessageTask,
) -> Result<MessageTask> {
    // A cancel in these states drops its message.
    let is_dropped = request.cancel && (row.status() == TaskStatus::Queued || row.status().is_end());
    let Some(owner) = owner.as_ref().filter(|_| !is_dropped && !request.message.trim().is_empty()) else {
        return Ok(request);
    };
    let worker = supervisor.row(row.task_id.as_str()).await?;
    let Some(prompt) = hooks::prompt_to(&supervisor.shared, &worker, request.message.clone()).await? else {
        return Ok(request);
    };
    supervisor.check_owner_of(owner, &worker).await?;
    let context = hooks::of_prompt(&supervisor.shared, prompt).await;
    if let Some(context) = context.map_err(|error| error.with("task", row.task_id.as_str()))? {
        request.message = format!("{}\n\n{context}", request.message);
        text::check_text(&request.message)?;
    }
    Ok(request)
}

async fn say(
    supervisor: &Supervisor,
    row: &TaskRow,
    guarded: &RequestGuard,
    request: &MessageTask,
) -> Result<TaskMessage> {
    match (row.status(), request.cancel) {
        (TaskStatus::Queued, true) => {
            end_task(supervisor, row, guarded, None).await?;
            return Ok(TaskMessage::Cancelled);
        }
        (TaskStatus::Queued, false) => match append(supervisor, row, guarded, request).await {
            // The task has started meanwhile.
            Err(error) if error.code == Code::TurnNotQueued => {}
            appended => return appended,
        },
        (status, true) if status.is_end() => return already_ended(supervisor, row, guarded).await,
        (status, false) if status.is_end() => may_resume(row, request)?,
        // An empty prompt would lead to an empty result.
        (_, true) if request.message.trim().is_empty() => {
            let message =
                "the message is empty, and the task has begun: say what it should do last, or cancel it";
            return Err(Error::new(Code::InvalidArgument, message).with("field", "message"));
        }
        _ => {}
    }
    next_turn(supervisor, row, guarded, request).await
}

/// Checks that an ended task can resume its session, or may start without it.
fn may_resume(row: &TaskRow, request: &MessageTask) -> Result<()> {
    let lost = row.worker.had_session && row.worker.details.restores != Some(true);
    if row.times.archived_at.is_some() {
        let message = "the task is archived and cannot be continued";
        return Err(Error::new(Code::TaskNotFound, message).with("task", row.task_id.as_str()));
    }
    if !lost || request.allow_fresh {
        return Ok(());
    }
    let message = "the agent of the task cannot resume its session: it would not know what it has done";
    Err(Error::new(Code::ContextLost, message)
        .with("task", row.task_id.as_str())
        .recommend("say all that it needs to know and allow it to start afresh, or start another task"))
}

async fn append(
    supervisor: &Supervisor,
    row: &TaskRow,
    guarded: &RequestGuard,
    request: &MessageTask,
) -> Result<TaskMessage> {
    let (worker, reached) = reach_task(supervisor, row, guarded).await?;
    let handle = match reached {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return read_response(response),
    };
    let first = crate::store::workers::load;
    let known = supervisor.shared.store.read(move |connection| first(connection, &worker)).await?;
    let Some(turn_id) = known.queue.turns.front().cloned() else {
        return Err(Error::new(Code::TurnNotQueued, "the task has begun"));
    };
    let input = WorkerInput::AppendQueued { turn_id: turn_id.clone(), text: request.message.clone() };
    let (owner, key) = guarded.clone();
    let also: Also = Box::new(move |tx: &mut Tx<'_>, _| queue::fits(tx, &turn_id, text::MAX_PROMPT_BYTES));
    let answer = answer(TaskMessage::Appended);
    let response = supervisor.order_also(&handle, owner, key, input, answer, None, Some(also)).await?;
    read_response(response)
}

async fn next_turn(
    supervisor: &Supervisor,
    row: &TaskRow,
    guarded: &RequestGuard,
    request: &MessageTask,
) -> Result<TaskMessage> {
    let (worker, reached) = reach_task(supervisor, row, guarded).await?;
    let handle = match reached {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return read_response(response),
    };
    let (message, input) = text::plain(&request.message);
    let turn_id = TurnId::from_random(entropy::random()?);
    let queued = Queued { turn_id, message, input, sender: None };
    let most = spec::queue_limit(&worker);
    let input = WorkerInput::Enqueue { queued, urgency: QueuePosition::Resumed, most };
    let did = match (row.status().is_end(), request.cancel) {
        (true, _) => TaskMessage::Resumed,
        (false, true) => TaskMessage::Last,
        (false, false) => TaskMessage::Queued,
    };
    let (mode, resumes) = (request.mode, did == TaskMessage::Resumed);
    let (owner, key) = guarded.clone();
    let of_parent = owner.is_none();
    let also: Also = Box::new(move |tx: &mut Tx<'_>, id: RowId| {
        if of_parent && let Some(parent) = tasks::parent(tx.connection(), id)? {
            super::gives_tasks(tx, parent)?;
        }
        if resumes { tasks::take_up(tx, id, mode, of_parent) } else { Ok(()) }
    });
    let response = supervisor.order_also(&handle, owner, key, input, answer(did), None, Some(also)).await?;
    read_response(response)
}

/// Cancels a task: drops its queued messages and cancels its turn.
///
/// # Errors
/// `TASK_NOT_FOUND`, `IDEMPOTENCY_CONFLICT`, `INVALID_CONTROLLER_HANDLE`.
pub(crate) async fn cancel_task(
    supervisor: &Supervisor,
    caller: TaskCaller,
    task: &str,
    request: CancelTask,
) -> Result<TaskView> {
    let row = super::task(supervisor, &caller, task).await?;
    let guarded = guarded_task(supervisor, caller, &format!("cancel {}", row.task_id), &request)?;
    if supervisor.recall(&guarded.1).await?.is_none() {
        match row.status().is_end() {
            true => drop(already_ended(supervisor, &row, &guarded).await?),
            false => end_task(supervisor, &row, &guarded, request.reason).await?,
        }
    }
    Ok(shown::view(supervisor, &task_row(supervisor, row.task_id.as_str()).await?, false))
}

/// Returns the result of canceling an ended task. It is stored under the key, so that a
/// repetition does not cancel a later run.
async fn already_ended(
    supervisor: &Supervisor,
    row: &TaskRow,
    (owner, key): &RequestGuard,
) -> Result<TaskMessage> {
    if let Some(owner) = owner {
        supervisor.check_owner_of(owner, &supervisor.row(row.task_id.as_str()).await?).await?;
    }
    let (key, now) = (key.clone(), entropy::now());
    let kept = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
        requests::once(tx, key.as_ref(), now, |_| Ok(TaskMessage::AlreadyEnded))
    });
    Ok(kept.await?.0)
}

async fn end_task(
    supervisor: &Supervisor,
    row: &TaskRow,
    guarded: &RequestGuard,
    reason: Option<String>,
) -> Result<()> {
    let (_, reached) = reach_task(supervisor, row, guarded).await?;
    let RequestTarget::Live(handle) = reached else { return Ok(()) };
    let reason = reason.unwrap_or_else(|| CANCELED_BY_MANAGER.to_owned());
    let input = WorkerInput::EndTask { ending: TaskEnding::Cancelled, reason };
    let (owner, key) = guarded.clone();
    supervisor.order(&handle, owner, key, input, answer(TaskMessage::Cancelled)).await.map(drop)
}

fn answer(did: TaskMessage) -> super::super::worker::Respond {
    Box::new(move |_: &Worker, _: &[(EventType, i64)]| -> Value { json!(did) })
}
