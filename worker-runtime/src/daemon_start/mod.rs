//! Decides when a runtime restarts a daemon that died. It does so after its connection was lost,
//! at most once a minute, and never if the daemon ended in order.
//!
//! Pure. [`starter`] looks and starts; the driver owns timers and pipes.

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
pub(crate) enum Input {
    /// A daemon was greeted.
    Served,
    /// The daemon's connection was lost.
    Lost,
    /// The alarm has expired.
    Due,
    /// The result of a check.
    Found(Found),
    /// The started daemon reported its readiness.
    Report(StartReport),
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
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
pub(crate) enum Effect {
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
enum State {
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
pub(crate) struct Decision {
    state: State,
    /// The last failure in the log, which is logged once and not every minute.
    noted: Option<String>,
}

impl Decision {
    /// Handles an input and returns the effects.
    pub(crate) fn handle(&mut self, input: Input) -> Vec<Effect> {
        match (self.state, input) {
            (_, Input::Served) => {
                self.noted = None;
                self.go(State::Served, vec![Effect::NoAlarm])
            }
            (State::Served, Input::Lost) => self.look_after(FIRST_LOOK),
            (State::Waiting, Input::Due) => vec![Effect::Check],
            (State::Starting, Input::Due) => {
                let mut effects = vec![Effect::Release];
                effects.extend(self.failed("it says nothing about its start"));
                effects
            }
            (State::Waiting, Input::Found(found)) => self.found(found),
            (State::Starting, Input::Report(StartReport::Ready)) => {
                let mut effects = vec![Effect::Release];
                // Its hello arrives before that.
                effects.extend(self.look_after(START_PAUSE));
                effects
            }
            (State::Starting, Input::Report(StartReport::Failed(why))) => {
                let mut effects = vec![Effect::Release];
                effects.extend(self.failed(&why));
                effects
            }
            (_, Input::Report(_)) => vec![Effect::Release],
            (_, Input::Lost | Input::Due | Input::Found(_)) => Vec::new(),
        }
    }

    fn found(&mut self, found: Found) -> Vec<Effect> {
        match found {
            Found::NotWanted(why) => {
                let note = format!("no daemon is started again: {why}");
                self.go(State::Resting, vec![Effect::Note(note)])
            }
            Found::Busy => self.look_after(BUSY_PAUSE),
            Found::Listens => self.look_after(START_PAUSE),
            Found::TooSoon(rest) => self.look_after(rest),
            Found::Started => {
                let note = "the daemon died; it is started again".to_owned();
                self.go(State::Starting, vec![Effect::Alarm(START_PAUSE), Effect::Note(note)])
            }
            Found::Failed(why) => self.failed(&why),
        }
    }

    fn failed(&mut self, why: &str) -> Vec<Effect> {
        let mut effects = self.look_after(START_PAUSE);
        if self.noted.as_deref() != Some(why) {
            let seconds = START_PAUSE.as_secs();
            effects.push(Effect::Note(format!(
                "the daemon cannot be started again: {why}; trying again every {seconds} s"
            )));
            self.noted = Some(why.to_owned());
        }
        effects
    }

    fn look_after(&mut self, pause: Duration) -> Vec<Effect> {
        self.go(State::Waiting, vec![Effect::Alarm(pause)])
    }

