//! Limits on connections. Connections without a session make room for each other, the oldest first, so a client that opens
//! many cannot keep a page away.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections without a session.
const MAX_STRANGERS: usize = 32;
/// Connections with a session, at most.
const MAX_PAGES: usize = 64;

#[derive(Debug, Clone, Default)]
pub(crate) struct Seats(Arc<Mutex<SeatTable>>);

#[derive(Debug, Default)]
struct SeatTable {
    next: u64,
    strangers: VecDeque<(u64, Arc<Notify>)>,
    pages: usize,
}

/// The place of one connection; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Seat {
    all: Seats,
    number: u64,
    leave: Arc<Notify>,
    is_page: Mutex<bool>,
}

impl Seats {
    fn inner(&self) -> MutexGuard<'_, SeatTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a new connection.
    pub(crate) fn take(&self) -> Seat {
        let leave = Arc::new(Notify::new());
        let mut inner = self.inner();
        if inner.strangers.len() >= MAX_STRANGERS
            && let Some((_, oldest)) = inner.strangers.pop_front()
        {
            oldest.notify_one();
        }
        let number = inner.next;
        inner.next += 1;
        inner.strangers.push_back((number, Arc::clone(&leave)));
        drop(inner);
        Seat { all: self.clone(), number, leave, is_page: Mutex::new(false) }
    }
}

impl Seat {
    /// Waits until another connection needs the room.
    pub(crate) async fn must_leave(&self) {
        self.leave.notified().await;
    }

    /// The connection has shown a session. False if there are too many of those.
    pub(crate) fn is_of_page(&self) -> bool {
        let mut is_page = self.is_page.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.all.inner();
        if !*is_page && inner.pages < MAX_PAGES {
            inner.strangers.retain(|(number, _)| *number != self.number);
            inner.pages += 1;
            *is_page = true;
        }
        *is_page
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let is_page = *self.is_page.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.all.inner();
        match is_page {
            true => inner.pages -= 1,
            false => inner.strangers.retain(|(number, _)| *number != self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn leaves(seat: &Seat) -> bool {
        tokio::time::timeout(Duration::from_millis(20), seat.must_leave()).await.is_ok()
    }

    #[tokio::test]
    async fn the_oldest_stranger_makes_room_and_a_page_never_does() {
        let seats = Seats::default();
        let page = seats.take();
        assert!(page.is_of_page() && page.is_of_page());
        let strangers: Vec<Seat> = (0..=MAX_STRANGERS).map(|_| seats.take()).collect();
        assert!(leaves(&strangers[0]).await && !leaves(&strangers[1]).await && !leaves(&page).await);
        drop(strangers);
        drop(page);
        let left = seats.inner();
        assert_eq!((left.strangers.len(), left.pages), (0, 0));
    }

    #[test]
    fn pages_have_a_limit_too() {
        let seats = Seats::default();
        let pages: Vec<Seat> = (0..=MAX_PAGES).map(|_| seats.take()).collect();
        assert_eq!(pages.iter().filter(|seat| seat.is_of_page()).count(), MAX_PAGES);
    }
}
