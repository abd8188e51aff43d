//! How many connections to one place are being opened at a time, and how many are open. A host that
//! comes back has many workers, and each client of ssh takes its part of this machine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Maximum number of connections to one placement that have not been answered yet.
pub(crate) const DIALS_AT_ONCE: usize = 16;
/// Maximum number of connections to one placement that are opened beside starts. Each doubles the
/// logins of a start, which a server limits.
const EARLY_AT_ONCE: usize = 2;
/// Time after which a connection without an answer lets the next one begin. A silent one ends before, if
/// no engine is asked first: with less, a busy machine would open more than it can answer.
pub(crate) const LONGEST_TURN: Duration = Duration::from_secs(30);

/// The turns of all placements. A clone is cheap.
#[derive(Debug, Clone, Default)]
pub(crate) struct DialTurns(Arc<Mutex<HashMap<String, DialTurn>>>);

/// The turns of the connections to a placement.
#[derive(Debug, Clone)]
pub(in crate::supervisor::runtimes) struct DialTurn {
    free: Arc<Semaphore>,
    /// For connections beside starts.
    early: Arc<Semaphore>,
    /// Number of open connections whose place has answered.
    reached: Arc<AtomicUsize>,
}

/// An open connection whose place has answered.
pub(super) struct ReachedPlace(Arc<AtomicUsize>);

/// A turn that was taken. Dropping it gives it to the next worker.
pub(super) struct TakenTurn(JoinHandle<()>);

impl DialTurns {
    /// Returns the turns of a placement.
    pub(in crate::supervisor::runtimes) fn at(&self, placement: &str) -> DialTurn {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_placement = || DialTurn {
            free: Arc::new(Semaphore::new(DIALS_AT_ONCE)),
            early: Arc::new(Semaphore::new(EARLY_AT_ONCE)),
            reached: Arc::default(),
        };
        all.entry(placement.to_owned()).or_insert_with(of_placement).clone()
    }
}

impl DialTurn {
    /// Returns a turn if one is free.
    pub(super) fn now(&self) -> Option<TakenTurn> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(|turn| TakenTurn::begin(turn, LONGEST_TURN))
    }

    /// Counts a connection whose place has answered.
    pub(super) fn reached(&self) -> ReachedPlace {
        self.reached.fetch_add(1, Ordering::Relaxed);
        ReachedPlace(Arc::clone(&self.reached))
    }

    /// Returns a turn beside a start, if more than `own` connections are open whose place has answered.
    pub(in crate::supervisor::runtimes) fn early(&self, own: usize) -> Option<OwnedSemaphorePermit> {
        let is_reached = self.reached.load(Ordering::Relaxed) > own;
        Arc::clone(&self.early).try_acquire_owned().ok().filter(|_| is_reached)
    }

    /// Waits for a turn. In a hurry, none is taken.
    pub(super) async fn wait(&self, hurry: &Notify) -> Option<TakenTurn> {
        tokio::select! {
            biased;
            () = hurry.notified() => None,
            turn = Arc::clone(&self.free).acquire_owned() => turn.ok().map(|turn| TakenTurn::begin(turn, LONGEST_TURN)),
        }
    }
}

impl Drop for ReachedPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TakenTurn {
    fn begin(turn: OwnedSemaphorePermit, longest: Duration) -> Self {
        Self(tokio::spawn(async move {
            let _turn = turn;
            sleep(longest).await;
        }))
    }
}

impl Drop for TakenTurn {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn connections_of_one_place_wait_for_each_other_and_not_for_another_place() {
        let all = DialTurns::default();
        let (one, other) = (all.at("one"), all.at("other"));
        let taken: Vec<TakenTurn> = (0..DIALS_AT_ONCE).map(|_| one.now().unwrap()).collect();
        let (waiting, hurry) = (all.at("one"), Notify::new());
        assert!(waiting.now().is_none() && other.now().is_some());
        assert!(timeout(Duration::from_millis(20), waiting.wait(&hurry)).await.is_err());
        drop(taken);
        assert!(waiting.wait(&hurry).await.is_some());
    }

    #[test]
    fn few_connections_are_opened_beside_starts_and_only_while_another_one_is_open() {
        let all = DialTurns::default();
        let first = all.at("one").reached();
        let second = all.at("one").reached();
        drop(first);
        assert!(all.at("one").early(0).is_some() && all.at("other").early(0).is_none());
        assert!(all.at("one").early(1).is_none(), "the own connection does not count");
        let taken: Vec<_> = (0..EARLY_AT_ONCE).map(|_| all.at("one").early(0).unwrap()).collect();
        assert!(all.at("one").early(0).is_none());
        drop(taken);
        assert!(all.at("one").early(0).is_some());
        drop(second);
        assert!(all.at("one").early(0).is_none());
    }

    #[tokio::test]
    async fn what_a_client_asks_for_does_not_wait() {
        let turns = DialTurns::default().at("one");
        let _taken: Vec<TakenTurn> = (0..DIALS_AT_ONCE).map(|_| turns.now().unwrap()).collect();
        let hurry = Arc::new(Notify::new());
        let (waits, notified) = (turns.clone(), Arc::clone(&hurry));
        let waiting = tokio::spawn(async move { waits.wait(&notified).await.is_none() });
        hurry.notify_one();
        assert!(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn a_silent_place_keeps_no_turn_for_long() {
        let turns = DialTurns::default().at("one");
        let take = || Arc::clone(&turns.free).try_acquire_owned().unwrap();
        let short = Duration::from_millis(10);
        let _taken: Vec<TakenTurn> = (0..DIALS_AT_ONCE).map(|_| TakenTurn::begin(take(), short)).collect();
        let waited = timeout(LONGEST_TURN, turns.wait(&Notify::new())).await;
        assert!(waited.unwrap().is_some());
    }
}
