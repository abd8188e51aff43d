//! Rate limits as agents report them, and the time that a worker waits for them. Pure data.

use subagent_protocol::time::Timestamp;

use subagent_protocol::{Error, rate_limit};

/// Maximum number of rate limits in a row without a time of reset. The next one pauses the queue.
pub(crate) const MAX_BACKOFFS: u32 = 5;

/// Length of the first wait without a time of reset, in milliseconds. It doubles each time.
const FIRST_BACKOFF_MS: i64 = 30_000;

/// Maximum accepted distance of a time of reset, in milliseconds.
const MAX_PARK_MS: i64 = 31 * 24 * 3600 * 1000;

/// A rate limit as an agent reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Time of the report.
    pub at: Timestamp,
    /// End of the limit, if the agent reported it.
    pub until: Option<Timestamp>,
}

impl RateLimit {
    /// Returns the rate limit in an error that a runtime recorded at this time.
    #[must_use]
    pub fn reported(error: &Error, at: Timestamp) -> Option<Self> {
        let until = rate_limit::marked(error)?.map(|reset| reset.after(at));
        let believed = |until: &Timestamp| *until > at && until.0.saturating_sub(at.0) <= MAX_PARK_MS;
        Some(Self { at, until: until.filter(believed) })
    }
}

/// Whether a worker is parked, and the number of backoffs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parking {
    /// End of the parking, or `None` if the worker is not parked.
    pub until: Option<Timestamp>,
    /// Number of rate limits in a row without a time of reset, or with one that is too close.
    pub backoffs: u32,
}

impl Parking {
    /// Returns the parking after this rate limit, or `None` after too many without a time.
    ///
    /// A reset within the first wait is accepted once. Otherwise an agent that keeps reporting a
    /// limit of a second would get the whole queue, or be restarted without end.
    #[must_use]
    pub fn after(self, limit: RateLimit) -> Option<Self> {
        let is_far = |until: &Timestamp| until.0.saturating_sub(limit.at.0) >= FIRST_BACKOFF_MS;
        if limit.until.as_ref().is_some_and(is_far) {
            return Some(Self { until: limit.until, ..self });
        }
        let wait = (self.backoffs < MAX_BACKOFFS).then(|| FIRST_BACKOFF_MS << self.backoffs)?;
        let backoff = Timestamp(limit.at.0.saturating_add(wait));
        let until = limit.until.filter(|_| self.backoffs == 0).unwrap_or(backoff);
        Some(Self { until: Some(until), backoffs: self.backoffs + 1 })
    }
}
