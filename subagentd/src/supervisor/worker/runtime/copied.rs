//! Stops a worker that came with a copied state dir. Must not touch processes: its runtime, agent,
//! session and working folder belong to the original.

use subagent_core::model::{Fact, LifecycleState, RuntimeStatus, WorkerInput};
use subagent_protocol::data::EventData;
use subagent_protocol::data::workers::Because;

use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::ingest::{self, Goal};

/// Reads the copied journal and stops the worker. If interrupted, the next daemon repeats it.
pub(crate) async fn retire_copy(actor: &mut Actor) {
    // Processes with the worker's marker belong to the original.
    actor.runtime.swept = true;
    if !ingest::ingest_or_retry(actor, Goal::End).await {
        return;
    }
    actor.runtime.may_live = false;
    actor.apply(WorkerInput::RuntimeGone { clean: true, rebooted: true, place: None }).await;
    let error = actor.shared.copies.error();
    let reason = error.message.clone();
    let lost = Fact::Event { data: EventData::WorkerLost(Because { reason }), turn: None };
    actor.note(vec![lost, Fact::LastError(Some(error))]).await;
    actor.apply(WorkerInput::Stop).await;
    // Actions of the rules would be for the original's runtime.
    actor.todo.clear();
    actor.worker.link = RuntimeStatus::None;
    if matches!(actor.worker.state, LifecycleState::Stopping(_)) {
        actor.apply(WorkerInput::NothingLeft).await;
    }
    actor.runtime.settled = true;
    tracing::info!(worker = %actor.identity.worker_id, "a copied worker is stopped");
}
