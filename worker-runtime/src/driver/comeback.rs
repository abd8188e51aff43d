//! Carries out what is decided about a daemon that died.

use super::Driver;
use super::alarms::Alarm;
use crate::daemon_start::starter::{Starter, Starting};
use crate::daemon_start::{Decision, Effect, Found, Input};

/// A daemon that died, and the one that is started in its place.
pub(super) struct Comeback {
    decision: Decision,
    starter: Starter,
    pub(super) starting: Option<Starting>,
}

impl Comeback {
    pub(super) fn new(starter: Starter) -> Self {
        Self { decision: Decision::default(), starter, starting: None }
    }
}

impl Driver {
    /// A daemon was greeted.
    pub(super) fn daemon_came(&mut self) {
        if let Some(comeback) = &mut self.comeback {
            comeback.starter.served();
        }
        self.decide(Input::Served);
    }

    /// What the daemon that was started says can be read.
    pub(super) fn read_readiness(&mut self) {
        let starting = self.comeback.as_mut().and_then(|comeback| comeback.starting.as_mut());
        if let Some(said) = starting.and_then(Starting::read) {
            self.decide(Input::Said(said));
        }
    }

    pub(super) fn decide(&mut self, input: Input) {
        let Some(comeback) = &mut self.comeback else { return };
        for effect in comeback.decision.handle(input) {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Look => self.look_for_a_daemon(),
            Effect::Alarm(after) => self.alarms.set(Alarm::Comeback, after),
            Effect::NoAlarm => self.alarms.clear(Alarm::Comeback),
            Effect::LetGo => {
                if let Some(comeback) = &mut self.comeback {
                    comeback.starting = None;
                }
            }
            Effect::Note(message) => self.log.note(&message),
        }
    }

    fn look_for_a_daemon(&mut self) {
        // A runtime whose state dir is gone ends.
        self.look_at_lock();
        let Some(comeback) = &mut self.comeback else { return };
        let found = if self.conversation.is_ending() {
            Found::NotWanted("this runtime is ending")
        } else {
            let (found, starting) = comeback.starter.look();
            comeback.starting = starting;
            found
        };
        self.decide(Input::Found(found));
    }
}
