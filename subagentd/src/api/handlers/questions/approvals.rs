//! Handlers for approval requests and elicitations: list and answer.

use axum::extract::State;
use serde::Serialize;
use subagent_protocol::api::{Answer, ApprovalDecided, Decide, ElicitationAnswered, PendingApproval};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::address::{RequestOfPath, WorkerInPath};
use crate::api::request::body::{Body, PathNames};
use crate::api::request::caller::{Owner, ReadOnlyCaller};
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

/// Data of the response `approval.listed`.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct ApprovalList {
    /// Open approval requests of the worker, oldest first.
    items: Vec<PendingApproval>,
    /// Number of the listed requests.
    count: usize,
}

/// Lists the open approval requests and elicitations of a worker.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/approvals", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`approval.listed`", body = Envelope<ApprovalList>))))]
pub(in crate::api) async fn list(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
) -> HandlerResult<ApprovalList> {
    reader.may_see(&api, &worker).await?;
    let items = supervisor::views::approvals(&api.supervisor, &worker).await?;
    Ok(TypedReply("approval.listed", ApprovalList { count: items.len(), items }))
}

/// Decides an approval request of a worker.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/approvals/{request}", request_body = Decide, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`"), ("request" = String, Path, description = "The id of the permission request")), responses((status = 200, description = "`approval.decided`", body = Envelope<ApprovalDecided>))))]
pub(in crate::api) async fn decide(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    PathNames(RequestOfPath { request: request_id }): PathNames<RequestOfPath>,
    Body(request): Body<Decide>,
) -> HandlerResult<ApprovalDecided> {
    let decided =
        supervisor::questions::decide::decide(&api.supervisor, caller, &worker, &request_id, request).await?;
    Ok(TypedReply("approval.decided", decided))
}

/// Answers an elicitation of a worker.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/elicitations/{request}", request_body = Answer, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`"), ("request" = String, Path, description = "The id of the elicitation")), responses((status = 200, description = "`elicitation.answered`", body = Envelope<ElicitationAnswered>))))]
pub(in crate::api) async fn answer(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    PathNames(RequestOfPath { request: request_id }): PathNames<RequestOfPath>,
    Body(request): Body<Answer>,
) -> HandlerResult<ElicitationAnswered> {
    let answered =
        supervisor::questions::answer(&api.supervisor, caller, &worker, &request_id, request).await?;
    Ok(TypedReply("elicitation.answered", answered))
}
