//! Handlers for copies of the database.

use axum::extract::State;
use subagent_protocol::api::{BackUp, BackedUp};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::body::Body;
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::supervisor;

/// Writes a backup of the database to a file.
#[cfg_attr(test, utoipa::path(post, path = "/v1/daemon/backup", request_body = BackUp, responses((status = 200, description = "`state.backed_up`", body = Envelope<BackedUp>))))]
pub(in crate::api) async fn create(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<BackUp>,
) -> HandlerResult<BackedUp> {
    Ok(TypedReply(
        "state.backed_up",
        supervisor::cleanup::backups::back_up(&api.supervisor, caller, request).await?,
    ))
}
