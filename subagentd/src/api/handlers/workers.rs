//! Handlers for workers: start, list, show, configure and stop.

use axum::extract::State;
use serde::Deserialize;
use subagent_protocol::api::{
    OverviewShown, RenameWorker, SetOptions, StartWorker, StopWorker, TranscriptShown, WorkerDiff,
    WorkerList, WorkerLogs, WorkerOverview, WorkerRenamed, WorkerSet, WorkerShown, WorkerStopped, WorkerView,
};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::address::{WorkerInPath, resolve};
use crate::api::request::body::{Body, QueryParams};
use crate::api::request::caller::{Owner, ReadOnlyCaller};
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;
use crate::supervisor::OverviewFilter;

/// Bytes of a log shown by default.
const TAIL_BYTES: u64 = 64 * 1024;
/// Number of events per transcript page by default.
const PAGE_EVENTS: u32 = 500;

/// Starts a worker. The response is sent when the agent has a session.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers", request_body = StartWorker, responses((status = 200, description = "`worker.started`", body = Envelope<WorkerView>))))]
pub(in crate::api) async fn start(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<StartWorker>,
) -> HandlerResult<WorkerView> {
    let started = supervisor::start::start_worker(&api.supervisor, caller, request).await?;
    api.last_worker.set(started.worker_id.as_str());
    Ok(TypedReply("worker.started", started))
}

/// Query parameters of the list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct WorkerListQuery {
    /// Only workers of this controller.
    controller_id: Option<String>,
    /// Only workers with these tags.
    selector: Option<String>,
    /// Whether to include workers of hidden tasks.
    all: Option<bool>,
    /// Only workers of tasks that this worker submitted.
    parent: Option<String>,
}

/// Lists workers, newest first.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers", params(("controllerId" = Option<String>, Query, description = "Only its workers"), ("selector" = Option<String>, Query, description = "Only those with these tags, `NAME=VALUE` or `NAME`, separated by commas"), ("all" = Option<bool>, Query, description = "Also those of tasks that are not inspectable"), ("parent" = Option<String>, Query, description = "Only those of the tasks that this worker has given: its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.listed`", body = Envelope<WorkerList>))))]
pub(in crate::api) async fn list(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    QueryParams(filter): QueryParams<WorkerListQuery>,
) -> HandlerResult<WorkerList> {
    let WorkerListQuery { controller_id, selector, all, parent } = filter;
    let parent = match parent {
        Some(address) => Some(resolve(&api, &address).await?),
        None => None,
    };
    let all = all.unwrap_or(false);
    let mut list =
        supervisor::views::list_workers(&api.supervisor, controller_id, selector, all, parent).await?;
    if let Some(only) = reader.only() {
        list.items.retain(|item| item.worker_id == *only);
        list.count = list.items.len();
    }
    Ok(TypedReply("worker.listed", list))
}

/// Returns one worker with its state.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.shown`", body = Envelope<WorkerShown>))))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
) -> HandlerResult<WorkerShown> {
    reader.may_see(&api, &worker).await?;
    Ok(TypedReply("worker.shown", supervisor::views::show_worker(&api.supervisor, &worker).await?))
}

/// Returns all workers at one moment, with the matching cursor of `/v1/events`.
#[cfg_attr(test, utoipa::path(get, path = "/v1/overview", params(("controllerId" = Option<String>, Query, description = "Only its workers"), ("selector" = Option<String>, Query, description = "Only those with these tags, `NAME=VALUE` or `NAME`, separated by commas"), ("all" = Option<bool>, Query, description = "Also those of tasks that are not inspectable")), responses((status = 200, description = "`overview.shown`: all workers at one moment, and its position in `/v1/events`", body = Envelope<OverviewShown>))))]
pub(in crate::api) async fn overview_of_all(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    QueryParams(filter): QueryParams<WorkerListQuery>,
) -> HandlerResult<OverviewShown> {
    let filter = OverviewFilter {
        controller_id: filter.controller_id,
        selector: filter.selector,
        all: filter.all.unwrap_or(false),
        only: reader.only().cloned(),
    };
    let environment = api.environment.as_ref().clone();
    Ok(TypedReply(
        "overview.shown",
        supervisor::views::overview::overview(&api.supervisor, filter, environment).await?,
    ))
}

