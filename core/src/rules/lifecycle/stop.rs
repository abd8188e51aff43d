//! Stopping a worker for good.

use subagent_protocol::data::EventData;
use subagent_protocol::data::progress::Nothing;
use subagent_protocol::{Code, Error, Result};

use crate::model::{
    ApprovalInput, Cancel, Fact, Hibernation, LifecycleState, Parking, Restart, RuntimeStatus, WorkerAction,
};
use crate::rules::permissions::approvals;
use crate::rules::reasons::STOPPED_BY_MANAGER;
use crate::rules::simulated;
use crate::rules::transition::TransitionBuilder;
use crate::rules::turns::{queue, turn_end};

pub(in crate::rules) fn stop(next: &mut TransitionBuilder) {
    match &mut next.worker.state {
        LifecycleState::Stopped | LifecycleState::Stopping(_) => return,
        LifecycleState::Starting | LifecycleState::Idle | LifecycleState::Error => {
            next.worker.state = LifecycleState::Stopping(None)
        }
        LifecycleState::Turn(turn) => {
            let mut turn = turn.clone();
            if turn.cancel.is_none() {
                let cancel = Cancel { reason: STOPPED_BY_MANAGER.to_owned(), requested: false };
                next.facts.push(Fact::TurnCancel { no: turn.no, cancel: cancel.clone() });
                turn.cancel = Some(cancel);
            }
            next.worker.state = LifecycleState::Stopping(Some(turn));
        }
        LifecycleState::Local(local) => {
            let local = local.clone();
            simulated::stop_local(next, &local, STOPPED_BY_MANAGER);
            next.worker.state = LifecycleState::Stopping(None);
        }
    }
    next.worker.restart = Restart::None;
    next.worker.hibernation = Hibernation::None;
    next.worker.parking = Parking::default();
    next.facts.push(Fact::DesiredStop);
    queue::drop_all_queued(next);
    match next.worker.link {
        // The guard still ends processes of an earlier runtime; `NothingLeft` follows.
        RuntimeStatus::None => turn_end::close_turn(next, None),
        RuntimeStatus::Adopted | RuntimeStatus::Starting | RuntimeStatus::Ready | RuntimeStatus::Ending => {
            next.actions.push(WorkerAction::Terminate);
        }
    }
}

/// Stops a worker whose place does not answer, without proof of its end.
pub(in crate::rules) fn give_up(next: &mut TransitionBuilder) {
    if next.worker.state != LifecycleState::Stopped {
        next.event(EventData::WorkerGivenUp(Nothing {}), None);
        stop(next);
    }
}

/// Stops a worker that has failed and has no runtime, for its removal.
pub(in crate::rules) fn retire(next: &mut TransitionBuilder) -> Result<()> {
    match (&next.worker.state, next.worker.link) {
        (LifecycleState::Stopping(_) | LifecycleState::Stopped, _)
        | (LifecycleState::Error, RuntimeStatus::None) => {
            stop(next);
            Ok(())
        }
        _ => {
            let state = next.worker.public_state();
            let message = format!("the worker is {state}; only one that is stopped can be removed");
            Err(Error::new(Code::InvalidWorkerState, message).with("state", state.as_str()))
        }
    }
}

pub(in crate::rules) fn stopped_if_stopping(next: &mut TransitionBuilder) {
    if matches!(next.worker.state, LifecycleState::Stopping(_)) && next.worker.link == RuntimeStatus::None {
        turn_end::close_turn(next, None);
        approvals::end_approvals(next, &ApprovalInput::Lost, |_| true);
        next.worker.state = LifecycleState::Stopped;
        next.event(EventData::WorkerStopped(Nothing {}), None);
    }
}
