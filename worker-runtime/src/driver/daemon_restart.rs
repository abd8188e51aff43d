//! Carries out decisions about a daemon that died.

use super::alarms::{Alarm, Alarms};
use crate::daemon_start::starter::{DaemonStarter, PendingDaemon};
use crate::daemon_start::{DaemonCheckResult, DaemonStartEffect, DaemonStartInput, DaemonStartMachine};
use crate::stderr::StderrLog;

/// A dead daemon and its replacement.
pub(super) struct DaemonReplacement {
    decision: DaemonStartMachine,
    starter: DaemonStarter,
    pub(super) starting: Option<PendingDaemon>,
}

impl DaemonReplacement {
    pub(super) fn new(starter: DaemonStarter) -> Self {
        Self { decision: DaemonStartMachine::default(), starter, starting: None }
    }

    /// Handles an input. A runtime that is ending starts nothing.
    pub(super) fn take(
        &mut self,
        input: DaemonStartInput,
        is_ending: bool,
        alarms: &mut Alarms,
        log: &mut StderrLog,
    ) {
        if input == DaemonStartInput::Served {
            self.starter.served();
        }
        for effect in self.decision.handle(input) {
            match effect {
                DaemonStartEffect::Check => {
                    let (found, starting) = if is_ending {
                        (DaemonCheckResult::NotWanted("this runtime is ending"), None)
                    } else {
                        self.starter.look()
                    };
                    self.starting = starting;
                    self.take(DaemonStartInput::Found(found), is_ending, alarms, log);
                }
                DaemonStartEffect::Alarm(after) => alarms.set(Alarm::DaemonCheck, after),
                DaemonStartEffect::NoAlarm => alarms.clear(Alarm::DaemonCheck),
                DaemonStartEffect::Release => self.starting = None,
                DaemonStartEffect::Note(message) => log.note(&message),
            }
        }
    }

    /// Reads the report of the started daemon.
    pub(super) fn read(&mut self) -> Option<DaemonStartInput> {
        self.starting.as_mut().and_then(PendingDaemon::read).map(DaemonStartInput::Report)
    }
}
