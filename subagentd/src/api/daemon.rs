//! The daemon itself: what it is, how its workers are, and its end.

use axum::extract::State;
use serde_json::{Value, json};
use subagent_protocol::api::{DaemonInfo, StopDaemon};

#[cfg(test)]
use subagent_protocol::api::Envelope;

use super::Api;
use super::body::Body;
use super::caller::Owner;
use super::reply::{Outcome, Reply};

/// `GET /v1/daemon`. Anybody may ask, agents included: clients probe with it.
#[cfg_attr(test, utoipa::path(get, path = "/v1/daemon", responses((status = 200, description = "`daemon.shown`", body = Envelope<DaemonInfo>))))]
pub(super) async fn show(State(api): State<Api>) -> Reply<DaemonInfo> {
    Reply("daemon.shown", api.info.as_ref().clone())
}

/// `GET /v1/daemon/health`: the `workerHealth` of the status file.
#[cfg_attr(test, utoipa::path(get, path = "/v1/daemon/health", responses((status = 200, description = "`daemon.health`", body = Envelope<serde_json::Value>))))]
pub(super) async fn health(State(api): State<Api>, _: Owner) -> Outcome<Value> {
    Ok(Reply("daemon.health", api.supervisor.health().await?))
}

/// `POST /v1/daemon/stop`. Answers when the supervisor is done; the daemon ends right after.
#[cfg_attr(test, utoipa::path(post, path = "/v1/daemon/stop", request_body = StopDaemon, responses((status = 200, description = "`daemon.stopped`", body = Envelope<serde_json::Value>))))]
pub(super) async fn stop(
    State(api): State<Api>,
    _: Owner,
    Body(request): Body<StopDaemon>,
) -> Outcome<Value> {
    api.control.stop(request.workers).await?;
    Ok(Reply("daemon.stopped", json!({ "pid": api.info.process.pid, "workers": request.workers })))
}
