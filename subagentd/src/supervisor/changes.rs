//! Signals of changes, for the parts of the daemon that wait for them.

use tokio::sync::{Notify, watch};

use super::per_worker::PerWorker;
use crate::store::RowId;

/// Counters and numbers whose changes wake those who read them.
#[derive(Default)]
pub(crate) struct ChangeSignals {
    /// Sequence number of the newest readable event of all workers.
    pub(super) news: watch::Sender<i64>,
    /// Counts changes of owner rules.
    pub(super) rules: watch::Sender<u64>,
    /// Counts changes of shared budgets.
    pub(super) budgets: watch::Sender<u64>,
    /// Notifies actors that have tasks or work on one.
    pub(super) bells: PerWorker<u64>,
    /// The newest event of a worker that was stored outside of its actor.
    pub(super) noted: PerWorker<i64>,
    /// Notified when a worker was marked as removed.
    pub(super) removals: Notify,
    /// Counts parked workers with queued work.
    pub(super) parked: watch::Sender<usize>,
}

impl ChangeSignals {
    /// Records an event that was stored outside of the worker's actor. Readers may read up to it.
    pub(super) fn noted(&self, worker: RowId, seq: i64) {
        self.noted.update([worker], |newest| *newest = seq.max(*newest));
        self.announce(seq);
    }

    /// Notifies the actors of these workers that a task changed.
    pub(super) fn wake_actors(&self, ids: impl IntoIterator<Item = RowId>) {
        self.bells.update(ids, |rung| *rung += 1);
    }

    /// Notifies readers of all workers' events that they may read up to this one.
    pub(super) fn announce(&self, seq: i64) {
        self.news.send_if_modified(|newest| {
            let is_news = seq > *newest;
            *newest = seq.max(*newest);
            is_news
        });
    }
}

/// Counts a parked worker with queued work until it is dropped.
pub(super) struct ParkedWorkGuard(watch::Sender<usize>);

impl ParkedWorkGuard {
    pub(super) fn count(changes: &ChangeSignals) -> Self {
        changes.parked.send_modify(|parked| *parked += 1);
        Self(changes.parked.clone())
    }
}

impl Drop for ParkedWorkGuard {
    fn drop(&mut self) {
        self.0.send_modify(|parked| *parked = parked.saturating_sub(1));
    }
}
