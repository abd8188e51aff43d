//! Tasks: giving one, looking at them, waiting, and what may be said to one. Who asks is a manager, or the agent of a worker by
//! its task server.

use axum::extract::State;
use serde::Deserialize;
use subagent_protocol::api::{
    CallableAgents, CancelTask, MessageTask, RunTask, TaskList, TaskMessaged, TaskShown, TaskView, WaitTask,
};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use super::body::{Body, Names, Params};
use super::caller::Tasker;
use super::control::{Phase, ending};
use super::reply::{Outcome, Reply};
use super::state::Api;
use crate::supervisor::TaskFilter;

/// `POST /v1/tasks`
#[cfg_attr(test, utoipa::path(post, path = "/v1/tasks", request_body = RunTask, responses((status = 200, description = "`task.spawned`", body = Envelope<TaskView>))))]
pub(super) async fn run(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    Body(request): Body<RunTask>,
) -> Outcome<TaskView> {
    Ok(Reply("task.spawned", api.supervisor.run_task(caller, request).await?))
}

/// The parameters of a list.
#[derive(Deserialize)]
pub(super) struct Filter {
    /// Only those of this worker.
    parent: Option<String>,
    /// Only those below this worker.
    root: Option<String>,
    /// Only those with one of these.
    status: Option<String>,
    /// Only those that are archived.
    archived: Option<bool>,
    /// Also those that are in no other list.
    all: Option<bool>,
}

/// `GET /v1/tasks`
#[cfg_attr(test, utoipa::path(get, path = "/v1/tasks", params(("parent" = Option<String>, Query, description = "Only those of this worker"), ("root" = Option<String>, Query, description = "Only those below this worker"), ("status" = Option<String>, Query, description = "Only those with one of these, separated by commas"), ("archived" = Option<bool>, Query, description = "Those that are archived, in place of those that are not"), ("all" = Option<bool>, Query, description = "All: also those that are archived or not inspectable")), responses((status = 200, description = "`task.listed`", body = Envelope<TaskList>))))]
pub(super) async fn list(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    Params(filter): Params<Filter>,
) -> Outcome<TaskList> {
    let Filter { parent, root, status, archived, all } = filter;
    let (archived, all) = (archived.unwrap_or(false), all.unwrap_or(false));
    let filter = TaskFilter { parent, root, status, archived, all };
    Ok(Reply("task.listed", api.supervisor.list_tasks(caller, filter).await?))
}

/// `GET /v1/tasks/agents`
#[cfg_attr(test, utoipa::path(get, path = "/v1/tasks/agents", responses((status = 200, description = "`task.agents`, from below a worker", body = Envelope<CallableAgents>))))]
pub(super) async fn agents(State(api): State<Api>, Tasker(caller): Tasker) -> Outcome<CallableAgents> {
    Ok(Reply("task.agents", api.supervisor.callable_agents(caller).await?))
}

/// What else is shown.
#[derive(Deserialize)]
pub(super) struct More {
    /// What was said below it.
    transcripts: Option<bool>,
}

/// `GET /v1/tasks/{task}`
#[cfg_attr(test, utoipa::path(get, path = "/v1/tasks/{task}", params(("task" = String, Path, description = "Its id or name"), ("transcripts" = Option<bool>, Query, description = "Also what was said in the tasks below it that are not inspectable")), responses((status = 200, description = "`task.shown`", body = Envelope<TaskShown>))))]
pub(super) async fn show(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    Names(task): Names<String>,
    Params(more): Params<More>,
) -> Outcome<TaskShown> {
    let transcripts = more.transcripts.unwrap_or(false);
    Ok(Reply("task.shown", api.supervisor.show_task(caller, &task, transcripts).await?))
}

/// `POST /v1/tasks/{task}/wait`
#[cfg_attr(test, utoipa::path(post, path = "/v1/tasks/{task}/wait", request_body = WaitTask, params(("task" = String, Path, description = "Its id or name")), responses((status = 200, description = "`task.waited`", body = Envelope<TaskShown>))))]
pub(super) async fn wait(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    Names(task): Names<String>,
    Body(request): Body<WaitTask>,
) -> Outcome<TaskShown> {
    tokio::select! {
        biased;
        waited = api.supervisor.wait_task(caller, &task, request) => Ok(Reply("task.waited", waited?)),
        () = api.control.reached(Phase::EndWaits) => Err(ending().into()),
    }
}

/// `POST /v1/tasks/{task}/messages`
#[cfg_attr(test, utoipa::path(post, path = "/v1/tasks/{task}/messages", request_body = MessageTask, params(("task" = String, Path, description = "Its id or name")), responses((status = 200, description = "`task.messaged`", body = Envelope<TaskMessaged>))))]
pub(super) async fn message(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    Names(task): Names<String>,
    Body(request): Body<MessageTask>,
) -> Outcome<TaskMessaged> {
    Ok(Reply("task.messaged", api.supervisor.message_task(caller, &task, request).await?))
}

/// `POST /v1/tasks/{task}/cancel`
#[cfg_attr(test, utoipa::path(post, path = "/v1/tasks/{task}/cancel", request_body = CancelTask, params(("task" = String, Path, description = "Its id or name")), responses((status = 200, description = "`task.cancelled`", body = Envelope<TaskView>))))]
pub(super) async fn cancel(
    State(api): State<Api>,
    Tasker(caller): Tasker,
    Names(task): Names<String>,
    Body(request): Body<CancelTask>,
) -> Outcome<TaskView> {
    Ok(Reply("task.cancelled", api.supervisor.cancel_task(caller, &task, request).await?))
}
