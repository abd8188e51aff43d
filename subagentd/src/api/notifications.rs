//! Notifications: the sinks, what became of deliveries, and a test. Only the owner may look: an agent could learn where to
//! write, and that the owner is away.

use axum::extract::State;
use subagent_protocol::notification::{DeliveryLog, SinkTests, Sinks, TestSinks};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use super::body::Body;
use super::caller::Owner;
use super::reply::{Outcome, Reply};
use super::state::Api;

/// `GET /v1/notifications`
#[cfg_attr(test, utoipa::path(get, path = "/v1/notifications", responses((status = 200, description = "`notify.listed`: the sinks of the user's config file", body = Envelope<Sinks>))))]
pub(super) async fn list(State(api): State<Api>, _owner: Owner) -> Outcome<Sinks> {
    Ok(Reply("notify.listed", api.deliveries.sinks().await?))
}

/// `GET /v1/notifications/log`
#[cfg_attr(test, utoipa::path(get, path = "/v1/notifications/log", responses((status = 200, description = "`notify.log`: what became of the newest notifications", body = Envelope<DeliveryLog>))))]
pub(super) async fn log(State(api): State<Api>, _owner: Owner) -> Outcome<DeliveryLog> {
    Ok(Reply("notify.log", api.deliveries.log().await?))
}

/// `POST /v1/notifications/test`
#[cfg_attr(test, utoipa::path(post, path = "/v1/notifications/test", request_body = TestSinks, responses((status = 200, description = "`notify.tested`: one result for each sink", body = Envelope<SinkTests>))))]
pub(super) async fn test(
    State(api): State<Api>,
    _owner: Owner,
    Body(request): Body<TestSinks>,
) -> Outcome<SinkTests> {
    Ok(Reply("notify.tested", api.deliveries.test(request).await?))
}
