//! Usage that is charged to accounts.

use subagent_protocol::budget::Money;

/// A change of used amounts, or better knowledge of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spent {
    /// A turn was accepted.
    Opened,
    /// A turn ended whose prompt may have been sent.
    Closed {
        /// Number of tokens, or `None` if the end does not report it.
        tokens: Option<u64>,
    },
    /// The agent reported the cost of its session so far.
    Cost(Money),
    /// The agent has a new session without cost.
    NewSession,
    /// Time starts or stops to count.
    Clock {
        /// Whether time counts from now on.
        runs: bool,
        /// Time of the change in milliseconds, if it was recorded; otherwise now.
        at: Option<i64>,
    },
}
