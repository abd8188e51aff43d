//! Time that counts: how long turns run must not depend on somebody setting the clock of the machine.
//!
//! Accounts hold times of day, as every daemon before did. What the clock was moved by since this daemon looked at it
//! first is taken out of them. Of a clock that is set between two daemons nothing is known.

use std::sync::OnceLock;

use nix::time::{ClockId, clock_gettime};
use subagent_protocol::time::Timestamp;

/// Less is the time between two looks, or a clock that is adjusted slowly.
const LEAST_MS: i64 = 1000;

/// Both clocks at one moment, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// The time of day.
    day: i64,
    /// The time since the machine was booted, sleep included. It is never set.
    boot: i64,
}

impl Reading {
    fn now() -> Option<Self> {
        let of = |clock| {
            let time = clock_gettime(clock).ok()?;
            Some(
                i64::from(time.tv_sec())
                    .saturating_mul(1000)
                    .saturating_add(i64::from(time.tv_nsec()) / 1_000_000),
            )
        };
        Some(Self { day: of(ClockId::CLOCK_REALTIME)?, boot: of(ClockId::CLOCK_BOOTTIME)? })
    }
}

/// By how many milliseconds the clock was set back since `origin`; negative if it was set forward.
const fn set_back(origin: Reading, now: Reading) -> i64 {
    let moved = now.boot.saturating_sub(origin.boot).saturating_sub(now.day.saturating_sub(origin.day));
    if moved.saturating_abs() < LEAST_MS { 0 } else { moved }
}

/// A time of day of this moment or of a moment ago, on a clock that nobody sets while this daemon runs.
pub(crate) fn steady(at: Timestamp) -> i64 {
    static ORIGIN: OnceLock<Option<Reading>> = OnceLock::new();
    let moved = match (ORIGIN.get_or_init(Reading::now), Reading::now()) {
        (Some(origin), Some(now)) => set_back(*origin, now),
        _ => 0,
    };
    at.0.saturating_add(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn a_clock_that_is_set_changes_nothing() {
        let origin = Reading { day: 1_000_000_000, boot: 5_000 };
        for (day, moved) in [(60_000, 0), (60_900, 0), (60_000 - HOUR, HOUR), (60_000 + HOUR, -HOUR)] {
            let now = Reading { day: origin.day + day, boot: origin.boot + 60_000 };
            assert_eq!(set_back(origin, now), moved, "{day}");
            let counted = now.day + set_back(origin, now) - origin.day;
            assert!((60_000..61_000).contains(&counted), "{counted}");
        }
    }

    #[test]
    fn without_such_a_change_it_is_the_time_of_day() {
        assert_eq!(steady(Timestamp(123_456)), 123_456);
    }
}
