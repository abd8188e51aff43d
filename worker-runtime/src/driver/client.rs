//! Client requests of the agent, in order and as fast as the agent reads the responses. Carries out
//! nothing whose record is not written, and at most one request for an agent that does not read.

use std::time::Duration;

use super::agent;
use super::alarms::Alarm;
use super::state::Driver;
use crate::client::ClientEvent;
use crate::conversation::{ConversationInput, Storage};
use crate::guard;

/// How long the end waits for a terminal that is being started.
const START_TIMEOUT: Duration = Duration::from_secs(2);
/// Same as for the agent's own guard.
const RESCUE_ROUND: Duration = Duration::from_secs(2);
const RESCUE_PAUSE: Duration = Duration::from_secs(1);

/// Carries out the requests that are ready.
pub(super) fn serve_calls(driver: &mut Driver) {
    // Responses call this function again.
    if std::mem::replace(&mut driver.client.serves, true) {
        return;
    }
    while driver.records.storage == Storage::Ok && driver.agent.outgoing.has_room() {
        if let Some(call) = driver.client.calls.pop_front() {
            let Some(step) = driver.conversation.take_call(call) else { continue };
            let outcome = driver.client.executor.ask(call, step);
            let others = driver.client.executor.other_answers();
            apply_all(driver, others);
            if let Some(outcome) = outcome {
                driver.apply(ConversationInput::CallDone { call, outcome });
            }
        } else if let Some(failed) = driver.client.executor.begin_next() {
            apply_all(driver, failed);
        } else {
            break;
        }
    }
    driver.client.serves = false;
}

pub(super) fn client_event(driver: &mut Driver, event: ClientEvent) {
    if let ClientEvent::ConnectionRefused(text) = &event {
        driver.log.note(text);
    }
    let inputs = driver.client.executor.event(event);
    apply_all(driver, inputs);
    rescue_lost(driver);
    agent::try_deliver_exit(driver);
    serve_calls(driver);
}

fn apply_all(driver: &mut Driver, inputs: Vec<ConversationInput<'static>>) {
    for input in inputs {
        driver.apply(input);
    }
}

pub(super) fn end_calls(driver: &mut Driver) {
    driver.client.calls.clear();
    if driver.client.executor.end_all() {
        driver.alarms.set(Alarm::TerminalStart, START_TIMEOUT);
    }
}

/// A terminal whose start hangs no longer delays the end.
pub(super) fn give_up_start(driver: &mut Driver) {
    driver.client.executor.give_up();
    agent::try_deliver_exit(driver);
}

/// Ends the processes of terminals whose guard died.
pub(super) fn rescue_lost(driver: &mut Driver) {
    if !driver.client.executor.has_lost() {
        return;
    }
    let mut spare = driver.client.executor.guards();
    // Once the agent's own guard is gone, everything is ended.
    let agent = driver.agent.io.as_ref().filter(|agent| agent.status.is_some());
    spare.extend(agent.and_then(|agent| i32::try_from(agent.guard.id()).ok()));
    let report = guard::end_descendants(RESCUE_ROUND, &spare);
    if report.clean {
        driver.client.executor.rescued();
    } else {
        driver.log.note(&format!("these processes could not be ended yet: {:?}", report.remaining));
        driver.alarms.set(Alarm::RescueLost, RESCUE_PAUSE);
    }
}
