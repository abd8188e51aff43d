//! Handlers for the daemon itself: description, health and stop.

use std::time::Duration;

use axum::extract::State;
use serde_json::{Value, json};
use subagent_protocol::api::{CheckHealth, DaemonShown, Examination, StopDaemon};
use subagent_protocol::{Code, Error};
use tokio::time::Instant;

#[cfg(test)]
use subagent_protocol::api::Envelope;

use crate::api::request::body::Body;
use crate::api::request::caller::{Owner, ReadOnlyCaller};
use crate::api::response::reply::{HandlerResult, TypedReply};
use crate::api::state::Api;
use crate::lifecycle::MAX_SECONDS;
use crate::supervisor;
use crate::supervisor::HealthCheckOptions;

/// Describes the daemon. All callers may use it, including agents: clients probe with it.
#[cfg_attr(test, utoipa::path(get, path = "/v1/daemon", responses((status = 200, description = "`daemon.shown`", body = Envelope<DaemonShown>))))]
pub(in crate::api) async fn show(State(api): State<Api>) -> TypedReply<DaemonShown> {
    let live_workers = *api.supervisor.live_workers().borrow();
    TypedReply("daemon.shown", DaemonShown { info: api.info.as_ref().clone(), live_workers })
}

/// Examines state that only the daemon can read, for `subagent doctor`. A caller below a worker
/// sees only that worker.
#[cfg_attr(test, utoipa::path(get, path = "/v1/daemon/examination", responses((status = 200, description = "`daemon.examined`", body = Envelope<Examination>))))]
pub(in crate::api) async fn examine(
    State(api): State<Api>,
    reader: ReadOnlyCaller,
) -> HandlerResult<Examination> {
    Ok(TypedReply(
        "daemon.examined",
        supervisor::views::examine::examine(&api.supervisor, reader.only()).await?,
    ))
}

/// Checks the workers' health (`workerHealth` of the status file), and restarts dead runtimes if
/// requested.
#[cfg_attr(test, utoipa::path(post, path = "/v1/daemon/health", request_body = CheckHealth, responses((status = 200, description = "`daemon.health`", body = Envelope<serde_json::Value>))))]
pub(in crate::api) async fn health(
    State(api): State<Api>,
    _: Owner,
    Body(request): Body<CheckHealth>,
) -> HandlerResult<Value> {
    if let Some(seconds) = request.restart_cooldown_seconds.filter(|seconds| *seconds > MAX_SECONDS) {
        let message = format!("restartCooldownSeconds is at most {MAX_SECONDS}");
        return Err(Error::new(Code::InvalidArgument, message)
            .with("restartCooldownSeconds", seconds)
            .into());
    }
    let restart = request.restart_cooldown_seconds.map(Duration::from_secs);
    Ok(TypedReply(
        "daemon.health",
        supervisor::runtimes::health::health(
            &api.supervisor,
            HealthCheckOptions { since: Instant::now(), restart },
        )
        .await,
    ))
}

/// Stops the daemon. The response is sent when the supervisor has finished; the daemon exits right
/// after. To stop the workers too, the handle must be valid for each controller with workers;
/// otherwise nothing is stopped.
#[cfg_attr(test, utoipa::path(post, path = "/v1/daemon/stop", request_body = StopDaemon, responses((status = 200, description = "`daemon.stopped`", body = Envelope<serde_json::Value>))))]
pub(in crate::api) async fn stop(
    State(api): State<Api>,
    Owner(caller): Owner,
    Body(request): Body<StopDaemon>,
) -> HandlerResult<Value> {
    if request.workers {
        api.supervisor.may_stop_all(caller).await?;
    }
    api.control.stop(request.workers).await?;
    Ok(TypedReply("daemon.stopped", json!({ "pid": api.info.process.pid, "workers": request.workers })))
}
