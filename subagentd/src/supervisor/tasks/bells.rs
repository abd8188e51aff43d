//! Bells: who stores what concerns another worker's actor wakes that one, and nobody else.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::store::RowId;

/// One for each worker that has an actor. Nobody else hears anything: an actor looks at everything when it begins.
#[derive(Default)]
pub(in crate::supervisor) struct Bells(Mutex<HashMap<RowId, watch::Sender<u64>>>);

impl Bells {
    /// The bell of a worker.
    pub(in crate::supervisor) fn of(&self, id: RowId) -> watch::Receiver<u64> {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bells.entry(id).or_default().subscribe()
    }

    /// To be called when what they are to look at is committed.
    pub(in crate::supervisor) fn ring(&self, ids: impl IntoIterator<Item = RowId>) {
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for bell in ids.into_iter().filter_map(|id| bells.get(&id)) {
            bell.send_modify(|rung| *rung += 1);
        }
    }

    /// The worker is stopped: nothing concerns it any more.
    pub(in crate::supervisor) fn forget(&self, id: RowId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_is_heard_by_its_worker_alone_until_nothing_concerns_it_any_more() {
        let bells = Bells::default();
        let (one, other) = (bells.of(RowId(1)), bells.of(RowId(2)));
        bells.ring([RowId(1), RowId(3)]);
        assert!(one.has_changed().unwrap() && !other.has_changed().unwrap());
        bells.forget(RowId(1));
        assert!(one.has_changed().is_err(), "nobody rings any more");
    }
}
