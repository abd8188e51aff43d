//! Restart on request: the old runtime ends in order, then another one is started.

use subagent_protocol::data::EventData;
use subagent_protocol::data::progress::Nothing;
use subagent_protocol::{Code, Error, Result};

use super::hibernation;
use crate::model::{Fact, LifecycleState, Restart, RuntimeStatus, WorkerAction};
use crate::rules::reasons::{RESTARTED_BY_MANAGER, stopped_for_good};
use crate::rules::simulated;
use crate::rules::transition::TransitionBuilder;
use crate::rules::turns::cancel;

pub(in crate::rules) fn restart(next: &mut TransitionBuilder, force: bool, beside: bool) -> Result<()> {
    let state = next.worker.public_state();
    match &next.worker.state {
        LifecycleState::Stopping(_) | LifecycleState::Stopped => return Err(stopped_for_good(state)),
        // Its owner gives up the place that it waits for.
        LifecycleState::Starting if !beside => {
            let error = Error::new(Code::WorkerBusy, "the worker is being started; wait for it");
            return Err(error.retryable().with("state", state.as_str()));
        }
        LifecycleState::Turn(_) | LifecycleState::Local(_) if !force => {
            let message = format!("the worker is {state}; cancel its turn first, or use --force");
            return Err(Error::new(Code::WorkerBusy, message).with("state", state.as_str()));
        }
        // Its earlier cancel takes care of its end.
        LifecycleState::Turn(turn) if turn.cancel.is_some() => {}
        // A runtime that may have the prompt learns it from the terminate command.
        LifecycleState::Turn(_) => {
            cancel::cancel_turn(next, RESTARTED_BY_MANAGER.to_owned(), None);
        }
        LifecycleState::Local(local) => {
            let local = local.clone();
            simulated::cancel_local(next, &local, RESTARTED_BY_MANAGER.to_owned());
        }
        LifecycleState::Starting | LifecycleState::Idle | LifecycleState::Error => {}
    }
    if beside {
        next.event(EventData::WorkerDuplicateAccepted(Nothing {}), None);
    }
    next.worker.restart = Restart::Wanted;
    let in_effect = !hibernation::gives_hibernation_up(next);
    match next.worker.link {
        RuntimeStatus::None => begin_restart(next),
        // The earlier hibernate command may be refused.
        RuntimeStatus::Ending if !in_effect => end_for_restart(next),
        RuntimeStatus::Adopted | RuntimeStatus::Starting | RuntimeStatus::Ready => end_for_restart(next),
        RuntimeStatus::Ending => {}
    }
    Ok(())
}

/// Starts the new runtime after the old one is gone.
pub(super) fn begin_restart(next: &mut TransitionBuilder) {
    if next.worker.state == LifecycleState::Error {
        next.worker.state = LifecycleState::Starting;
    }
    next.facts.push(Fact::LastError(None));
    next.worker.restart = Restart::Begun;
    next.worker.link = RuntimeStatus::Starting;
    next.actions.push(WorkerAction::StartRuntime);
}

/// Terminates the old runtime, which ends an open turn itself.
pub(super) fn end_for_restart(next: &mut TransitionBuilder) {
    next.worker.link = RuntimeStatus::Ending;
    next.actions.push(WorkerAction::Terminate);
}
