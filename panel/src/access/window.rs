//! A number of events within a time. Pure: the caller passes the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(60);

/// At most `LIMIT` events within a minute.
#[derive(Debug, Default)]
pub(crate) struct Window<const LIMIT: usize>(VecDeque<Instant>);

impl<const LIMIT: usize> Window<LIMIT> {
    /// Whether there is room for another event.
    pub(crate) fn has_room(&mut self, now: Instant) -> bool {
        while self.0.front().is_some_and(|event| now.duration_since(*event) >= TIME) {
            self.0.pop_front();
        }
        self.0.len() < LIMIT
    }

    pub(crate) fn add(&mut self, now: Instant) {
        self.0.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_again_after_a_minute() {
        let (mut window, now) = (Window::<2>::default(), Instant::now());
        for _ in 0..2 {
            assert!(window.has_room(now));
            window.add(now);
        }
        assert!(!window.has_room(now) && !window.has_room(now + TIME - Duration::from_millis(1)));
        assert!(window.has_room(now + TIME));
    }
}
