//! Hibernation: the runtime of an idle worker ends in order, and another one is started when the
//! agent is needed again.

use subagent_protocol::data::EventData;
use subagent_protocol::data::workers::Hibernated;

use crate::model::{Hibernation, LifecycleState, RuntimeStatus, WorkerAction};
use crate::rules::transition::TransitionBuilder;
use crate::rules::turns::turn;

/// Asks the runtime to end. Does nothing if the worker is no longer at rest.
pub(in crate::rules) fn hibernate(next: &mut TransitionBuilder, idle_seconds: u64) {
    if next.worker.rests() {
        next.worker.hibernation = Hibernation::Wanted { idle_seconds };
        end_for_hibernation(next);
    }
}

fn end_for_hibernation(next: &mut TransitionBuilder) {
    next.worker.link = RuntimeStatus::Ending;
    next.actions.push(WorkerAction::Hibernate { last_turn: next.worker.last_turn });
}

/// Keeps a runtime that refused to end, and sends it what arrived meanwhile.
pub(in crate::rules) fn hibernate_refused(next: &mut TransitionBuilder) {
    if !gives_hibernation_up(next) {
        return;
    }
    // Another reason to end it takes precedence.
    if next.worker.link == RuntimeStatus::Ending {
        next.worker.link = RuntimeStatus::Ready;
        turn::prompt_if_waiting(next);
    }
}

/// Cancels a wanted hibernation in favor of another use of the runtime. Returns whether one was
/// wanted.
pub(super) fn gives_hibernation_up(next: &mut TransitionBuilder) -> bool {
    let wanted = hibernation_is_wanted(next);
    if wanted {
        next.worker.hibernation = Hibernation::None;
    }
    wanted
}

fn hibernation_is_wanted(next: &TransitionBuilder) -> bool {
    matches!(next.worker.hibernation, Hibernation::Wanted { .. })
}

/// Handles the hello of a runtime that did not get the command to end. Returns whether it is
/// sent again.
pub(super) fn attached_awake(next: &mut TransitionBuilder, reported: RuntimeStatus, last_turn: u64) -> bool {
    if reported >= RuntimeStatus::Ending || !hibernation_is_wanted(next) {
        return false;
    }
    next.worker.last_turn = next.worker.last_turn.max(last_turn);
    if next.worker.state == LifecycleState::Idle && next.worker.approvals.is_empty() {
        end_for_hibernation(next);
        return true;
    }
    // There is work now, so the runtime stays.
    next.worker.hibernation = Hibernation::None;
    next.worker.link = reported;
    false
}

/// Handles the end of a runtime. Returns whether it ended for hibernation.
pub(super) fn hibernates(next: &mut TransitionBuilder) -> bool {
    let Hibernation::Wanted { idle_seconds } = next.worker.hibernation else { return false };
    next.worker.hibernation = Hibernation::Begun;
    next.event(EventData::WorkerHibernated(Hibernated { idle_seconds }), None);
    true
}

/// Starts a runtime for a hibernating worker.
pub(in crate::rules) fn wake(next: &mut TransitionBuilder) {
    let idle = matches!(next.worker.state, LifecycleState::Idle | LifecycleState::Local(_));
    if idle && next.worker.hibernation == Hibernation::Begun && next.worker.link == RuntimeStatus::None {
        start_for_waking(next);
    }
}

/// Starts the runtime that an order needs.
pub(super) fn start_for_waking(next: &mut TransitionBuilder) {
    next.worker.link = RuntimeStatus::Starting;
    next.actions.push(WorkerAction::StartRuntime);
}

/// Records that the worker has a runtime again. Returns whether it hibernated.
pub(super) fn is_awake(next: &mut TransitionBuilder) -> bool {
    std::mem::replace(&mut next.worker.hibernation, Hibernation::None) == Hibernation::Begun
}
