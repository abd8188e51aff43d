//! Client requests of the agent, in order and as fast as the agent reads the responses. Carries out
//! nothing whose record is not written, and at most one request for an agent that does not read.

use std::time::Duration;

use super::Driver;
use super::alarms::Alarm;
use crate::client::ClientEvent;
use crate::conversation::{ConversationInput, Storage};
use crate::guard;

/// How long the end waits for a terminal that is being started.
const START_TIMEOUT: Duration = Duration::from_secs(2);
/// Same as for the agent's own guard.
const RESCUE_ROUND: Duration = Duration::from_secs(2);
const RESCUE_PAUSE: Duration = Duration::from_secs(1);

impl Driver {
    /// Carries out the requests that are ready.
    pub(super) fn serve_calls(&mut self) {
        // Responses call this function again.
        if std::mem::replace(&mut self.serves_calls, true) {
            return;
        }
        while self.storage == Storage::Ok && self.outgoing.has_room() {
            if let Some(call) = self.calls.pop_front() {
                let Some(step) = self.conversation.take_call(call) else { continue };
                let outcome = self.client.ask(call, step);
                let others = self.client.other_answers();
                self.apply_all(others);
                if let Some(outcome) = outcome {
                    self.apply(ConversationInput::CallDone { call, outcome });
                }
            } else if let Some(failed) = self.client.begin_next() {
                self.apply_all(failed);
            } else {
                break;
            }
        }
        self.serves_calls = false;
    }

    pub(super) fn client_event(&mut self, event: ClientEvent) {
        if let ClientEvent::ConnectionRefused(text) = &event {
            self.log.note(text);
        }
        let inputs = self.client.event(event);
        self.apply_all(inputs);
        self.rescue_lost();
        self.try_deliver_exit();
        self.serve_calls();
    }

    fn apply_all(&mut self, inputs: Vec<ConversationInput<'static>>) {
        for input in inputs {
            self.apply(input);
        }
    }

    pub(super) fn end_calls(&mut self) {
        self.calls.clear();
        if self.client.end_all() {
            self.alarms.set(Alarm::TerminalStart, START_TIMEOUT);
        }
    }

    /// A terminal whose start hangs no longer delays the end.
    pub(super) fn give_up_start(&mut self) {
        self.client.give_up();
        self.try_deliver_exit();
    }

    /// Ends the processes of terminals whose guard died.
    pub(super) fn rescue_lost(&mut self) {
        if !self.client.has_lost() {
            return;
        }
        let mut spare = self.client.guards();
        // Once the agent's own guard is gone, everything is ended.
        let agent = self.agent.as_ref().filter(|agent| agent.status.is_some());
        spare.extend(agent.and_then(|agent| i32::try_from(agent.guard.id()).ok()));
        let report = guard::end_descendants(RESCUE_ROUND, &spare);
        if report.clean {
            self.client.rescued();
        } else {
            self.log.note(&format!("these processes could not be ended yet: {:?}", report.remaining));
            self.alarms.set(Alarm::RescueLost, RESCUE_PAUSE);
        }
    }
}
