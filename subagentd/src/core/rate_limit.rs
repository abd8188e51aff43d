//! Values of parking: a rate limit as an agent reports it, and how long a worker waits for it. Pure data.

use subagent_protocol::time::Timestamp;
use subagent_protocol::{Error, rate_limit};

/// Rate limits in a row without a time of reset for which a worker is parked. The next one pauses its queue.
pub const MAX_BACKOFFS: u32 = 5;
/// The first wait without a time of reset, in milliseconds; each further one is twice as long.
const FIRST_BACKOFF_MS: i64 = 30_000;
/// A time of reset that is further away is not believed.
const MAX_PARK_MS: i64 = 31 * 24 * 3600 * 1000;

/// A rate limit, as an agent reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// When it was reported.
    pub at: Timestamp,
    /// When it ends, if the agent says so.
    pub until: Option<Timestamp>,
}

impl Limit {
    /// The rate limit in an error that a runtime wrote down at this time.
    #[must_use]
    pub fn reported(error: &Error, at: Timestamp) -> Option<Self> {
        let until = rate_limit::marked(error)?.map(|reset| reset.after(at));
        let believed = |until: &Timestamp| *until > at && until.0.saturating_sub(at.0) <= MAX_PARK_MS;
        Some(Self { at, until: until.filter(believed) })
    }
}

/// Whether a worker is parked, and how often it was without knowing for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parking {
    /// Until when; `None` if it is not parked.
    pub until: Option<Timestamp>,
    /// Rate limits in a row without a time of reset, or with one that comes at once.
    pub backoffs: u32,
}

impl Parking {
    /// The same after this rate limit; `None` if there were too many without a time.
    ///
    /// A reset within the first wait is believed once. Else an agent that reports a limit of a second again and again
    /// would be given the whole queue, or be started without end.
    #[must_use]
    pub fn after(self, limit: Limit) -> Option<Self> {
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
