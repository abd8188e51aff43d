//! Handlers for the budgets of controllers and workers.

use axum::extract::State;
use subagent_protocol::api::{ChangeControllerBudget, ControllerChoice};
use subagent_protocol::budget::{BudgetsShown, LimitsChange, WorkerBudget};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::address::WorkerInPath;
use crate::api::request::body::{Body, QueryParams};
use crate::api::request::caller::{Owner, ReadOnlyCaller};
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

/// Returns the budgets of a controller and of its workers.
#[cfg_attr(test, utoipa::path(get, path = "/v1/budgets", params(("controllerId" = Option<String>, Query, description = "Named explicitly"), ("hintedControllerId" = Option<String>, Query, description = "Found in the hint file of the workspace"), ("workspaceKey" = String, Query, description = "The workspace")), responses((status = 200, description = "`budget.shown`", body = Envelope<BudgetsShown>))))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    Owner(_): Owner,
    QueryParams(choice): QueryParams<ControllerChoice>,
) -> HandlerResult<BudgetsShown> {
    Ok(TypedReply("budget.shown", supervisor::controllers::budgets::budgets(&api.supervisor, choice).await?))
}

/// Changes the budget limits of a controller.
#[cfg_attr(test, utoipa::path(post, path = "/v1/budgets", request_body = ChangeControllerBudget, responses((status = 200, description = "`budget.set`", body = Envelope<BudgetsShown>))))]
pub(in crate::api) async fn change(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<ChangeControllerBudget>,
) -> HandlerResult<BudgetsShown> {
    Ok(TypedReply(
        "budget.set",
        supervisor::controllers::budgets::change_budget(&api.supervisor, caller, request).await?,
    ))
}

/// Returns the budget of a worker.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/budget", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`budget.shown`", body = Envelope<WorkerBudget>))))]
pub(in crate::api) async fn show_worker(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
) -> HandlerResult<WorkerBudget> {
    reader.may_see(&api, &worker).await?;
    Ok(TypedReply(
        "budget.shown",
        supervisor::controllers::budgets::worker_budget(&api.supervisor, &worker).await?,
    ))
}

/// Changes the budget limits of a worker.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/budget", request_body = LimitsChange, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`budget.set`", body = Envelope<WorkerBudget>))))]
pub(in crate::api) async fn change_worker(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(change): Body<LimitsChange>,
) -> HandlerResult<WorkerBudget> {
    Ok(TypedReply(
        "budget.set",
        supervisor::controllers::budgets::change_worker_budget(&api.supervisor, caller, &worker, change)
            .await?,
    ))
}
