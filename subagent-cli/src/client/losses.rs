//! Limits the number of lost connections per request. Pure.

use std::time::Duration;

use subagent_protocol::Code;

use crate::failure::Failure;

/// Maximum number of consecutive losses. With more, the request crashes the daemon, or it closes every
/// connection.
const MOST: u32 = 5;
/// A connection of this duration resets the count.
const GOOD: Duration = Duration::from_secs(10);

/// The number of consecutive losses of one request.
#[derive(Debug, Default)]
pub(super) struct RetryBudget(u32);

impl RetryBudget {
    pub(super) fn none(&self) -> bool {
        self.0 == 0
    }

    /// Counts a loss of a connection that existed for `held`.
    ///
    /// # Errors
    /// `DAEMON_UNRESPONSIVE{pid,error}` above the maximum.
    pub(super) fn count(&mut self, held: Duration, pid: i32, error: &str) -> Result<(), Failure> {
        self.0 = if held >= GOOD { 1 } else { self.0 + 1 };
        if self.0 <= MOST {
            return Ok(());
        }
        Err(Failure::new(
            Code::DaemonUnresponsive,
            format!("the daemon (pid {pid}) closed {MOST} connections in a row without an answer: {error}"),
        )
        .with("pid", pid)
        .with("error", error)
        .retryable()
        .recommend(
            "look at logs/subagentd.log in the state dir; then restart the daemon with `subagentd run`",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_losses_in_a_row_are_bounded_and_good_connections_forgive() {
        let mut losses = RetryBudget::default();
        for _ in 0..MOST {
            losses.count(Duration::ZERO, 1, "reset").unwrap();
        }
        let failure = losses.count(Duration::ZERO, 1, "reset").unwrap_err();
        assert!(failure.is(Code::DaemonUnresponsive));
        for _ in 0..100 {
            losses.count(GOOD, 1, "reset").unwrap();
        }
    }
}
