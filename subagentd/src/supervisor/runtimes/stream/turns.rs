//! How many connections to one place are being opened at a time. A host that comes back has many
//! workers, and each client of ssh takes its part of this machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections to one placement that have not been answered yet.
pub(crate) const DIALS_AT_ONCE: usize = 16;

/// The turns of all placements. A clone is cheap.
#[derive(Debug, Clone, Default)]
pub(crate) struct DialTurns(Arc<Mutex<HashMap<String, Arc<Semaphore>>>>);

/// The turn of a worker's connections. What a client asks for does not wait.
#[derive(Debug, Clone)]
pub(in crate::supervisor::runtimes) struct DialTurn {
    turns: Arc<Semaphore>,
    hurry: Arc<Notify>,
}

/// A turn that was taken. Dropping it gives it to the next worker.
pub(super) type TakenTurn = Option<OwnedSemaphorePermit>;

impl DialTurns {
    /// Returns the turn of another worker at this placement.
    pub(in crate::supervisor::runtimes) fn at(&self, placement: &str) -> DialTurn {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_placement = || Arc::new(Semaphore::new(DIALS_AT_ONCE));
        let turns = all.entry(placement.to_owned()).or_insert_with(of_placement);
        DialTurn { turns: Arc::clone(turns), hurry: Arc::default() }
    }
}

impl DialTurn {
    /// Lets the connection that waits, or else the next one, not wait.
    pub(in crate::supervisor::runtimes) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Returns a turn if one is free.
    pub(super) fn now(&self) -> Option<TakenTurn> {
        Arc::clone(&self.turns).try_acquire_owned().ok().map(Some)
    }

    /// Waits for a turn. In a hurry, none is taken.
    pub(super) async fn wait(&self) -> TakenTurn {
        tokio::select! {
            biased;
            () = self.hurry.notified() => None,
            turn = Arc::clone(&self.turns).acquire_owned() => turn.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn connections_of_one_place_wait_for_each_other_and_not_for_another_place() {
        let all = DialTurns::default();
        let (one, other) = (all.at("one"), all.at("other"));
        let taken: Vec<TakenTurn> = (0..DIALS_AT_ONCE).map(|_| one.now().unwrap()).collect();
        let waiting = all.at("one");
        assert!(waiting.now().is_none() && other.now().is_some());
        assert!(timeout(Duration::from_millis(20), waiting.wait()).await.is_err());
        drop(taken);
        assert!(waiting.wait().await.is_some());
    }

    #[tokio::test]
    async fn what_a_client_asks_for_does_not_wait() {
        let all = DialTurns::default();
        let (one, other) = (all.at("one"), all.at("one"));
        let _taken: Vec<TakenTurn> = (0..DIALS_AT_ONCE).map(|_| one.now().unwrap()).collect();
        // Before it waits, or while it waits.
        one.hurry();
        assert!(one.wait().await.is_none());
        let waits = other.clone();
        let waiting = tokio::spawn(async move { waits.wait().await.is_none() });
        other.hurry();
        assert!(waiting.await.unwrap());
    }
}
