//! Notification channels to the actors of workers. An actor re-checks everything on start, so a
//! change before that is not lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::store::RowId;

/// A watched value for each worker with an actor. Cheap to clone.
pub(super) struct PerWorker<T>(Arc<Mutex<HashMap<RowId, watch::Sender<T>>>>);

impl<T> Clone for PerWorker<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for PerWorker<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Default> PerWorker<T> {
    /// Subscribes to the value of a worker.
    pub(super) fn of(&self, id: RowId) -> watch::Receiver<T> {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.entry(id).or_default().subscribe()
    }

    /// Changes the values of workers. Call it after the commit of what their actors read.
    pub(super) fn update(&self, ids: impl IntoIterator<Item = RowId>, change: impl Fn(&mut T)) {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in ids.into_iter().filter_map(|id| workers.get(&id)) {
            worker.send_modify(&change);
        }
    }

    /// Drops the value of a stopped worker.
    pub(super) fn forget(&self, id: RowId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_heard_by_its_worker_alone_until_it_is_forgotten() {
        let values = PerWorker::<u64>::default();
        let (one, other) = (values.of(RowId(1)), values.of(RowId(2)));
        values.update([RowId(1), RowId(3)], |value| *value += 1);
        assert!(one.has_changed().unwrap() && !other.has_changed().unwrap());
        values.forget(RowId(1));
        assert!(one.has_changed().is_err(), "its channel is closed");
    }
}
