//! Whether a page is there: requests with a session that are open, and when the last one ended.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Counts the open requests of pages.
#[derive(Debug, Clone)]
pub(crate) struct PagePresence(watch::Sender<Visits>);

#[derive(Debug)]
struct Visits {
    open: usize,
    last_end: Instant,
}

/// A request of a page; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Visit(watch::Sender<Visits>);

impl PagePresence {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Visits { open: 0, last_end: Instant::now() }))
    }

    pub(crate) fn visit(&self) -> Visit {
        self.0.send_modify(|visits| visits.open += 1);
        Visit(self.0.clone())
    }

    /// Waits until no page was there for this time.
    pub(crate) async fn idle_for(&self, time: Duration) {
        let mut visits = self.0.subscribe();
        loop {
            let (open, last_end) = {
                let now = visits.borrow_and_update();
                (now.open, now.last_end)
            };
            // The sender is in `self`: there is always another change to wait for.
            if open > 0 {
                let _ = visits.changed().await;
            } else if timeout_at(last_end + time, visits.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.send_modify(|visits| {
            visits.open -= 1;
            visits.last_end = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_visit_keeps_it_alive_and_its_end_starts_the_time() {
        let presence = PagePresence::new();
        let visit = presence.visit();
        let mut idle = Box::pin(presence.idle_for(Duration::from_millis(20)));
        assert!(tokio::time::timeout(Duration::from_millis(60), &mut idle).await.is_err());
        drop(visit);
        tokio::time::timeout(Duration::from_secs(20), idle).await.unwrap();
    }
}
