//! Decides when a runtime restarts a daemon that died. It does so after its connection was lost, at
//! most once a minute, and never if the daemon ended in order. Pure. [`starter`] looks and starts;
//! the driver owns timers and pipes.

pub(crate) mod sibling;
pub(crate) mod starter;

use std::time::Duration;

/// Time from the loss of the connection to the first check. A daemon that lost only the connection
/// reconnects sooner, and a killed one is gone by then.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Time between checks while another process starts a daemon.
const BUSY_PAUSE: Duration = Duration::from_secs(5);
/// Minimum time between two starts by any runtime of one state directory.
pub(crate) const START_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DaemonStartInput {
    /// A daemon was greeted.
    Served,
    /// The daemon's connection was lost.
    Lost,
    /// The alarm has expired.
    Due,
    /// The result of a check.
    Found(DaemonCheckResult),
    /// The started daemon reported its readiness.
    Report(StartReport),
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DaemonCheckResult {
    /// No daemon should be started; with the reason, for the log.
    NotWanted(&'static str),
    /// Another process holds `start.lock`.
    Busy,
    /// A daemon is listening.
    Listens,
    /// A daemon was started less than [`START_PAUSE`] ago.
    TooSoon(Duration),
    /// A daemon was started now.
    Started,
    /// The daemon could not be started.
    Failed(String),
}

/// The started daemon's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartReport {
    /// This daemon or another one is ready.
    Ready,
    /// The daemon ended, with the reason.
    Failed(String),
}

/// An effect to carry out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DaemonStartEffect {
    /// Check, and start a daemon if necessary.
    Check,
    /// Set the alarm, in place of the earlier one.
    Alarm(Duration),
    /// Clear the alarm that was set.
    NoAlarm,
    /// Release `start.lock` and close the pipe.
    Release,
    /// Write a line to the log.
    Note(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum DaemonStartState {
    /// A daemon is connected.
    #[default]
    Served,
    /// Waits for the alarm.
    Waiting,
    /// A daemon was started and has not reported yet.
    Starting,
    /// Waits for a daemon that another process starts.
    Resting,
}

#[derive(Debug, Default)]
pub(crate) struct DaemonStartMachine {
    state: DaemonStartState,
    /// The last failure in the log, which is logged once and not every minute.
    noted: Option<String>,
}

impl DaemonStartMachine {
    /// Handles an input and returns the effects.
    pub(crate) fn handle(&mut self, input: DaemonStartInput) -> Vec<DaemonStartEffect> {
        match (self.state, input) {
            (_, DaemonStartInput::Served) => {
                self.noted = None;
                self.go(DaemonStartState::Served, vec![DaemonStartEffect::NoAlarm])
            }
            (DaemonStartState::Served, DaemonStartInput::Lost) => self.look_after(FIRST_LOOK),
            (DaemonStartState::Waiting, DaemonStartInput::Due) => vec![DaemonStartEffect::Check],
            (DaemonStartState::Starting, DaemonStartInput::Due) => {
                let mut effects = vec![DaemonStartEffect::Release];
                effects.extend(self.failed("it does not report its start"));
                effects
            }
            (DaemonStartState::Waiting, DaemonStartInput::Found(found)) => self.found(found),
            (DaemonStartState::Starting, DaemonStartInput::Report(StartReport::Ready)) => {
                let mut effects = vec![DaemonStartEffect::Release];
                // Its hello arrives before that.
                effects.extend(self.look_after(START_PAUSE));
                effects
            }
            (DaemonStartState::Starting, DaemonStartInput::Report(StartReport::Failed(why))) => {
                let mut effects = vec![DaemonStartEffect::Release];
                effects.extend(self.failed(&why));
                effects
            }
            (_, DaemonStartInput::Report(_)) => vec![DaemonStartEffect::Release],
            (_, DaemonStartInput::Lost | DaemonStartInput::Due | DaemonStartInput::Found(_)) => Vec::new(),
        }
    }

    fn found(&mut self, found: DaemonCheckResult) -> Vec<DaemonStartEffect> {
        match found {
            DaemonCheckResult::NotWanted(why) => {
                let note = format!("no daemon is started again: {why}");
                self.go(DaemonStartState::Resting, vec![DaemonStartEffect::Note(note)])
            }
            DaemonCheckResult::Busy => self.look_after(BUSY_PAUSE),
            DaemonCheckResult::Listens => self.look_after(START_PAUSE),
            DaemonCheckResult::TooSoon(rest) => self.look_after(rest),
            DaemonCheckResult::Started => {
                let note = "the daemon died; it is started again".to_owned();
                self.go(
                    DaemonStartState::Starting,
                    vec![DaemonStartEffect::Alarm(START_PAUSE), DaemonStartEffect::Note(note)],
                )
            }
            DaemonCheckResult::Failed(why) => self.failed(&why),
        }
    }

    fn failed(&mut self, why: &str) -> Vec<DaemonStartEffect> {
        let mut effects = self.look_after(START_PAUSE);
        if self.noted.as_deref() != Some(why) {
            let seconds = START_PAUSE.as_secs();
            effects.push(DaemonStartEffect::Note(format!(
                "the daemon cannot be started again: {why}; trying again every {seconds} s"
            )));
            self.noted = Some(why.to_owned());
        }
        effects
    }

    fn look_after(&mut self, pause: Duration) -> Vec<DaemonStartEffect> {
        self.go(DaemonStartState::Waiting, vec![DaemonStartEffect::Alarm(pause)])
    }

    fn go(&mut self, state: DaemonStartState, effects: Vec<DaemonStartEffect>) -> Vec<DaemonStartEffect> {
        self.state = state;
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> DaemonStartMachine {
        let mut decision = DaemonStartMachine::default();
        assert_eq!(decision.handle(DaemonStartInput::Lost), [DaemonStartEffect::Alarm(FIRST_LOOK)]);
        decision
    }

    fn looks(decision: &mut DaemonStartMachine, found: DaemonCheckResult) -> Vec<DaemonStartEffect> {
        assert_eq!(decision.handle(DaemonStartInput::Due), [DaemonStartEffect::Check]);
        decision.handle(DaemonStartInput::Found(found))
    }

    #[test]
    fn a_daemon_that_died_is_started_once_and_waited_for() {
        let mut decision = lost();
        let effects = looks(&mut decision, DaemonCheckResult::Started);
        assert_eq!(effects[0], DaemonStartEffect::Alarm(START_PAUSE));
        assert_eq!(decision.handle(DaemonStartInput::Served), [DaemonStartEffect::NoAlarm]);
        // The lock is held until the daemon reports that it is ready.
        assert_eq!(
            decision.handle(DaemonStartInput::Report(StartReport::Ready)),
            [DaemonStartEffect::Release]
        );
        assert_eq!(decision.handle(DaemonStartInput::Lost), [DaemonStartEffect::Alarm(FIRST_LOOK)]);
    }

    #[test]
    fn a_daemon_that_comes_back_by_itself_is_not_started() {
        let mut decision = lost();
        assert_eq!(decision.handle(DaemonStartInput::Served), [DaemonStartEffect::NoAlarm]);
        assert_eq!(decision.handle(DaemonStartInput::Due), []);
    }

    #[test]
    fn after_an_end_in_order_nothing_is_started_until_a_daemon_came() {
        let mut decision = lost();
        let effects = looks(&mut decision, DaemonCheckResult::NotWanted("it was stopped"));
        assert!(matches!(&effects[..], [DaemonStartEffect::Note(note)] if note.ends_with("it was stopped")));
        assert_eq!(decision.handle(DaemonStartInput::Due), []);
        assert_eq!(decision.handle(DaemonStartInput::Lost), []);
        decision.handle(DaemonStartInput::Served);
        assert_eq!(decision.handle(DaemonStartInput::Lost), [DaemonStartEffect::Alarm(FIRST_LOOK)]);
    }

    #[test]
    fn a_busy_start_is_checked_again_and_not_reported() {
        let mut decision = lost();
        for (found, pause) in [
            (DaemonCheckResult::Busy, BUSY_PAUSE),
            (DaemonCheckResult::Listens, START_PAUSE),
            (DaemonCheckResult::TooSoon(Duration::from_secs(7)), Duration::from_secs(7)),
        ] {
            assert_eq!(looks(&mut decision, found), [DaemonStartEffect::Alarm(pause)]);
        }
    }

    #[test]
    fn failures_are_a_minute_apart_and_noted_when_they_change() {
        let mut decision = lost();
        let full = || DaemonCheckResult::Failed("disk full".to_owned());
        assert!(
            matches!(&looks(&mut decision, full())[..], [DaemonStartEffect::Alarm(START_PAUSE), DaemonStartEffect::Note(note)]
            if note.contains("disk full"))
        );
        assert_eq!(looks(&mut decision, full()), [DaemonStartEffect::Alarm(START_PAUSE)]);
        looks(&mut decision, DaemonCheckResult::Started);
        let effects =
            decision.handle(DaemonStartInput::Report(StartReport::Failed("bad database".to_owned())));
        assert!(matches!(
            &effects[..],
            [DaemonStartEffect::Release, DaemonStartEffect::Alarm(START_PAUSE), DaemonStartEffect::Note(_)]
        ));
    }

    #[test]
    fn a_start_that_says_nothing_is_given_up_after_a_minute() {
        let mut decision = lost();
        looks(&mut decision, DaemonCheckResult::Started);
        let effects = decision.handle(DaemonStartInput::Due);
        assert!(matches!(
            &effects[..],
            [DaemonStartEffect::Release, DaemonStartEffect::Alarm(START_PAUSE), DaemonStartEffect::Note(_)]
        ));
    }

    #[test]
    fn after_a_start_the_next_check_is_a_minute_later() {
        let said = [
            None,
            Some(DaemonStartInput::Report(StartReport::Ready)),
            Some(DaemonStartInput::Report(StartReport::Failed("x".to_owned()))),
            Some(DaemonStartInput::Lost),
            Some(DaemonStartInput::Found(DaemonCheckResult::Busy)),
        ];
        for first in &said {
            for second in &said {
                let mut decision = lost();
                looks(&mut decision, DaemonCheckResult::Started);
                let mut waited = START_PAUSE;
                for input in [first, second].into_iter().flatten() {
                    for effect in decision.handle(input.clone()) {
                        assert_ne!(effect, DaemonStartEffect::Check, "{first:?} {second:?}");
                        if let DaemonStartEffect::Alarm(pause) = effect {
                            waited = pause;
                        }
                    }
                }
                let unsaid = !matches!(first, Some(DaemonStartInput::Report(_)))
                    && !matches!(second, Some(DaemonStartInput::Report(_)));
                let late = decision.handle(DaemonStartInput::Due);
                assert_eq!(
                    late.contains(&DaemonStartEffect::Check),
                    !unsaid,
                    "{first:?} {second:?}: {late:?}"
                );
                if second != &said[4] {
                    assert!(waited >= START_PAUSE, "{first:?} {second:?}");
                }
            }
        }
    }
}
