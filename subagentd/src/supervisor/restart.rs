//! Giving a worker another runtime because somebody asked for it.

use std::time::Duration;

use subagent_protocol::api::{RestartWorker, WorkerView};
use subagent_protocol::{Code, Error, Result};

use super::spec::Spec;
use super::start::{START_MARGIN, STOP_TIMEOUT};
use super::{Caller, Supervisor, worker};
use crate::core::worker::{Link, Restart, State};
use crate::core::{Input, Worker};
use crate::store::WorkerRow;

impl Supervisor {
    /// Ends the worker's runtime in order, starts another one, and waits until its agent has a session.
    ///
    /// # Errors
    /// `WORKER_NOT_FOUND`, `WORKER_BUSY{state}` for an open turn without `force`, `WORKER_STOPPED`,
    /// `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`; then those of the agent's start.
    pub async fn restart_worker(
        &self,
        caller: Caller,
        worker: &str,
        request: RestartWorker,
    ) -> Result<WorkerView> {
        let row = self.row(worker).await?;
        let (owner, key) = self.guarded(caller, &format!("restart {worker} {}", request.force));
        let handle = self.actor(&row).await?;
        let respond = Box::new(|_: &Worker, _: &[_]| serde_json::Value::Null);
        let input = Input::Restart { force: request.force };
        self.order(&handle, owner, key, input, respond)
            .await
            .map_err(|error| error.with("workerId", worker))?;
        let mut snapshots = handle.snapshot.clone();
        let over =
            snapshots.wait_for(|snapshot| snapshot.settled && snapshot.worker.restart == Restart::None);
        let snapshot = match tokio::time::timeout(STOP_TIMEOUT + startup(&row) + START_MARGIN, over).await {
            Ok(Ok(snapshot)) => snapshot.clone(),
            Ok(Err(_)) => return Err(worker::ending()),
            Err(_) => {
                let message = "the worker's new agent is not ready in time";
                return Err(Error::new(Code::BackendTimeout, message).retryable().with("workerId", worker));
            }
        };
        let state = &snapshot.worker.state;
        let failed = *state == State::Error || snapshot.worker.link != Link::Ready;
        match snapshot.last_error.clone() {
            Some(error) if failed => Err(error.with("workerId", worker)),
            _ => self.show_worker(worker).await,
        }
    }
}

/// How long the agent may take to its session: what the launcher says.
fn startup(row: &WorkerRow) -> Duration {
    // A worker whose spec cannot be read has no actor, and so nothing that could be started.
    let timeouts = serde_json::from_str::<Spec>(&row.spec)
        .map_or_else(|_| subagent_protocol::start::Timeouts::default(), |spec| spec.launcher.timeouts);
    Duration::from_millis(timeouts.startup_ms)
}