    fn go(&mut self, state: State, effects: Vec<Effect>) -> Vec<Effect> {
        self.state = state;
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> Decision {
        let mut decision = Decision::default();
        assert_eq!(decision.handle(Input::Lost), [Effect::Alarm(FIRST_LOOK)]);
        decision
    }

    fn looks(decision: &mut Decision, found: Found) -> Vec<Effect> {
        assert_eq!(decision.handle(Input::Due), [Effect::Check]);
        decision.handle(Input::Found(found))
    }

    #[test]
    fn a_daemon_that_died_is_started_once_and_waited_for() {
        let mut decision = lost();
        let effects = looks(&mut decision, Found::Started);
        assert_eq!(effects[0], Effect::Alarm(START_PAUSE));
        assert_eq!(decision.handle(Input::Served), [Effect::NoAlarm]);
        // The lock is held until the daemon reports that it is ready.
        assert_eq!(decision.handle(Input::Report(StartReport::Ready)), [Effect::Release]);
        assert_eq!(decision.handle(Input::Lost), [Effect::Alarm(FIRST_LOOK)]);
    }

    #[test]
    fn a_daemon_that_comes_back_by_itself_is_not_started() {
        let mut decision = lost();
        assert_eq!(decision.handle(Input::Served), [Effect::NoAlarm]);
        assert_eq!(decision.handle(Input::Due), []);
    }

    #[test]
    fn after_an_end_in_order_nothing_is_started_until_a_daemon_came() {
        let mut decision = lost();
        let effects = looks(&mut decision, Found::NotWanted("it was stopped"));
        assert!(matches!(&effects[..], [Effect::Note(note)] if note.ends_with("it was stopped")));
        assert_eq!(decision.handle(Input::Due), []);
        assert_eq!(decision.handle(Input::Lost), []);
        decision.handle(Input::Served);
        assert_eq!(decision.handle(Input::Lost), [Effect::Alarm(FIRST_LOOK)]);
    }

    #[test]
    fn a_busy_start_is_checked_again_and_not_reported() {
        let mut decision = lost();
        for (found, pause) in [
            (Found::Busy, BUSY_PAUSE),
            (Found::Listens, START_PAUSE),
            (Found::TooSoon(Duration::from_secs(7)), Duration::from_secs(7)),
        ] {
            assert_eq!(looks(&mut decision, found), [Effect::Alarm(pause)]);
        }
    }

    #[test]
    fn failures_are_a_minute_apart_and_noted_when_they_change() {
        let mut decision = lost();
        let full = || Found::Failed("disk full".to_owned());
        assert!(matches!(&looks(&mut decision, full())[..], [Effect::Alarm(START_PAUSE), Effect::Note(note)]
            if note.contains("disk full")));
        assert_eq!(looks(&mut decision, full()), [Effect::Alarm(START_PAUSE)]);
        looks(&mut decision, Found::Started);
        let effects = decision.handle(Input::Report(StartReport::Failed("bad database".to_owned())));
        assert!(matches!(&effects[..], [Effect::Release, Effect::Alarm(START_PAUSE), Effect::Note(_)]));
    }

    #[test]
    fn a_start_that_says_nothing_is_given_up_after_a_minute() {
        let mut decision = lost();
        looks(&mut decision, Found::Started);
        let effects = decision.handle(Input::Due);
        assert!(matches!(&effects[..], [Effect::Release, Effect::Alarm(START_PAUSE), Effect::Note(_)]));
    }

    #[test]
    fn after_a_start_the_next_check_is_a_minute_later() {
        let said = [
            None,
            Some(Input::Report(StartReport::Ready)),
            Some(Input::Report(StartReport::Failed("x".to_owned()))),
            Some(Input::Lost),
            Some(Input::Found(Found::Busy)),
        ];
        for first in &said {
            for second in &said {
                let mut decision = lost();
                looks(&mut decision, Found::Started);
                let mut waited = START_PAUSE;
                for input in [first, second].into_iter().flatten() {
                    for effect in decision.handle(input.clone()) {
                        assert_ne!(effect, Effect::Check, "{first:?} {second:?}");
                        if let Effect::Alarm(pause) = effect {
                            waited = pause;
                        }
                    }
                }
                let unsaid =
                    !matches!(first, Some(Input::Report(_))) && !matches!(second, Some(Input::Report(_)));
                let late = decision.handle(Input::Due);
                assert_eq!(late.contains(&Effect::Check), !unsaid, "{first:?} {second:?}: {late:?}");
                if second != &said[4] {
                    assert!(waited >= START_PAUSE, "{first:?} {second:?}");
                }
            }
        }
    }
}
