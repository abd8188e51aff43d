//! The one place where a test sleeps: between two looks at a condition that nothing announces.

use std::thread;
use std::time::{Duration, Instant};

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(5);

/// Looks until there is something to see and gives it.
///
/// # Panics
/// When there was nothing within `limit`; `what` says what was waited for.
#[track_caller]
pub fn wait_until<T>(what: &str, limit: Duration, look: impl FnMut() -> Option<T>) -> T {
    match poll(limit, look) {
        Some(seen) => seen,
        None => panic!("waited {limit:?} in vain for: {what}"),
    }
}

/// Looks until nothing is seen any more, at most for `limit`; gives what was seen last, or nothing.
pub fn wait_while<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut last = None;
    let gone = poll(limit, || {
        last = look();
        last.is_none().then_some(())
    });
    if gone.is_some() { None } else { last }
}

/// Looks at least once and once more after the limit, so that a test machine that stood still does not decide.
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
