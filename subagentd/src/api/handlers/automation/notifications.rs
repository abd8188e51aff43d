//! Handlers for notification sinks, their log and a test. Only the owner may read them: an agent
//! could learn addresses to write to, and that the owner is absent.

use axum::extract::State;
use subagent_protocol::notification::{DeliveryLog, SinkTests, Sinks, TestSinks};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::body::Body;
use crate::api::request::caller::Owner;
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;

/// Lists the notification sinks of the user's config.
#[cfg_attr(test, utoipa::path(get, path = "/v1/notifications", responses((status = 200, description = "`notify.listed`: the sinks of the user's config file", body = Envelope<Sinks>))))]
pub(in crate::api) async fn list(State(api): State<Api>, _owner: Owner) -> HandlerResult<Sinks> {
    Ok(TypedReply("notify.listed", api.deliveries.sinks().await?))
}

/// Returns the log of the newest notifications.
#[cfg_attr(test, utoipa::path(get, path = "/v1/notifications/log", responses((status = 200, description = "`notify.log`: what became of the newest notifications", body = Envelope<DeliveryLog>))))]
pub(in crate::api) async fn log(State(api): State<Api>, _owner: Owner) -> HandlerResult<DeliveryLog> {
    Ok(TypedReply("notify.log", api.deliveries.log().await?))
}

/// Sends a test notification to one sink or to all.
#[cfg_attr(test, utoipa::path(post, path = "/v1/notifications/test", request_body = TestSinks, responses((status = 200, description = "`notify.tested`: one result for each sink", body = Envelope<SinkTests>))))]
pub(in crate::api) async fn test(
    State(api): State<Api>,
    _owner: Owner,
    Body(request): Body<TestSinks>,
) -> HandlerResult<SinkTests> {
    Ok(TypedReply("notify.tested", api.deliveries.test(request).await?))
}
