//! Restarts a worker's runtime on request.

use serde_json::{Value, json};
use subagent_core::model::{LifecycleState, Restart, Worker, WorkerInput};
use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::api::{RestartWorker, WorkerView};
use subagent_protocol::{Code, Error, Result};

use super::environment::AgentEnvironment;
use super::spec::startup;
use super::spec::{START_MARGIN, STOP_TIMEOUT};
use crate::store::{WorkerRow, events};
use crate::supervisor::orders::RequestTarget;
use crate::supervisor::worker::Snapshot;
use crate::supervisor::{ApiCaller, Supervisor};

/// Ends the worker's runtime in order, starts another one, and waits until its agent has a
/// session.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `WORKER_BUSY{state}` for an open turn without `force`, `WORKER_STOPPED`,
/// `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`, `ENV_REQUIRED`, `INVALID_WORKER_STATE` if a
/// duplicate is accepted and the place answers, `FENCED`; then those of the agent's start.
pub(crate) async fn restart_worker(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    mut request: RestartWorker,
) -> Result<WorkerView> {
    let environment = AgentEnvironment::taken(&mut request.env, &mut request.mcp_servers)?;
    let row = supervisor.row(worker).await?;
    let (owner, key) = supervisor.guarded(caller, &format!("restart {worker}"), &request)?;
    match supervisor
        .reach(&row, &owner, &key)
        .await
        .map_err(|error| supervisor.shared.refused(&row, error))?
    {
        RequestTarget::Replayed(response) => restarted(supervisor, &row, since(&response), None).await,
        RequestTarget::Live(handle) => {
            let snapshot = handle.follow();
            let respond = Box::new(move |_: &Worker, _: &[_]| json!({"since": snapshot.borrow().last_seq}));
            let input = WorkerInput::Restart { force: request.force, beside: request.accept_duplicate };
            let response = supervisor
                .order_with(&handle, Some(owner), key, input, respond, environment)
                .await
                .map_err(|error| match error.code {
                    Code::WorkerBusy | Code::WorkerStopped | Code::EnvRequired => {
                        error.with("workerId", worker)
                    }
                    _ => error,
                })?;
            let mut snapshots = handle.follow();
            let over = snapshots.wait_for(|snapshot| {
                snapshot.place.fenced.is_some()
                    || (snapshot.settled && snapshot.worker.restart == Restart::None)
            });
            let limit = STOP_TIMEOUT + startup(&row) + START_MARGIN;
            let snapshot = match tokio::time::timeout(limit, over).await {
                Ok(Ok(snapshot)) => snapshot.clone(),
                Ok(Err(_)) => return Err(supervisor.abandoned()),
                Err(_) => {
                    let message = "the worker's new agent is not ready in time";
                    let error = Error::new(Code::BackendTimeout, message).retryable();
                    return Err(error.with("workerId", worker));
                }
            };
            if let Some(error) = &snapshot.place.fenced {
                return Err(error.clone().with("workerId", worker));
            }
            restarted(supervisor, &row, since(&response), Some(&snapshot)).await
        }
    }
}

/// Returns the outcome of a restart: a view if an agent had a session after the order, else the
/// error of the new runtime. Earlier and later failures do not count. `now` is `None` for a
/// worker that was stopped before this daemon started.
async fn restarted(
    supervisor: &Supervisor,
    row: &WorkerRow,
    since: i64,
    now: Option<&Snapshot>,
) -> Result<WorkerView> {
    let id = row.id;
    let begun = supervisor
        .shared
        .store
        .read(move |connection| events::has_begun_since(connection, id, since))
        .await?;
    let view = supervisor.view(&supervisor.row(row.worker_id.as_str()).await?).await;
    let error = match now {
        _ if begun => return Ok(view),
        Some(now) if !matches!(now.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) => {
            let lost = || Error::new(Code::RuntimeLost, "the new runtime is gone; try again").retryable();
            // The error was cleared when the new runtime started, so it belongs to that one.
            now.last_error.clone().unwrap_or_else(lost)
        }
        _ => stopped_for_good(view.state),
    };
    Err(error.with("workerId", row.worker_id.as_str()))
}

/// Returns the last event before the order.
fn since(response: &Value) -> i64 {
    response["since"].as_i64().unwrap_or(0)
}
