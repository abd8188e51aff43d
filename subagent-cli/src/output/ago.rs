//! Times as people say them. Pure.

use std::time::Duration;

use subagent_protocol::time::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How long ago that was. What is older than a week, or more than a few seconds ahead (a clock was set), has its date.
#[must_use]
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.0.saturating_sub(then.0).div_euclid(1000);
    let passed = match u64::try_from(seconds) {
        Ok(passed) if passed < 7 * DAY => passed,
        Err(_) if seconds > -5 => 0,
        _ => return then.to_string().chars().take(10).collect(),
    };
    match passed {
        0..5 => "just now".to_owned(),
        5..MINUTE => format!("{passed} s ago"),
        MINUTE..HOUR => format!("{} min ago", passed / MINUTE),
        HOUR..DAY => format!("{} h ago", passed / HOUR),
        _ => format!("{} d ago", passed / DAY),
    }
}

/// The same in at most four columns, for a table that is drawn again.
#[must_use]
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = millis_since(then, now) / 1000;
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        _ => format!("{}d", (seconds / DAY).min(999)),
    }
}

/// Returns when [`age`] becomes another text.
#[must_use]
pub fn age_lasts(then: Timestamp, now: Timestamp) -> Duration {
    let passed = millis_since(then, now);
    let unit = match passed / 1000 {
        0..MINUTE => 1,
        MINUTE..HOUR => MINUTE,
        HOUR..DAY => HOUR,
        _ => DAY,
    };
    Duration::from_millis(unit * 1000 - passed % (unit * 1000))
}

fn millis_since(then: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.0.saturating_sub(then.0)).unwrap_or(0)
}

/// How long something has taken so far.
#[must_use]
pub fn elapsed(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m {:02}s", seconds / MINUTE, seconds % MINUTE),
        _ => format!("{}h {:02}m", seconds / HOUR, seconds % HOUR / MINUTE),
    }
}

/// The same without a space, for a line that parts values by ` · `.
#[must_use]
pub fn took(time: Duration) -> String {
    elapsed(time).replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_do() {
        let now = Timestamp(1_795_292_982_000);
        let ago = |seconds: i64| ago(Timestamp(now.0 - seconds * 1000), now);
        for (seconds, expected) in [
            (-4, "just now"),
            (0, "just now"),
            (5, "5 s ago"),
            (59, "59 s ago"),
            (60, "1 min ago"),
            (3599, "59 min ago"),
            (3600, "1 h ago"),
            (86_399, "23 h ago"),
            (86_400, "1 d ago"),
            (7 * 86_400, "2026-11-14"),
            (-3600, "2026-11-21"),
        ] {
            assert_eq!(ago(seconds), expected, "{seconds}");
        }
        assert_eq!(super::ago(Timestamp(i64::MIN), Timestamp(i64::MAX)), "1970-01-01");
    }

    #[test]
    fn an_age_is_narrow_and_says_when_it_changes() {
        let now = Timestamp(1_795_292_982_000);
        for (millis, expected, lasts) in [
            (-9_000, "0s", 1_000),
            (0, "0s", 1_000),
            (12_300, "12s", 700),
            (59_999, "59s", 1),
            (61_000, "1m", 59_000),
            (3_600_000, "1h", 3_600_000),
            (90_000_000, "1d", 82_800_000),
            (i64::MAX / 2, "999d", 0),
        ] {
            let then = Timestamp(now.0 - millis);
            assert_eq!(age(then, now), expected, "{millis}");
            if lasts > 0 {
                assert_eq!(age_lasts(then, now), Duration::from_millis(lasts), "{millis}");
            }
        }
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, expected) in [(0, "0s"), (59, "59s"), (61, "1m 01s"), (3661, "1h 01m")] {
            assert_eq!(elapsed(Duration::from_secs(seconds)), expected);
        }
        assert_eq!(took(Duration::from_secs(192)), "3m12s");
    }
}
