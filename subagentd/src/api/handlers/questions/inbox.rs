//! Handlers for the questions of all workers, for several decisions at once, and for standing
//! rules.

use axum::extract::State;
use serde::Deserialize;
use subagent_protocol::api::{AllDecided, ApprovalShown, DecideAll, Inbox, OwnerRule, OwnerRules};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::address::{WorkerInPath, resolve};
use crate::api::request::body::{Body, PathNames, QueryParams};
use crate::api::request::caller::{Owner, ReadOnlyCaller};
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;
use crate::supervisor::{InboxFilter, RuleFilter};

/// Query parameters that filter questions.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct InboxQuery {
    /// Only these workers: ids separated by commas.
    worker_id: Option<String>,
    /// Only workers of this controller.
    controller_id: Option<String>,
    /// Only workers with these tags.
    selector: Option<String>,
}

/// Lists the undecided questions of all workers.
#[cfg_attr(test, utoipa::path(get, path = "/v1/approvals", params(("workerId" = Option<String>, Query, description = "Only those of these workers, ids separated by commas"), ("controllerId" = Option<String>, Query, description = "Only those of its workers"), ("selector" = Option<String>, Query, description = "Only those of workers with these tags, `NAME=VALUE` or `NAME`, separated by commas")), responses((status = 200, description = "`inbox.listed`: the open questions of agents", body = Envelope<Inbox>))))]
pub(in crate::api) async fn list(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    QueryParams(asked): QueryParams<InboxQuery>,
) -> HandlerResult<Inbox> {
    let mut workers = Vec::new();
    for address in asked.worker_id.as_deref().unwrap_or_default().split(',').filter(|id| !id.is_empty()) {
        workers.push(resolve(&api, address).await?);
    }
    let filter = InboxFilter {
        workers,
        controller_id: asked.controller_id,
        selector: asked.selector,
        only: reader.only().cloned(),
    };
    Ok(TypedReply("inbox.listed", supervisor::questions::inbox::inbox(&api.supervisor, filter).await?))
}

/// Returns one question, decided or not.
#[cfg_attr(test, utoipa::path(get, path = "/v1/approvals/{request}", params(("request" = String, Path, description = "The id of the question")), responses((status = 200, description = "`approval.shown`: all of a question, open or not", body = Envelope<ApprovalShown>))))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    PathNames(request_id): PathNames<String>,
) -> HandlerResult<ApprovalShown> {
    if let Some(worker) = supervisor::questions::inbox::asking_worker(&api.supervisor, &request_id).await? {
        reader.may_see(&api, worker.as_str()).await?;
    }
    let shown = supervisor::questions::inbox::show_approval(&api.supervisor, &request_id).await?;
    // The question may have been asked after the first check.
    reader.may_see(&api, shown.item.worker_id.as_str()).await?;
    Ok(TypedReply("approval.shown", shown))
}

/// Decides all open approval requests of a worker.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/approvals", request_body = DecideAll, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`approvals.decided`", body = Envelope<AllDecided>))))]
pub(in crate::api) async fn decide_all(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<DecideAll>,
) -> HandlerResult<AllDecided> {
    Ok(TypedReply(
        "approvals.decided",
        supervisor::questions::inbox::decide_all(&api.supervisor, caller, &worker, request).await?,
    ))
}

/// Query parameters that filter rules.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct RuleListParams {
    /// Only rules that apply to this worker.
    worker_id: Option<String>,
    /// Only rules of this controller.
    controller_id: Option<String>,
}

/// Lists the standing rules that decisions created.
#[cfg_attr(test, utoipa::path(get, path = "/v1/rules", params(("workerId" = Option<String>, Query, description = "Only those that hold for this worker"), ("controllerId" = Option<String>, Query, description = "Only those of this controller")), responses((status = 200, description = "`policy.rules`: what decisions became", body = Envelope<OwnerRules>))))]
pub(in crate::api) async fn rules(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    QueryParams(ruled): QueryParams<RuleListParams>,
) -> HandlerResult<OwnerRules> {
    let worker = match ruled.worker_id {
        Some(address) => Some(resolve(&api, &address).await?),
        None => reader.only().map(|only| only.as_str().to_owned()),
    };
    if let Some(worker) = &worker {
        reader.may_see(&api, worker).await?;
    }
    let filter = RuleFilter { worker, controller_id: ruled.controller_id };
    Ok(TypedReply(
        "policy.rules",
        supervisor::questions::standing_rules::owner_rules(&api.supervisor, filter).await?,
    ))
}

/// Removes a standing rule.
#[cfg_attr(test, utoipa::path(post, path = "/v1/rules/{rule}/remove", params(("rule" = String, Path, description = "Its id")), responses((status = 200, description = "`policy.rule.removed`", body = Envelope<OwnerRule>))))]
pub(in crate::api) async fn remove_rule(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(rule): PathNames<String>,
) -> HandlerResult<OwnerRule> {
    Ok(TypedReply(
        "policy.rule.removed",
        supervisor::questions::standing_rules::remove_owner_rule(&api.supervisor, caller, &rule).await?,
    ))
}
