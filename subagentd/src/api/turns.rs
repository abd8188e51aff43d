//! Turns: sending a message, canceling what runs.

use axum::extract::State;
use subagent_protocol::api::{CancelTurn, SendTurn, TurnAccepted, TurnCanceled};

use super::Api;
use super::body::{Body, Names};
use super::caller::Owner;
use super::reply::{Outcome, Reply};

/// `POST /v1/workers/{worker}/turns`
pub(super) async fn send(
    State(api): State<Api>,
    Owner(caller): Owner,
    Names(worker): Names<String>,
    Body(request): Body<SendTurn>,
) -> Outcome<TurnAccepted> {
    Ok(Reply("turn.accepted", api.supervisor.send(caller, &worker, request).await?))
}

/// `POST /v1/workers/{worker}/cancel`
pub(super) async fn cancel(
    State(api): State<Api>,
    Owner(caller): Owner,
    Names(worker): Names<String>,
    Body(request): Body<CancelTurn>,
) -> Outcome<TurnCanceled> {
    Ok(Reply("turn.canceled", api.supervisor.cancel(caller, &worker, request).await?))
}
