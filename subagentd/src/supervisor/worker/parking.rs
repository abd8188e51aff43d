//! A parked worker goes on when its time is over. The daemon stays for it as long as something waits.

use subagent_protocol::time::Timestamp;

use super::actor::Actor;
use crate::core::Input;
use crate::core::worker::Worker;
use crate::supervisor::entropy;
use crate::supervisor::shared::Waiting;

/// Whether the worker has something to do when its time is over.
fn has_work(worker: &Worker) -> bool {
    worker.is_parked() && (worker.holds_turn() || worker.goes_on_alone())
}

impl Actor {
    /// When the worker goes on by itself. Only in an actor that knows how things stand.
    pub(super) fn unparks_at(&self) -> Option<Timestamp> {
        self.worker.unparks_at().filter(|_| self.settled && self.retry.is_none())
    }

    /// Ends the parking if its time is over.
    pub(super) async fn unpark_if_due(&mut self) {
        if self.unparks_at().is_some_and(|until| until <= entropy::now()) {
            subagent_failpoint::hit("unpark.before_commit");
            self.apply(Input::ParkingOver).await;
            subagent_failpoint::hit("unpark.after_commit");
        }
    }

    /// Keeps a background daemon from ending while the worker is parked and something waits.
    pub(super) fn follow_parking(&mut self) {
        if has_work(&self.worker) != self.parked.is_some() {
            self.parked = has_work(&self.worker).then(|| Waiting::count(&self.shared));
        }
    }
}
