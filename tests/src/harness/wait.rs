//! The only place where a test sleeps: between two checks of a condition without a notification.

use std::thread;
use std::time::{Duration, Instant};

/// Time between two checks.
const PERIOD: Duration = Duration::from_millis(5);

/// Checks until there is a result and returns it.
///
/// # Panics
///
/// If there is none within `limit`; `what` describes the condition.
#[track_caller]
pub fn wait_until<T>(what: &str, limit: Duration, look: impl FnMut() -> Option<T>) -> T {
    match poll(limit, look) {
        Some(seen) => seen,
        None => panic!("waited {limit:?} in vain for: {what}"),
    }
}

/// Checks until there is no result, at most for `limit`. Returns the last result, or `None`.
pub fn wait_while<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut last = None;
    let gone = poll(limit, || {
        last = look();
        last.is_none().then_some(())
    });
    if gone.is_some() { None } else { last }
}

/// Checks at least once, and once more after the limit, so that a paused test machine does
/// not fail the test.
pub(super) fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        let late = Instant::now() >= end;
        if let Some(seen) = look() {
            return Some(seen);
        }
        if late {
            return None;
        }
        thread::sleep(PERIOD);
    }
}
