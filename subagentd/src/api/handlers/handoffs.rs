//! Handlers that inspect a worker, hand its work over, or restart it.

use axum::extract::State;
use serde::Deserialize;
use subagent_protocol::api::{CreateHandoff, HandoffReady, Inspected, RestartWorker, WorkerView};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::address::WorkerInPath;
use crate::api::request::body::{Body, QueryParams};
use crate::api::request::caller::{Owner, ReadOnlyCaller};
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;
use crate::supervisor::InspectQuery;

/// Number of events shown by default.
const EVENTS: u32 = 20;

/// Query parameters of an inspection.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct InspectionParams {
    /// Maximum number of events, 1 to 1000.
    events_limit: Option<u32>,
    /// Only events at this time or later.
    since: Option<String>,
    /// Only events of this turn.
    turn_id: Option<String>,
    /// Only events of these comma-separated types, such as `progress.update:KIND`.
    event_types: Option<String>,
}

/// Returns a worker with its last events.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/inspect", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`"), ("eventsLimit" = Option<u64>, Query, description = "How many of the newest events, 1 to 1000"), ("since" = Option<String>, Query, description = "Only events from this time on, ISO 8601"), ("turnId" = Option<String>, Query, description = "Only events of this turn"), ("eventTypes" = Option<String>, Query, description = "Only these types, separated by commas")), responses((status = 200, description = "`worker.inspected`", body = Envelope<Inspected>))))]
pub(in crate::api) async fn inspect(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
    QueryParams(look): QueryParams<InspectionParams>,
) -> HandlerResult<Inspected> {
    reader.may_see(&api, &worker).await?;
    let query = InspectQuery {
        limit: look.events_limit.unwrap_or(EVENTS),
        since: look.since,
        turn_id: look.turn_id,
        event_types: look
            .event_types
            .map(|list| list.split(',').map(|word| word.trim().to_owned()).collect()),
    };
    Ok(TypedReply(
        "worker.inspected",
        supervisor::views::inspect::inspect(&api.supervisor, &worker, query).await?,
    ))
}

/// Writes a handoff snapshot of a worker. The response is sent when both files are in place.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/handoffs", request_body = CreateHandoff, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.handoff.ready`", body = Envelope<HandoffReady>))))]
pub(in crate::api) async fn create(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<CreateHandoff>,
) -> HandlerResult<HandoffReady> {
    Ok(TypedReply(
        "worker.handoff.ready",
        supervisor::handoffs::hand_off(&api.supervisor, caller, &worker, request).await?,
    ))
}

/// Restarts a worker. The response is sent when the new agent has a session.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/restart", request_body = RestartWorker, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`worker.restarted`", body = Envelope<WorkerView>))))]
pub(in crate::api) async fn restart(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<RestartWorker>,
) -> HandlerResult<WorkerView> {
    Ok(TypedReply(
        "worker.restarted",
        supervisor::start::restart::restart_worker(&api.supervisor, caller, &worker, request).await?,
    ))
}
