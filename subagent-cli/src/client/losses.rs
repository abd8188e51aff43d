//! How many lost connections one request survives. Pure.

use std::time::Duration;

use subagent_protocol::Code;

use crate::failure::Failure;

/// More losses in a row than this mean that the daemon dies of the request, or closes whatever comes.
const MOST: u32 = 5;
/// A connection that held this long was a good one: what came before does not count any more.
const GOOD: Duration = Duration::from_secs(10);

/// The losses of one request so far.
#[derive(Debug, Default)]
pub(super) struct Losses(u32);

impl Losses {
    /// Whether no connection was lost yet.
    pub(super) fn none(&self) -> bool {
        self.0 == 0
    }

    /// Counts a loss after the connection had held for `held`.
    ///
    /// # Errors
    /// `DAEMON_UNRESPONSIVE{pid,error}` if it is one too many.
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
        let mut losses = Losses::default();
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