/// Query parameters of a transcript.
#[derive(Deserialize)]
pub(in crate::api) struct TranscriptParams {
    /// Only events before this cursor.
    before: Option<String>,
    /// Number of events per page.
    limit: Option<u32>,
}

/// Returns a page of a worker's transcript.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/transcript", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`"), ("before" = Option<String>, Query, description = "Only what came before this event: `before` of the following page"), ("limit" = Option<u64>, Query, description = "How many events the page has, 1 to 2000; without it 500")), responses((status = 200, description = "`transcript.shown`", body = Envelope<TranscriptShown>))))]
pub(in crate::api) async fn transcript(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
    QueryParams(page): QueryParams<TranscriptParams>,
) -> HandlerResult<TranscriptShown> {
    reader.may_see(&api, &worker).await?;
    let limit = page.limit.unwrap_or(PAGE_EVENTS);
    let shown =
        supervisor::views::transcript::transcript(&api.supervisor, &worker, page.before.as_deref(), limit)
            .await?;
    Ok(TypedReply("transcript.shown", shown))
}

/// Returns the changes of a worker's folder since its first turn.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/diff", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.diff`", body = Envelope<WorkerDiff>))))]
pub(in crate::api) async fn diff(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
) -> HandlerResult<WorkerDiff> {
    reader.may_see(&api, &worker).await?;
    Ok(TypedReply("worker.diff", supervisor::views::diff::diff(&api.supervisor, &worker).await?))
}

/// Returns a summary of a worker's activity.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/overview", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.overview`", body = Envelope<WorkerOverview>))))]
pub(in crate::api) async fn overview(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
) -> HandlerResult<WorkerOverview> {
    reader.may_see(&api, &worker).await?;
    Ok(TypedReply(
        "worker.overview",
        supervisor::views::overview::worker_overview(&api.supervisor, &worker).await?,
    ))
}

/// Stops a worker. The response is sent when none of its processes is left.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/stop", request_body = StopWorker, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.stopped`", body = Envelope<WorkerStopped>))))]
pub(in crate::api) async fn stop(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<StopWorker>,
) -> HandlerResult<WorkerStopped> {
    Ok(TypedReply(
        "worker.stopped",
        supervisor::start::stop::stop_worker(&api.supervisor, caller, &worker, request).await?,
    ))
}

/// Changes options of a living worker, such as its model.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/options", request_body = SetOptions, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.set`", body = Envelope<WorkerSet>))))]
pub(in crate::api) async fn set(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<SetOptions>,
) -> HandlerResult<WorkerSet> {
    Ok(TypedReply(
        "worker.set",
        supervisor::turns::options::set_options(&api.supervisor, caller, &worker, request).await?,
    ))
}

/// Gives a worker another name.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/name", request_body = RenameWorker, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.renamed`", body = Envelope<WorkerRenamed>))))]
pub(in crate::api) async fn rename(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<RenameWorker>,
) -> HandlerResult<WorkerRenamed> {
    Ok(TypedReply(
        "worker.renamed",
        supervisor::addresses::rename(&api.supervisor, caller, &worker, request).await?,
    ))
}

/// Query parameters of a log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct LogTail {
    /// Number of bytes from the end of the log.
    tail_bytes: Option<u64>,
}

/// Returns the end of a worker's log.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/logs", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`"), ("tailBytes" = Option<u64>, Query, description = "How much of its end")), responses((status = 200, description = "`worker.logs`", body = Envelope<WorkerLogs>))))]
pub(in crate::api) async fn logs(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
    QueryParams(tail): QueryParams<LogTail>,
) -> HandlerResult<WorkerLogs> {
    reader.may_see(&api, &worker).await?;
    let bytes = tail.tail_bytes.unwrap_or(TAIL_BYTES);
    Ok(TypedReply("worker.logs", supervisor::views::worker_logs(&api.supervisor, &worker, bytes).await?))
}
