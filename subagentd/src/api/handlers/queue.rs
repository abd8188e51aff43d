//! Handlers for turns: listing, and managing the queue.

use axum::extract::State;
use serde::Deserialize;
use subagent_protocol::api::{
    GoOn, MoveTurn, QueueResumed, TurnAccepted, TurnDropped, TurnList, TurnMoved, TurnShown,
};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::handlers::turns::sent;
use crate::api::request::address::WorkerInPath;
use crate::api::request::body::{Body, PathNames, QueryParams};
use crate::api::request::caller::{Owner, ReadOnlyCaller};
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

/// Number of ended turns listed by default.
const ENDED: u32 = 10;

/// Query parameters of the list.
#[derive(Deserialize)]
pub(in crate::api) struct TurnListQuery {
    /// Maximum number of ended turns, at most 1000.
    ended: Option<u32>,
}

/// Lists the queued, open and last ended turns of a worker.
#[cfg_attr(test, utoipa::path(get, path = "/v1/workers/{worker}/turns", params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`"), ("ended" = Option<u64>, Query, description = "How many of the newest ended turns, at most 1000")), responses((status = 200, description = "`turn.listed`", body = Envelope<TurnList>))))]
pub(in crate::api) async fn list(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    WorkerInPath(worker): WorkerInPath,
    QueryParams(listing): QueryParams<TurnListQuery>,
) -> HandlerResult<TurnList> {
    reader.may_see(&api, &worker).await?;
    let ended = listing.ended.unwrap_or(ENDED);
    Ok(TypedReply(
        "turn.listed",
        supervisor::turns::queue::list_turns(&api.supervisor, &worker, ended).await?,
    ))
}

/// Returns one turn by its id.
#[cfg_attr(test, utoipa::path(get, path = "/v1/turns/{turn}", params(("turn" = String, Path, description = "Its id")), responses((status = 200, description = "`turn.shown`", body = Envelope<TurnShown>))))]
pub(in crate::api) async fn show(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
    PathNames(turn): PathNames<String>,
) -> HandlerResult<TurnShown> {
    reader.may_see(&api, &supervisor::turns::queue::worker_of_turn(&api.supervisor, &turn).await?).await?;
    Ok(TypedReply("turn.shown", supervisor::turns::queue::show_turn(&api.supervisor, &turn).await?))
}

/// Drops a queued turn.
#[cfg_attr(test, utoipa::path(post, path = "/v1/turns/{turn}/drop", params(("turn" = String, Path, description = "Its id")), responses((status = 200, description = "`turn.dropped`", body = Envelope<TurnDropped>))))]
pub(in crate::api) async fn drop_turn(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(turn): PathNames<String>,
) -> HandlerResult<TurnDropped> {
    Ok(TypedReply("turn.dropped", supervisor::turns::queue::drop_turn(&api.supervisor, caller, &turn).await?))
}

/// Moves a queued turn to another position.
#[cfg_attr(test, utoipa::path(post, path = "/v1/turns/{turn}/move", request_body = MoveTurn, params(("turn" = String, Path, description = "Its id")), responses((status = 200, description = "`turn.moved`", body = Envelope<TurnMoved>))))]
pub(in crate::api) async fn move_turn(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(turn): PathNames<String>,
    Body(request): Body<MoveTurn>,
) -> HandlerResult<TurnMoved> {
    Ok(TypedReply(
        "turn.moved",
        supervisor::turns::queue::move_turn(&api.supervisor, caller, &turn, request).await?,
    ))
}

/// Sends the message of a failed or canceled turn again.
#[cfg_attr(test, utoipa::path(post, path = "/v1/turns/{turn}/retry", request_body = GoOn, params(("turn" = String, Path, description = "Its id")), responses((status = 200, description = "`turn.accepted`, `turn.queued`", body = Envelope<TurnAccepted>))))]
pub(in crate::api) async fn retry(
    State(api): State<Api>,
    Owner(caller): Owner,
    PathNames(turn): PathNames<String>,
    Body(request): Body<GoOn>,
) -> HandlerResult<TurnAccepted> {
    Ok(sent(supervisor::turns::queue::retry_turn(&api.supervisor, caller, &turn, request).await?))
}

/// Resumes the paused queue of a worker, or a parked worker.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/queue/resume", request_body = GoOn, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`queue.resumed`", body = Envelope<QueueResumed>))))]
pub(in crate::api) async fn resume(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<GoOn>,
) -> HandlerResult<QueueResumed> {
    Ok(TypedReply(
        "queue.resumed",
        supervisor::turns::queue::resume_queue(&api.supervisor, caller, &worker, request).await?,
    ))
}
