//! Resumes a parked worker when its time is over. The daemon keeps running while parked work is
//! queued.

use subagent_core::model::{Worker, WorkerInput};
use subagent_protocol::time::Timestamp;

use crate::supervisor::entropy;
use crate::supervisor::shared::ParkedWorkGuard;
use crate::supervisor::worker::actor::Actor;

/// Returns whether a parked worker has work to resume.
fn has_work(worker: &Worker) -> bool {
    worker.is_parked() && (worker.holds_turn() || worker.goes_on_alone())
}

impl Actor {
    /// Returns when the worker resumes by itself. `None` until the actor is settled.
    pub(crate) fn unparks_at(&self) -> Option<Timestamp> {
        self.worker.unparks_at().filter(|_| self.settled && self.retry.is_none())
    }

    /// Ends the parking if its time is over.
    pub(crate) async fn unpark_if_due(&mut self) {
        if self.unparks_at().is_some_and(|until| until <= entropy::now()) {
            subagent_failpoint::hit("unpark.before_commit");
            self.apply(WorkerInput::ParkingOver).await;
            subagent_failpoint::hit("unpark.after_commit");
        }
    }

    /// Keeps a background daemon running while the worker is parked with queued work.
    pub(crate) fn follow_parking(&mut self) {
        if has_work(&self.worker) != self.parked.is_some() {
            self.parked = has_work(&self.worker).then(|| ParkedWorkGuard::count(&self.shared));
        }
    }
}
