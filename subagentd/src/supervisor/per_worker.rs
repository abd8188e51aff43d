//! Channels to the actors of workers, one for each that has an actor. An actor looks at everything when it begins, so a
//! change that no actor hears is not lost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::store::RowId;

/// A value for each worker. Cheap to clone.
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
    /// The value of a worker, for its actor.
    pub(super) fn of(&self, id: RowId) -> watch::Receiver<T> {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.entry(id).or_default().subscribe()
    }

    /// Changes the values of workers, to be called when what their actors look at is committed.
    pub(super) fn update(&self, ids: impl IntoIterator<Item = RowId>, change: impl Fn(&mut T)) {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in ids.into_iter().filter_map(|id| workers.get(&id)) {
            worker.send_modify(&change);
        }
    }

    /// The worker is stopped: it has no actor any more.
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
