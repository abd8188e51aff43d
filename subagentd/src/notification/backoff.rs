//! Computes when a failed delivery is tried again. Pure.

use std::time::Duration;

use subagent_protocol::time::Timestamp;

/// Maximum time for which a delivery is tried, from the time its event was noticed.
const GIVE_UP_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Maximum time between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(600);

/// Returns the wait after this many failed attempts. A longer wait requested by the server counts,
/// up to the maximum.
fn delay(attempts: u32, retry_after: Option<Duration>) -> Duration {
    let doubled = Duration::from_secs(1 << attempts.saturating_sub(1).min(20)).min(MAX_DELAY);
    doubled.max(retry_after.unwrap_or_default().min(MAX_DELAY))
}

/// Adds a duration to a time.
pub(crate) fn after(time: Timestamp, wait: Duration) -> Timestamp {
    Timestamp(time.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
}

/// The reaction to a failed attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// Retry, not before this time.
    PutOff(Timestamp),
    GiveUp,
}

/// Decides after this many attempts for a delivery whose event was noticed at `created_at`.
pub(crate) fn after_failure(
    created_at: Timestamp,
    now: Timestamp,
    attempts: u32,
    retry_after: Option<Duration>,
) -> AfterFailure {
    match now < after(created_at, GIVE_UP_AFTER) {
        true => AfterFailure::PutOff(after(now, delay(attempts, retry_after))),
        false => AfterFailure::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_tried_for_a_day() {
        let created = Timestamp(5000);
        let day = 24 * 3600 * 1000;
        let decide = |now: i64, attempts| after_failure(created, Timestamp(now), attempts, None);
        assert_eq!(decide(5000, 1), AfterFailure::PutOff(Timestamp(6000)));
        // The clock may have gone back.
        assert_eq!(decide(0, 2), AfterFailure::PutOff(Timestamp(2000)));
        let last = 5000 + day - 1;
        assert_eq!(decide(last, 200), AfterFailure::PutOff(Timestamp(last + 600_000)));
        assert_eq!(decide(5000 + day, 1), AfterFailure::GiveUp);
        // Attempts continue for a day and at most one delay longer.
        let (mut now, mut attempts) = (5000, 0);
        loop {
            attempts += 1;
            match decide(now, attempts) {
                AfterFailure::PutOff(Timestamp(due)) => now = due,
                AfterFailure::GiveUp => break,
            }
        }
        assert!((5000 + day..5000 + day + 600_000).contains(&now) && attempts > 100, "{now} {attempts}");
    }

    #[test]
    fn delays_double_up_to_ten_minutes_and_heed_the_server() {
        let seconds = |attempts| delay(attempts, None).as_secs();
        assert_eq!([0, 1, 2, 3, 4, 10, 11, 40, u32::MAX].map(seconds), [1, 1, 2, 4, 8, 512, 600, 600, 600]);
        assert_eq!(delay(1, Some(Duration::from_secs(30))).as_secs(), 30);
        assert_eq!(delay(6, Some(Duration::from_secs(1))).as_secs(), 32);
        assert_eq!(delay(1, Some(Duration::MAX)), MAX_DELAY);
    }
}
