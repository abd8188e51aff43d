//! Health of the workers' runtimes for the status file of `subagentd run`. Restarts dead runtimes
//! on request.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_core::model::{Hibernation, LifecycleState};
use subagent_protocol::frame::FromRuntime;
use subagent_protocol::state::Desired;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::link::RuntimeConnection;
use super::place;
use crate::supervisor::shared::ending_error;
use crate::supervisor::worker::{ActorHandle, ActorMessage, Revival, RevivalOutcome, Snapshot};
use crate::supervisor::{Supervisor, entropy};

/// Time limit for an answer of a runtime.
const PING: Duration = Duration::from_millis(500);
/// Time limit for the restart of a runtime during a health check.
const RESTART: Duration = Duration::from_secs(8);

/// Options of a health check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HealthCheckOptions {
    /// Restarts after this time are reported as done by this check.
    pub since: Instant,
    /// Restarts dead runtimes; this is the minimum time between two attempts for a runtime.
    pub restart: Option<Duration>,
}

/// JSON of a worker, and its verdict for the summary.
struct WorkerHealth {
    json: Value,
    verdict: HealthVerdict,
}

#[derive(PartialEq, Eq)]
enum HealthVerdict {
    Healthy,
    Unhealthy,
    Restarted,
    RestartFailed,
}

/// State of a runtime's process and socket.
struct RuntimeProbe {
    /// Whether the process is alive, if its pid is known.
    pid_alive: Option<bool>,
    socket_exists: bool,
    ping: Result<()>,
}

/// Returns the object `workerHealth`: every worker that should have a live runtime, and whether
/// its runtime answers.
pub(crate) async fn health(supervisor: &Supervisor, look: HealthCheckOptions) -> Value {
    let mut handles = supervisor.roster.all();
    handles.sort_by_key(|handle| handle.id.0);
    let looks = handles.iter().map(|handle| look_at(supervisor, handle, look));
    let items: Vec<WorkerHealth> =
        futures_util::future::join_all(looks).await.into_iter().flatten().collect();
    let count = |verdict: HealthVerdict| items.iter().filter(|item| item.verdict == verdict).count();
    let (checked, healthy) = (items.len(), count(HealthVerdict::Healthy));
    let summary = json!({
        "checked": checked, "healthy": healthy, "unhealthy": checked - healthy,
        "restarted": count(HealthVerdict::Restarted), "restartFailed": count(HealthVerdict::RestartFailed),
    });
    let items: Vec<Value> = items.into_iter().map(|item| item.json).collect();
    json!({ "checkedAt": entropy::now(), "summary": summary, "items": items })
}

/// Checks a worker. Returns `None` if it needs no runtime now: it is new, in error, stopping or
/// hibernating, or never had a runtime.
async fn look_at(
    supervisor: &Supervisor,
    handle: &ActorHandle,
    look: HealthCheckOptions,
) -> Option<WorkerHealth> {
    let before = handle.settle().await;
    if !before.had_runtime
        || before.worker.hibernation != Hibernation::None
        || !matches!(
            before.worker.state,
            LifecycleState::Idle | LifecycleState::Turn(_) | LifecycleState::Local(_)
        )
    {
        return None;
    }
    let (setup, worker) = (&supervisor.shared.setup, handle.worker_id.as_str());
    let socket = place::socket_path(setup, handle.placement.as_ref(), worker).ok()?;
    let found = match handle.placement {
        None => find(&before, &socket).await,
        Some(_) => of_place(&before, &socket),
    };
    let mut attempt =
        before.revival.as_ref().filter(|revival| revival.begun >= look.since).map(|last| last.begun);
    if found.ping.is_ok() && attempt.is_none() {
        let item = json!({
            "workerId": handle.worker_id, "state": before.public_state(), "healthy": true,
        });
        return Some(WorkerHealth { json: item, verdict: HealthVerdict::Healthy });
    }
    let deadline = Instant::now() + RESTART;
    let mut too_early = false;
    if attempt.is_none()
        && before.runtime.is_none()
        && let Some(cooldown) = look.restart
    {
        let asked = Instant::now();
        match demand(handle, cooldown, deadline).await {
            Some(RevivalOutcome::Begun) => attempt = Some(asked),
            Some(RevivalOutcome::TooEarly) => too_early = true,
            Some(RevivalOutcome::Needless) | None => {}
        }
    }
    let outcome = match attempt {
        Some(begun) => Some(outcome(handle, begun, deadline).await),
        None => None,
    };
    Some(unhealthy(supervisor, handle, &socket, &found, outcome, too_early))
}

