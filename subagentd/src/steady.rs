//! The time that budgets count: how long turns run does not depend on the clock of the machine
//! being set. Accounts store times of day. This module removes what the clock was moved by since
//! the daemon read it first. A change between two daemons is not noticed.

use std::sync::OnceLock;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use subagent_protocol::time::Timestamp;

/// A smaller difference is the time between two readings.
const MIN_MOVE_MS: i64 = 1000;

/// Both clocks at one moment, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    /// The time of day.
    day: i64,
    /// The time since the machine was booted, sleep included. It is never set.
    boot: i64,
}

impl ClockReading {
    fn now() -> Option<Self> {
        let of = |clock| i64::try_from(Duration::from(clock_gettime(clock).ok()?).as_millis()).ok();
        Some(Self { day: of(ClockId::CLOCK_REALTIME)?, boot: of(ClockId::CLOCK_BOOTTIME)? })
    }
}

/// By how many milliseconds the clock was set back since `origin`; negative if it was set forward.
const fn set_back(origin: ClockReading, now: ClockReading) -> i64 {
    let moved = now.boot.saturating_sub(origin.boot).saturating_sub(now.day.saturating_sub(origin.day));
    if moved.saturating_abs() < MIN_MOVE_MS { 0 } else { moved }
}

/// Converts a recent time of day to a clock that is never set while this daemon runs.
pub(crate) fn steady(at: Timestamp) -> i64 {
    static ORIGIN: OnceLock<Option<ClockReading>> = OnceLock::new();
    let moved = match (ORIGIN.get_or_init(ClockReading::now), ClockReading::now()) {
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
        let origin = ClockReading { day: 1_000_000_000, boot: 5_000 };
        for (day, moved) in [(60_000, 0), (60_900, 0), (60_000 - HOUR, HOUR), (60_000 + HOUR, -HOUR)] {
            let now = ClockReading { day: origin.day + day, boot: origin.boot + 60_000 };
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
