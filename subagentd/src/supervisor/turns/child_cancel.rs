//! Cancels a child session of a worker's agent, for the owner.

use std::time::Duration;

use subagent_core::model::LifecycleState;
use subagent_core::rules::reasons::stopped_for_good;
use subagent_protocol::Result;
use subagent_protocol::api::{CancelChildSession, ChildSessionCanceled};
use subagent_protocol::state::WorkerState;
use tokio::sync::oneshot;

use crate::store::{Durability, requests};
use crate::supervisor::orders::{RequestTarget, read_response};
use crate::supervisor::worker::{self, ActorMessage, ChildCancel};
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// The runtime answers within this time, or counts as unreachable.
const LIMIT: Duration = Duration::from_secs(10);

/// Asks the agent to cancel a child session. Returns when the agent has been notified.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `WORKER_STOPPED`, `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`.
/// `SESSION_NOT_FOUND{sessionId}` if the agent did not report a cancelable session with this
/// id. `INVALID_WORKER_STATE` for a runtime of a version without this command.
/// `BACKEND_SOCKET_UNREACHABLE`, `BACKEND_UNAVAILABLE`.
pub(crate) async fn cancel_child(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request: CancelChildSession,
) -> Result<ChildSessionCanceled> {
    let row = supervisor.row(worker).await?;
    let (owner, key) = supervisor.guarded(caller, &format!("cancel child {worker}"), &request)?;
    let handle = match supervisor.reach(&row, &owner, &key).await? {
        RequestTarget::Live(handle) => handle,
        RequestTarget::Replayed(response) => return read_response(response),
    };
    if let Some(response) = supervisor.recall(&key).await? {
        return read_response(response);
    }
    supervisor.check_owner_of(&owner, &row).await?;
    let (reply, answer) = oneshot::channel();
    let session_id = request.session_id;
    let sent = handle.send(ActorMessage::CancelChild(ChildCancel { session_id: session_id.clone(), reply }));
    let outcome = match tokio::time::timeout(LIMIT, answer).await {
        Ok(Ok(outcome)) => outcome,
        // The runtime is lost, or the worker's actor has ended.
        Ok(Err(_)) if handle.snapshot.borrow().worker.state == LifecycleState::Stopped => {
            Err(stopped_for_good(WorkerState::Stopped))
        }
        Ok(Err(_)) => Err(sent.err().unwrap_or_else(worker::broken)),
        Err(_) => Err(worker::broken()),
    };
    outcome.map_err(|error| error.with("workerId", worker).with("sessionId", session_id.as_str()))?;
    let response = ChildSessionCanceled { worker_id: row.worker_id, session_id };
    let now = entropy::now();
    let kept = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
        Ok(requests::once(tx, key.as_ref(), now, move |_| Ok(response))?.0)
    });
    kept.await
}
