//! Limits the number of lost connections per request. Pure.

use std::time::Duration;

use subagent_protocol::Code;

use crate::failure::Failure;

/// Maximum number of consecutive losses. With more, the request crashes the daemon, or it closes every
/// connection. A wait through a link has more: a network that comes and goes says nothing about the daemon.
const MOST: u32 = 5;
/// Pause before each connection of such a wait after that.
const PAUSE: Duration = Duration::from_secs(1);
/// A connection of this duration resets the count.
const GOOD: Duration = Duration::from_secs(10);

/// How long a lost connection with a host is dialed again.
const REDIAL_LIMIT: Duration = Duration::from_secs(60);
/// The same for a wait: an engine that moves a daemon to another machine may take several minutes.
const WAIT_REDIAL_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The number of consecutive losses of one request.
#[derive(Debug, Default)]
pub(super) struct RetryBudget {
    count: u32,
    /// Whether the request waits for something that people or agents do.
    waits: bool,
}

impl RetryBudget {
    /// Creates that of a request which waits.
    pub(super) fn of_wait() -> Self {
        Self { waits: true, ..Self::default() }
    }

    /// Creates that of a request after one that has lost its connection.
    pub(super) fn after_loss(waits: bool) -> Self {
        Self { count: 1, waits }
    }

    pub(super) fn is_of_wait(&self) -> bool {
        self.waits
    }

    /// The request turns out to be one that waits.
    pub(super) fn waits(&mut self) {
        self.waits = true;
    }

    /// Whether a request that waits has lost its connection.
    pub(super) fn is_wait_cut(&self) -> bool {
        self.waits && !self.none()
    }

    pub(super) fn none(&self) -> bool {
        self.count == 0
    }

    /// Returns how long a host is dialed again now. `refuses`: it has refused the login.
    pub(super) fn redial_limit(&self, refuses: bool) -> Duration {
        match (self.none(), self.waits && !refuses) {
            (true, _) => Duration::ZERO,
            (false, false) => REDIAL_LIMIT,
            (false, true) => WAIT_REDIAL_LIMIT,
        }
    }

    /// Counts a loss of a connection that existed for `held`, through a link with another machine or not.
    /// Returns the pause before the next one.
    ///
    /// # Errors
    /// `DAEMON_UNRESPONSIVE{pid,error}` above the maximum.
    pub(super) fn count(
        &mut self,
        held: Duration,
        through_link: bool,
        pid: i32,
        error: &str,
    ) -> Result<Duration, Failure> {
        self.count = if held >= GOOD { 1 } else { self.count.saturating_add(1) };
        match self.count <= MOST {
            true => return Ok(Duration::ZERO),
            false if self.waits && through_link => return Ok(PAUSE),
            false => {}
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
            losses.count(Duration::ZERO, false, 1, "reset").unwrap();
        }
        let failure = losses.count(Duration::ZERO, false, 1, "reset").unwrap_err();
        assert!(failure.is(Code::DaemonUnresponsive));
        for _ in 0..100 {
            losses.count(GOOD, false, 1, "reset").unwrap();
        }
    }

    #[test]
    fn a_wait_goes_on_through_a_link_that_comes_and_goes() {
        let mut losses = RetryBudget::of_wait();
        let mut lose = |through_link| losses.count(Duration::ZERO, through_link, 1, "reset");
        for _ in 0..MOST {
            assert!(lose(true).unwrap().is_zero());
        }
        for _ in 0..100 {
            assert_eq!(lose(true).unwrap(), PAUSE);
        }
        assert!(lose(false).unwrap_err().is(Code::DaemonUnresponsive));
        let mut losses = RetryBudget::default();
        let refused = (0..=MOST).map(|_| losses.count(Duration::ZERO, true, 1, "reset")).last();
        assert!(refused.unwrap().unwrap_err().is(Code::DaemonUnresponsive));
    }

    #[test]
    fn only_what_was_connected_is_dialed_again_and_a_wait_for_longer() {
        let mut losses = RetryBudget::default();
        assert!(losses.redial_limit(false).is_zero() && !losses.is_wait_cut());
        losses.waits();
        assert!(losses.redial_limit(false).is_zero() && !losses.is_wait_cut());
        losses.count(GOOD, false, 1, "reset").unwrap();
        assert!(losses.is_wait_cut() && losses.redial_limit(false) > REDIAL_LIMIT);
        assert_eq!(losses.redial_limit(true), REDIAL_LIMIT);
        let losses = RetryBudget::after_loss(false);
        assert!(!losses.is_wait_cut() && losses.redial_limit(false) == REDIAL_LIMIT);
    }
}
