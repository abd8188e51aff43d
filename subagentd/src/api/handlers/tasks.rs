//! Handlers for tasks: submit, list, wait, message and cancel. Callers are managers, and agents
//! through their task server.

use axum::extract::State;
use serde::Deserialize;
use subagent_protocol::Result;
use subagent_protocol::api::{
    CallableAgents, CancelTask, MessageTask, RunTask, TaskList, TaskMessaged, TaskShown, TaskView, WaitTask,
};
use subagent_protocol::ids::WorkerId;

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::control::{ShutdownPhase, ending};
use crate::api::request::address::{resolve, resolve_task};
use crate::api::request::body::{Body, PathNames, QueryParams};
use crate::api::request::caller::Tasker;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;
use crate::supervisor::{TaskCaller, TaskFilter};

/// Submits a task. It is stored with its prompt and begins when a slot is free.
#[cfg_attr(test, utoipa::path(post, path = "/v1/tasks", request_body = RunTask, responses((status = 200, description = "`task.spawned`", body = Envelope<TaskView>))))]
pub(in crate::api) async fn run(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    Body(request): Body<RunTask>,
) -> HandlerResult<TaskView> {
    Ok(TypedReply(
        "task.spawned",
        supervisor::tasks::spawn::run_task(&api.supervisor, caller, request).await?,
    ))
}

/// Query parameters of the list.
#[derive(Deserialize)]
pub(in crate::api) struct TaskListQuery {
    /// Only tasks of this worker.
    parent: Option<String>,
    /// Only tasks below this worker.
    root: Option<String>,
    /// Only tasks with one of these comma-separated statuses.
    status: Option<String>,
    /// Whether to list archived tasks instead of the others.
    archived: Option<bool>,
    /// Whether to list all tasks, including archived and hidden ones.
    all: Option<bool>,
}

/// Returns the id of the worker in a filter, also of a removed one. Agents name workers by id alone.
///
/// # Errors
/// Those of [`resolve`], and `WORKER_NOT_FOUND` for a name that no worker has.
async fn worker(api: &Api, caller: &TaskCaller, address: Option<String>) -> Result<Option<String>> {
    match address {
        Some(address) if caller.parent().is_none() => {
            let worker_id = resolve(api, &address).await?;
            if worker_id.parse::<WorkerId>().is_err() {
                return Err(supervisor::addresses::not_found(&api.supervisor, &worker_id));
            }
            Ok(Some(worker_id))
        }
        address => Ok(address),
    }
}

/// Lists the tasks that the caller may see.
#[cfg_attr(test, utoipa::path(get, path = "/v1/tasks", params(("parent" = Option<String>, Query, description = "Only those of this worker"), ("root" = Option<String>, Query, description = "Only those below this worker"), ("status" = Option<String>, Query, description = "Only those with one of these, separated by commas"), ("archived" = Option<bool>, Query, description = "Those that are archived, in place of those that are not"), ("all" = Option<bool>, Query, description = "All: also those that are archived or not inspectable")), responses((status = 200, description = "`task.listed`", body = Envelope<TaskList>))))]
pub(in crate::api) async fn list(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    QueryParams(filter): QueryParams<TaskListQuery>,
) -> HandlerResult<TaskList> {
    let TaskListQuery { parent, root, status, archived, all } = filter;
    let (archived, all) = (archived.unwrap_or(false), all.unwrap_or(false));
    let (parent, root) = (worker(&api, &caller, parent).await?, worker(&api, &caller, root).await?);
    let filter = TaskFilter { parent, root, status, archived, all };
    Ok(TypedReply(
        "task.listed",
        supervisor::tasks::shown::list_tasks(&api.supervisor, caller, filter).await?,
    ))
}

/// Lists the agents that the calling worker may use in tasks.
#[cfg_attr(test, utoipa::path(get, path = "/v1/tasks/agents", responses((status = 200, description = "`task.agents`, from below a worker", body = Envelope<CallableAgents>))))]
pub(in crate::api) async fn agents(
    State(api): State<Api>,
    Tasker(caller): Tasker,
) -> HandlerResult<CallableAgents> {
    Ok(TypedReply("task.agents", supervisor::tasks::spawn::callable_agents(&api.supervisor, caller).await?))
}

/// Query parameters for additional data.
#[derive(Deserialize)]
pub(in crate::api) struct More {
    /// Whether to include the transcripts of hidden tasks below it.
    transcripts: Option<bool>,
}

/// Returns one task by its id or name.
#[cfg_attr(test, utoipa::path(get, path = "/v1/tasks/{task}", params(("task" = String, Path, description = "Its id or name; for an owner also the beginning of its id, or `@last`"), ("transcripts" = Option<bool>, Query, description = "Also what was said in the tasks below it that are not inspectable")), responses((status = 200, description = "`task.shown`", body = Envelope<TaskShown>))))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    PathNames(task): PathNames<String>,
    QueryParams(more): QueryParams<More>,
) -> HandlerResult<TaskShown> {
    let transcripts = more.transcripts.unwrap_or(false);
    let task = resolve_task(&api, &caller, task).await?;
    Ok(TypedReply(
        "task.shown",
        supervisor::tasks::shown::show_task(&api.supervisor, caller, &task, transcripts).await?,
    ))
}

/// Waits until a task has ended, its status differs from the caller's, or the time is over.
#[cfg_attr(test, utoipa::path(post, path = "/v1/tasks/{task}/wait", request_body = WaitTask, params(("task" = String, Path, description = "Its id or name; for an owner also the beginning of its id, or `@last`")), responses((status = 200, description = "`task.waited`", body = Envelope<TaskShown>))))]
pub(in crate::api) async fn wait(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    PathNames(task): PathNames<String>,
    Body(request): Body<WaitTask>,
) -> HandlerResult<TaskShown> {
    let task = resolve_task(&api, &caller, task).await?;
    tokio::select! {
        biased;
        waited = supervisor::tasks::wait::wait_task(&api.supervisor, caller, &task, request) => Ok(TypedReply("task.waited", waited?)),
        () = api.control.reached(ShutdownPhase::EndWaits) => Err(ending().into()),
    }
}

/// Sends a message to a task.
#[cfg_attr(test, utoipa::path(post, path = "/v1/tasks/{task}/messages", request_body = MessageTask, params(("task" = String, Path, description = "Its id or name; for an owner also the beginning of its id, or `@last`")), responses((status = 200, description = "`task.messaged`", body = Envelope<TaskMessaged>))))]
pub(in crate::api) async fn message(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    PathNames(task): PathNames<String>,
    Body(request): Body<MessageTask>,
) -> HandlerResult<TaskMessaged> {
    let task = resolve_task(&api, &caller, task).await?;
    Ok(TypedReply(
        "task.messaged",
        supervisor::tasks::messages::message_task(&api.supervisor, caller, &task, request).await?,
    ))
}

/// Cancels a task. Its turn may take a moment to end.
#[cfg_attr(test, utoipa::path(post, path = "/v1/tasks/{task}/cancel", request_body = CancelTask, params(("task" = String, Path, description = "Its id or name; for an owner also the beginning of its id, or `@last`")), responses((status = 200, description = "`task.cancelled`", body = Envelope<TaskView>))))]
pub(in crate::api) async fn cancel(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    PathNames(task): PathNames<String>,
    Body(request): Body<CancelTask>,
) -> HandlerResult<TaskView> {
    let task = resolve_task(&api, &caller, task).await?;
    Ok(TypedReply(
        "task.cancelled",
        supervisor::tasks::messages::cancel_task(&api.supervisor, caller, &task, request).await?,
    ))
}
