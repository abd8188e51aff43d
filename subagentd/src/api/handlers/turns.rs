//! Handlers that send messages and cancel running turns.

use axum::extract::State;
use subagent_protocol::api::{
    CancelChildSession, CancelTurn, ChildSessionCanceled, SendTurn, TurnAccepted, TurnCanceled,
};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::address::WorkerInPath;
use crate::api::request::body::Body;
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

/// Sends a message to a worker, which begins a turn or queues it.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/turns", request_body = SendTurn, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`turn.accepted`, `turn.queued`", body = Envelope<TurnAccepted>))))]
pub(in crate::api) async fn send(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<SendTurn>,
) -> HandlerResult<TurnAccepted> {
    Ok(sent(supervisor::turns::send(&api.supervisor, caller, &worker, request).await?))
}

/// Returns the response for a begun or queued turn.
pub(in crate::api) fn sent(accepted: TurnAccepted) -> TypedReply<TurnAccepted> {
    let kind = if accepted.position.is_some() { "turn.queued" } else { "turn.accepted" };
    TypedReply(kind, accepted)
}

/// Cancels the open turn of a worker. The response is sent when the turn has ended.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/cancel", request_body = CancelTurn, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`turn.canceled`", body = Envelope<TurnCanceled>))))]
pub(in crate::api) async fn cancel(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<CancelTurn>,
) -> HandlerResult<TurnCanceled> {
    Ok(TypedReply(
        "turn.canceled",
        supervisor::turns::cancel(&api.supervisor, caller, &worker, request).await?,
    ))
}

/// Cancels a child session that the agent runs below its own.
#[cfg_attr(test, utoipa::path(post, path = "/v1/workers/{worker}/child-sessions/cancel", request_body = CancelChildSession, params(("worker" = String, Path, description = "Its id, its name, the beginning of its id, or `@last`")), responses((status = 200, description = "`childSession.canceled`: the agent was told", body = Envelope<ChildSessionCanceled>))))]
pub(in crate::api) async fn cancel_child(
    State(api): State<Api>,
    Owner(caller): Owner,
    WorkerInPath(worker): WorkerInPath,
    Body(request): Body<CancelChildSession>,
) -> HandlerResult<ChildSessionCanceled> {
    Ok(TypedReply(
        "childSession.canceled",
        supervisor::turns::child_cancel::cancel_child(&api.supervisor, caller, &worker, request).await?,
    ))
}
