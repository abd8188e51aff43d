//! The events of all workers, for readers outside of the control plane.

use std::sync::Arc;

use tokio::sync::watch;

use crate::store::{RowId, Store};
use crate::supervisor::shared::{SupervisorState, is_ending};

/// Access to the events for such a reader. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EventAccess {
    shared: Arc<SupervisorState>,
    pub(crate) store: Store,
}

impl EventAccess {
    pub(crate) fn of(shared: &Arc<SupervisorState>) -> Self {
        Self { shared: Arc::clone(shared), store: shared.store.clone() }
    }

    /// Watches the newest readable event.
    pub(crate) fn news(&self) -> watch::Receiver<i64> {
        self.shared.changes.news.subscribe()
    }

    /// Records an event that was stored outside of the worker's actor.
    pub(crate) fn noted(&self, worker: RowId, seq: i64) {
        self.shared.changes.noted(worker, seq);
    }

    /// Returns when the daemon is ending.
    pub(crate) async fn is_ending(&self) {
        is_ending(&mut self.shared.ending.subscribe()).await;
    }
}
