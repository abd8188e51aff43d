//! Stops a worker that came with a copied state dir. Must not touch processes: its runtime, agent,
//! session and working folder belong to the original.

use serde_json::json;
use subagent_core::model::{Fact, LifecycleState, RuntimeStatus, WorkerInput};
use subagent_protocol::event::EventType;

use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::ingest::Goal;

impl Actor {
    /// Reads the copied journal and stops the worker. If interrupted, the next daemon repeats it.
    pub(crate) async fn retire_copy(&mut self) {
        // Processes with the worker's marker belong to the original.
        self.swept = true;
        if !self.ingest_or_retry(Goal::End).await {
            return;
        }
        self.may_live = false;
        self.apply(WorkerInput::RuntimeGone { clean: true, rebooted: true }).await;
        let error = self.shared.copies.error();
        let reason = error.message.clone();
        let lost =
            Fact::Event { event_type: EventType::WorkerLost, data: json!({ "reason": reason }), turn: None };
        self.note(vec![lost, Fact::LastError(Some(error))]).await;
        self.apply(WorkerInput::Stop).await;
        // Actions of the rules would be for the original's runtime.
        self.todo.clear();
        self.worker.link = RuntimeStatus::None;
        if matches!(self.worker.state, LifecycleState::Stopping(_)) {
            self.apply(WorkerInput::NothingLeft).await;
        }
        self.settled = true;
        tracing::info!(worker = %self.worker_id, "a copied worker is stopped");
    }
}
