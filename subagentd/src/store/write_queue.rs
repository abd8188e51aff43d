//! The queue of the writer thread. Work that may wait does not wake the thread during a pause, which
//! would cost more than to carry the work out.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Weight at which the thread is woken: any, and none.
const ANY: usize = 0;
const NONE: usize = usize::MAX;

/// A queue with one reader, in the order of the pushes.
pub(super) struct WriteQueue<T> {
    state: Mutex<QueueState<T>>,
    is_wanted: Condvar,
}

struct QueueState<T> {
    waiting: VecDeque<(usize, T)>,
    /// Sum of their weights.
    weight: usize,
    /// Whether some of them end a pause.
    urgent: bool,
    /// Weight at which the reader is woken.
    wakes_at: usize,
    closed: bool,
}

/// The queue takes no more work.
#[derive(Debug)]
pub(super) struct QueueClosed;

/// The outcome of a wait for work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextWork<T> {
    Work(T),
    /// None came in time.
    Late,
    /// The queue is closed and empty.
    Closed,
}

impl<T> WriteQueue<T> {
    pub(super) fn new() -> Self {
        let state =
            QueueState { waiting: VecDeque::new(), weight: 0, urgent: false, wakes_at: NONE, closed: false };
        Self { state: Mutex::new(state), is_wanted: Condvar::new() }
    }

    /// Adds work. `urgent` work ends a pause.
    pub(super) fn push(&self, work: T, weight: usize, urgent: bool) -> Result<(), QueueClosed> {
        let mut state = self.lock();
        if state.closed {
            return Err(QueueClosed);
        }
        state.waiting.push_back((weight, work));
        state.weight += weight;
        state.urgent |= urgent;
        if state.urgent || state.weight >= state.wakes_at {
            state.wakes_at = NONE;
            drop(state);
            self.is_wanted.notify_one();
        }
        Ok(())
    }

    /// Takes the next work, and waits for it: at most this time, or without limit.
    pub(super) fn take(&self, within: Option<Duration>) -> NextWork<T> {
        let until = within.map(|within| Instant::now() + within);
        let state = self.wait(until, ANY, |state| !state.waiting.is_empty());
        let closed = state.closed;
        match pop(state) {
            Some(work) => NextWork::Work(work),
            None if closed => NextWork::Closed,
            None => NextWork::Late,
        }
    }

    /// Takes the next work. If there is none, waits until the pause is over, work is urgent, or work
    /// of the weight `enough` has come.
    pub(super) fn take_more(&self, pause: Duration, enough: usize) -> Option<T> {
        let state = self.lock();
        if !state.waiting.is_empty() || pause.is_zero() {
            return pop(state);
        }
        drop(state);
        let is_over = |state: &QueueState<T>| state.urgent || state.weight >= enough;
        pop(self.wait(Some(Instant::now() + pause), enough, is_over))
    }

    /// Refuses further work. What waits is still taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.is_wanted.notify_one();
    }

    /// Refuses further work, and drops what waits.
    pub(super) fn abandon(&self) {
        self.close();
        let waiting = std::mem::take(&mut self.lock().waiting);
        drop(waiting);
    }

    fn wait(
        &self,
        until: Option<Instant>,
        wakes_at: usize,
        is_over: impl Fn(&QueueState<T>) -> bool,
    ) -> MutexGuard<'_, QueueState<T>> {
        let mut state = self.lock();
        while !state.closed && !is_over(&state) {
            state.wakes_at = wakes_at;
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    self.is_wanted.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.is_wanted.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state.wakes_at = NONE;
        state
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pop<T>(mut state: MutexGuard<'_, QueueState<T>>) -> Option<T> {
    let (weight, work) = state.waiting.pop_front()?;
    state.weight -= weight;
    state.urgent &= !state.waiting.is_empty();
    Some(work)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn queue() -> Arc<WriteQueue<&'static str>> {
        Arc::new(WriteQueue::new())
    }

    /// Begins a pause in a thread. Returns when it waits.
    fn pausing(queue: &Arc<WriteQueue<&'static str>>) -> thread::JoinHandle<Option<&'static str>> {
        let reader = Arc::clone(queue);
        let pausing = thread::spawn(move || reader.take_more(LONG, 3));
        let begun = Instant::now();
        while queue.lock().wakes_at != 3 {
            assert!(begun.elapsed() < LONG, "the reader does not wait");
            thread::yield_now();
        }
        pausing
    }

    #[test]
    fn work_is_taken_in_order_and_what_waits_at_the_end_too() {
        let queue = queue();
        assert_eq!(queue.take(Some(Duration::ZERO)), NextWork::Late);
        for work in ["one", "two", "three"] {
            queue.push(work, 1, false).unwrap();
        }
        assert_eq!(queue.take(None), NextWork::Work("one"));
        queue.close();
        queue.push("four", 1, true).unwrap_err();
        assert_eq!(queue.take_more(LONG, 10), Some("two"));
        assert_eq!(queue.take(None), NextWork::Work("three"));
        assert_eq!(queue.take_more(LONG, 10), None);
        assert_eq!(queue.take(None), NextWork::Closed);
    }

    #[test]
    fn a_pause_lasts_until_work_is_urgent() {
        let queue = queue();
        let pausing = pausing(&queue);
        queue.push("one", 1, false).unwrap();
        assert_eq!(queue.lock().wakes_at, 3, "the reader was woken");
        queue.push("two", 0, true).unwrap();
        assert_eq!(pausing.join().unwrap(), Some("one"));
        assert_eq!(queue.take_more(Duration::ZERO, 3), Some("two"));
        assert!(!queue.lock().urgent);
    }

    #[test]
    fn a_pause_lasts_until_there_is_enough() {
        let queue = queue();
        let pausing = pausing(&queue);
        queue.push("one", 2, false).unwrap();
        assert_eq!(queue.lock().wakes_at, 3, "the reader was woken");
        queue.push("two", 1, false).unwrap();
        assert_eq!(pausing.join().unwrap(), Some("one"));
        assert_eq!(queue.take(None), NextWork::Work("two"));
        assert_eq!(queue.lock().weight, 0);
    }

    #[test]
    fn a_pause_ends_in_time_and_when_the_queue_is_abandoned() {
        let queue = queue();
        assert_eq!(queue.take_more(Duration::from_millis(1), 3), None);
        let pausing = pausing(&queue);
        queue.push("one", 1, false).unwrap();
        queue.abandon();
        let _ = pausing.join().unwrap();
        assert_eq!(queue.take(None), NextWork::Closed);
    }
}
