//! What an error says about a rate limit of a model's provider. The runtime writes it, the daemon reads it.

use serde_json::Value;

use crate::error::Error;
use crate::time::Timestamp;

/// The key of the kind of error, and its value for a rate limit.
const CATEGORY: (&str, &str) = ("reasonCategory", "rate_limit");
/// The key of the time of reset.
const RESETS_AT: &str = "resetsAt";
/// The key of the time until the reset, in milliseconds from the error on.
const RETRY_AFTER_MS: &str = "retryAfterMs";

/// When a rate limit ends, as an agent reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The limit ends at this time.
    At(Timestamp),
    /// This many milliseconds after the error.
    AfterMs(i64),
}

impl Reset {
    /// The time, for an error of this time.
    #[must_use]
    pub const fn after(self, error_at: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::AfterMs(wait) => Timestamp(error_at.0.saturating_add(wait)),
        }
    }
}

/// Marks an error as a rate limit.
#[must_use]
pub fn mark(error: Error, reset: Option<Reset>) -> Error {
    let error = error.with(CATEGORY.0, CATEGORY.1);
    match reset {
        // Printed in whole seconds, rounded up: a request before the reset fails again.
        Some(Reset::At(at)) => error.with(RESETS_AT, Timestamp(at.0.saturating_add(999)).to_string()),
        Some(Reset::AfterMs(wait)) => error.with(RETRY_AFTER_MS, wait),
        None => error,
    }
}

/// Whether the error is a rate limit, and when that ends.
#[must_use]
pub fn marked(error: &Error) -> Option<Option<Reset>> {
    let detail = |key| error.details.get(key);
    if detail(CATEGORY.0).and_then(Value::as_str) != Some(CATEGORY.1) {
        return None;
    }
    let at = detail(RESETS_AT).and_then(Value::as_str).and_then(Timestamp::parse).map(Reset::At);
    Some(at.or_else(|| detail(RETRY_AFTER_MS).and_then(Value::as_i64).map(Reset::AfterMs)))
}
