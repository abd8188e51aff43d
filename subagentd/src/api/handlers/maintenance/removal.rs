//! Handlers that remove workers and tasks.

use axum::extract::State;
use subagent_protocol::api::{Prune, PruneTasks, Pruned, PrunedTasks, RemoveWorker, WorkerRemoved};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::address::WorkerInPath;
use crate::api::request::body::Body;
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

/// Removes a stopped worker. No request finds it from then on; its data is being deleted.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/remove", request_body = RemoveWorker, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.removed`", body = Envelope<WorkerRemoved>))))]
pub(in crate::api) async fn remove(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<RemoveWorker>,
) -> HandlerResult<WorkerRemoved> {
    Ok(TypedReply(
        "worker.removed",
        supervisor::cleanup::removal::remove_worker(&api.supervisor, caller, &worker, request).await?,
    ))
}

/// Removes old stopped workers. The handle must be valid for each controller of a removed worker;
/// otherwise nothing is removed.
#[cfg_attr(test, utoipa::path(post, path = "/v1/prune", request_body = Prune, responses((status = 200, description = "`state.pruned`", body = Envelope<Pruned>))))]
pub(in crate::api) async fn prune(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<Prune>,
) -> HandlerResult<Pruned> {
    Ok(TypedReply(
        "state.pruned",
        supervisor::cleanup::removal::prune(&api.supervisor, caller, request).await?,
    ))
}

/// Removes archived tasks that are over. The handle must be valid for each controller of a removed
/// task.
#[cfg_attr(test, utoipa::path(post, path = "/v1/prune/tasks", request_body = PruneTasks, responses((status = 200, description = "`tasks.pruned`", body = Envelope<PrunedTasks>))))]
pub(in crate::api) async fn prune_tasks(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<PruneTasks>,
) -> HandlerResult<PrunedTasks> {
    Ok(TypedReply(
        "tasks.pruned",
        supervisor::tasks::prune::prune_tasks(&api.supervisor, caller, request).await?,
    ))
}
