//! Resumes a parked worker when its time is over.

use subagent_core::model::WorkerInput;
use subagent_protocol::time::Timestamp;

use super::actor::Actor;
use crate::supervisor::entropy;

/// Returns when the worker resumes by itself. `None` until the actor is settled.
pub(crate) fn unparks_at(actor: &Actor) -> Option<Timestamp> {
    actor.worker.unparks_at().filter(|_| actor.serves())
}

/// Ends the parking if its time is over.
pub(crate) async fn unpark_if_due(actor: &mut Actor) {
    if unparks_at(actor).is_some_and(|until| until <= entropy::now()) {
        subagent_failpoint::hit("unpark.before_commit");
        actor.apply(WorkerInput::ParkingOver).await;
        subagent_failpoint::hit("unpark.after_commit");
    }
}
