//! Carries out decisions about a daemon that died.

use super::alarms::{Alarm, Alarms};
use crate::daemon_start::starter::{Starter, Starting};
use crate::daemon_start::{Decision, Effect, Found, Input};
use crate::stderr::Log;

/// A dead daemon and its replacement.
pub(super) struct DaemonRestart {
    decision: Decision,
    starter: Starter,
    pub(super) starting: Option<Starting>,
}

impl DaemonRestart {
    pub(super) fn new(starter: Starter) -> Self {
        Self { decision: Decision::default(), starter, starting: None }
    }

    /// Handles an input. A runtime that is ending starts nothing.
    pub(super) fn take(&mut self, input: Input, is_ending: bool, alarms: &mut Alarms, log: &mut Log) {
        if input == Input::Served {
            self.starter.served();
        }
        for effect in self.decision.handle(input) {
            match effect {
                Effect::Check => {
                    let (found, starting) = if is_ending {
                        (Found::NotWanted("this runtime is ending"), None)
                    } else {
                        self.starter.look()
                    };
                    self.starting = starting;
                    self.take(Input::Found(found), is_ending, alarms, log);
                }
                Effect::Alarm(after) => alarms.set(Alarm::DaemonCheck, after),
                Effect::NoAlarm => alarms.clear(Alarm::DaemonCheck),
                Effect::Release => self.starting = None,
                Effect::Note(message) => log.note(&message),
            }
        }
    }

    /// Reads the report of the started daemon.
    pub(super) fn read(&mut self) -> Option<Input> {
        self.starting.as_mut().and_then(Starting::read).map(Input::Report)
    }
}
