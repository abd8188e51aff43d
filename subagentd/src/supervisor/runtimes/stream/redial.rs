//! How long a broken stream waits before it is dialed again.

use std::time::Duration;

use subagent_protocol::ids::WorkerId;

/// The first delay. It doubles each time.
const FIRST: Duration = Duration::from_millis(10);
/// The longest delay while the place answers. A command ends the delay.
pub(crate) const LAST: Duration = Duration::from_secs(1);
/// The shortest and longest delay while the place does not answer.
const FIRST_UNREACHED: Duration = Duration::from_secs(1);
pub(crate) const LAST_UNREACHED: Duration = Duration::from_secs(60);

/// The next delay of a worker's streams.
#[derive(Debug)]
pub(in crate::supervisor::runtimes) struct RedialPause(Duration);

impl RedialPause {
    pub(in crate::supervisor::runtimes) fn new() -> Self {
        Self(FIRST)
    }

    /// Returns the delay. `is_away`: the place is another one, and does not answer.
    pub(in crate::supervisor::runtimes) fn next(&mut self, is_away: bool, worker: &WorkerId) -> Duration {
        let (shortest, longest) = match is_away {
            true => (FIRST_UNREACHED, LAST_UNREACHED),
            false => (FIRST, LAST),
        };
        let pause = self.0.clamp(shortest, longest);
        self.0 = pause.saturating_mul(2).min(longest);
        if is_away { spread(pause, worker) } else { pause }
    }

    /// The runtime has answered.
    pub(in crate::supervisor::runtimes) fn answered(&mut self) {
        self.0 = FIRST;
    }

    /// The place has answered.
    pub(in crate::supervisor::runtimes) fn greeted(&mut self) {
        self.0 = self.0.min(LAST);
    }
}

/// Returns 50 to 100 % of a delay, always the same part for a worker. So the workers of a host that
/// was lost do not all dial at the same moment.
fn spread(pause: Duration, worker: &WorkerId) -> Duration {
    let last = worker.as_str().bytes().rev().take(2);
    let sum = last.fold(0, |sum: u32, byte| sum.wrapping_mul(16).wrapping_add(u32::from(byte)));
    pause * (256 + sum % 256) / 512
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_delay_before_a_silent_host_is_dialed_grows_from_a_second_to_a_minute() {
        let worker = WorkerId::from_random([7; 5]);
        let mut redial = RedialPause::new();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let (pause, longest) = (redial.next(true, &worker), Duration::from_secs(seconds));
            assert!((longest / 2..=longest).contains(&pause), "{pause:?} of {longest:?}");
        }
        // An answer ends the growth.
        redial.greeted();
        assert_eq!(redial.next(false, &worker), LAST);
        redial.answered();
        assert_eq!(redial.next(false, &worker), FIRST);
        assert_eq!(redial.next(true, &worker), spread(FIRST_UNREACHED, &worker));
    }

    #[test]
    fn workers_do_not_dial_at_the_same_moment() {
        let pauses = (0..64_u8).map(|number| {
            let worker = WorkerId::from_random([0, 0, 0, 0, number]);
            let pause = spread(FIRST_UNREACHED, &worker);
            assert!((FIRST_UNREACHED / 2..=FIRST_UNREACHED).contains(&pause), "{pause:?}");
            pause
        });
        assert!(pauses.collect::<HashSet<_>>().len() > 32);
    }
}
