//! The events of all workers, for a reader beside the control plane.

use std::sync::Arc;

use tokio::sync::watch;

use super::shared::{Shared, is_ending};
use crate::store::{RowId, Store};

/// What such a reader needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Stream {
    shared: Arc<Shared>,
    pub(crate) store: Store,
}

impl Stream {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), store: shared.store.clone() }
    }

    /// The newest event that may be read.
    pub(crate) fn news(&self) -> watch::Receiver<i64> {
        self.shared.news.subscribe()
    }

    /// To be called when an event of a worker was stored beside its actor.
    pub(crate) fn noted(&self, worker: RowId, seq: i64) {
        self.shared.noted(worker, seq);
    }

    /// Ends when the daemon is ending.
    pub(crate) async fn is_ending(&self) {
        is_ending(&mut self.shared.ending.subscribe()).await;
    }
}