fn unhealthy(
    supervisor: &Supervisor,
    handle: &ActorHandle,
    socket: &Path,
    found: &RuntimeProbe,
    outcome: Option<Result<()>>,
    too_early: bool,
) -> WorkerHealth {
    let now = handle.snapshot.borrow().clone();
    let verdict = match &outcome {
        Some(Ok(())) => HealthVerdict::Restarted,
        Some(Err(_)) => HealthVerdict::RestartFailed,
        None => HealthVerdict::Unhealthy,
    };
    // If the runtime was restarted meanwhile, `found` describes its successor.
    let restarted = verdict == HealthVerdict::Restarted;
    let reason = if restarted && found.ping.is_ok() {
        json!({"pidAlive": false, "socketExists": false, "pingError": null})
    } else {
        json!({
            "pidAlive": found.pid_alive, "socketExists": found.socket_exists,
            "pingError": found.ping.as_ref().err(),
        })
    };
    let mut item = json!({
        "workerId": handle.worker_id, "state": now.public_state(), "healthy": false,
        "restarted": restarted, "reason": reason,
    });
    if too_early {
        item["cooldown"] = true.into();
    }
    if let Some(Err(error)) = &outcome {
        item["error"] = json!(error);
    }
    if let Some(runtime) = now.runtime {
        let log =
            place::log_path(&supervisor.shared.setup, handle.placement.as_ref(), handle.worker_id.as_str());
        item["runtime"] = json!({
            "pid": runtime.pid, "socketPath": socket.display().to_string(), "logPath": log.display().to_string(),
        });
    }
    WorkerHealth { json: item, verdict }
}

async fn find(snapshot: &Snapshot, socket: &Path) -> RuntimeProbe {
    let known = snapshot.runtime.or(snapshot.last_runtime);
    let unreachable = |error: std::io::Error| {
        Error::new(Code::BackendSocketUnreachable, format!("the runtime cannot be reached: {error}"))
            .with("socketPath", socket.display().to_string())
    };
    let ping = timeout(PING, ping(socket)).await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    let ping = ping.map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => {
            let message = format!("the runtime gave no sign of life in {} ms", PING.as_millis());
            Error::new(Code::BackendTimeout, message).with("socketPath", socket.display().to_string())
        }
        _ => unreachable(error),
    });
    RuntimeProbe {
        pid_alive: known.map(|_| snapshot.runtime.is_some()),
        socket_exists: socket.exists(),
        ping,
    }
}

/// Returns what the stream to a placed runtime says.
fn of_place(snapshot: &Snapshot, socket: &Path) -> RuntimeProbe {
    let known = snapshot.runtime.or(snapshot.last_runtime);
    let ping = match (&snapshot.unreachable, snapshot.runtime) {
        (Some(state), _) => Err(state.reason.clone().unwrap_or_else(|| {
            Error::new(Code::PlacementUnreachable, "the place of the worker does not answer").retryable()
        })),
        (None, _) if snapshot.unresponsive => {
            Err(Error::new(Code::BackendTimeout, "the runtime is alive but does not answer"))
        }
        (None, None) => Err(Error::new(Code::BackendSocketUnreachable, "no runtime is known there")
            .with("socketPath", socket.display().to_string())),
        (None, Some(_)) => Ok(()),
    };
    RuntimeProbe { pid_alive: known.map(|_| snapshot.runtime.is_some()), socket_exists: false, ping }
}

/// Checks that a runtime answers. Every runtime refuses a hello of generation 0, so the check does
/// not disturb its connection.
async fn ping(socket: &Path) -> std::io::Result<()> {
    let mut link = RuntimeConnection::connect(socket, 0, Desired::Run).await?;
    match link.next().await {
        Some(FromRuntime::Refused { .. } | FromRuntime::Hello(_)) => Ok(()),
        Some(_) | None => Err(std::io::ErrorKind::ConnectionReset.into()),
    }
}

async fn demand(handle: &ActorHandle, cooldown: Duration, deadline: Instant) -> Option<RevivalOutcome> {
    let (reply, answer) = oneshot::channel();
    handle.send(ActorMessage::Revive { cooldown, reply }).ok()?;
    timeout_at(deadline, answer).await.ok()?.ok()
}

/// Waits for the outcome of the restart that began at this time or later.
async fn outcome(handle: &ActorHandle, begun: Instant, deadline: Instant) -> Result<()> {
    let mut snapshots = handle.follow();
    let over = |snapshot: &std::sync::Arc<Snapshot>| {
        snapshot.revival.as_ref().is_some_and(|last| {
            let over = match &last.outcome {
                Some(Ok(())) => true,
                // The next check would report a runtime that is still exiting as alive.
                Some(Err(_)) => snapshot.runtime.is_none(),
                None => false,
            };
            last.begun >= begun && over
        })
    };
    match timeout_at(deadline, snapshots.wait_for(over)).await {
        Ok(Ok(snapshot)) => match &snapshot.revival {
            Some(Revival { outcome: Some(outcome), .. }) => outcome.clone(),
            _ => Ok(()),
        },
        Ok(Err(_)) => Err(ending_error()),
        Err(_) => {
            let message =
                format!("the agent was not ready within {} s; it goes on starting", RESTART.as_secs());
            Err(Error::new(Code::BackendTimeout, message).retryable())
        }
    }
}
