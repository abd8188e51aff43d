//! When a failed delivery is tried again. Pure.

use std::time::Duration;

/// How long a delivery is tried, from when its event was noticed.
pub(crate) const GIVE_UP_AFTER: Duration = Duration::from_secs(24 * 3600);
/// The longest time between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(600);

/// How long to wait after this many failed attempts; at least as long as the server asked for, if it did.
pub(crate) fn delay(attempts: u32, retry_after: Option<Duration>) -> Duration {
    let doubled = Duration::from_secs(1 << attempts.saturating_sub(1).min(20)).min(MAX_DELAY);
    doubled.max(retry_after.unwrap_or_default().min(MAX_DELAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_ten_minutes_and_heed_the_server() {
        let seconds = |attempts| delay(attempts, None).as_secs();
        assert_eq!([0, 1, 2, 3, 4, 10, 11, 40, u32::MAX].map(seconds), [1, 1, 2, 4, 8, 512, 600, 600, 600]);
        assert_eq!(delay(1, Some(Duration::from_secs(30))).as_secs(), 30);
        assert_eq!(delay(6, Some(Duration::from_secs(1))).as_secs(), 32);
        assert_eq!(delay(1, Some(Duration::MAX)), MAX_DELAY);
    }
}
