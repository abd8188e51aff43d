//! What the actor shows to the rest of the daemon: its snapshots, and whether it has parked work.

use std::sync::Arc;

use subagent_core::model::{Fact, Worker};
use subagent_protocol::Error;
use tokio::sync::watch;

use super::snapshot::Snapshot;
use crate::supervisor::shared::{ParkedWorkGuard, SupervisorState};

/// The published state of an actor.
pub(super) struct Published {
    pub(super) snapshots: watch::Sender<Arc<Snapshot>>,
    /// The newest event that was stored outside of this actor.
    pub(super) noted: watch::Receiver<i64>,
    pub(super) last_seq: i64,
    pub(super) last_error: Option<Error>,
    /// Present while the worker is parked with queued work.
    parked: Option<ParkedWorkGuard>,
}

impl Published {
    pub(super) fn new(snapshot: Snapshot, noted: watch::Receiver<i64>) -> Self {
        Self {
            noted,
            last_seq: snapshot.last_seq,
            last_error: snapshot.last_error.clone(),
            parked: None,
            snapshots: watch::Sender::new(Arc::new(snapshot)),
        }
    }

    /// Updates the state from committed facts and their newest event.
    pub(super) fn see(&mut self, facts: &[Fact], last_seq: Option<i64>) {
        self.last_seq = self.last_seq.max(last_seq.unwrap_or(0));
        for fact in facts {
            if let Fact::LastError(error) = fact {
                self.last_error.clone_from(error);
            }
        }
    }

    /// Takes the newest event that was stored outside of this actor.
    pub(super) fn see_noted(&mut self) {
        self.last_seq = self.last_seq.max(*self.noted.borrow_and_update());
    }

    /// Keeps a background daemon running while the worker is parked with queued work.
    pub(super) fn follow_parking(&mut self, worker: &Worker, shared: &Arc<SupervisorState>) {
        let has_work = worker.is_parked() && (worker.holds_turn() || worker.goes_on_alone());
        if has_work != self.parked.is_some() {
            self.parked = has_work.then(|| ParkedWorkGuard::count(shared));
        }
    }
}
