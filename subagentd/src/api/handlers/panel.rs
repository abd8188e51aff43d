//! The permission check for a panel, made before it opens a browser session.

use subagent_protocol::api::PanelPermitted;

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};

/// Checks that a panel may open a browser session for the caller.
#[cfg_attr(test, utoipa::path(post, path = "/v1/panel/sessions", responses((status = 200, description = "`panel.permitted`: neither the client nor a process on whose behalf it asks is below a worker", body = Envelope<PanelPermitted>))))]
pub(in crate::api) async fn permit(Owner(_): Owner) -> HandlerResult<PanelPermitted> {
    Ok(TypedReply("panel.permitted", PanelPermitted {}))
}
