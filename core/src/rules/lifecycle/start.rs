//! The start of an agent: its session, or why there is none.

use subagent_protocol::Error;
use subagent_protocol::data::EventData;
use subagent_protocol::data::workers::SessionOpened;
use subagent_protocol::record::{SessionOrigin, TurnEnd};
use subagent_protocol::state::QueuePause;

use super::hibernation;
use crate::model::{Fact, Hibernation, LifecycleState, Restart, RuntimeStatus, RuntimeTurn, Spent};
use crate::rules::transition::TransitionBuilder;
use crate::rules::turns::{parking, queue, turn, turn_end};

/// The agent has a session.
pub(in crate::rules) fn session(
    next: &mut TransitionBuilder,
    origin: SessionOrigin,
    context_lost: bool,
    context_lost_reason: Option<String>,
    took_ms: Option<u64>,
) {
    if origin == SessionOrigin::New {
        next.facts.push(Fact::Spent(Spent::NewSession));
    }
    // A starting worker never had a session, so even a resumed session is its first.
    let first =
        next.worker.state == LifecycleState::Starting || (origin == SessionOrigin::New && !context_lost);
    // A session of a runtime that must end does not start the worker.
    if next.worker.restart != Restart::Wanted && next.worker.link != RuntimeStatus::Ending {
        if next.worker.state == LifecycleState::Starting {
            next.worker.state = LifecycleState::Idle;
        }
        next.worker.link = RuntimeStatus::Ready;
        next.worker.restart = Restart::None;
        let was_hibernated = hibernation::is_awake(next);
        let opened = SessionOpened {
            session: origin,
            context_lost,
            context_lost_reason,
            hibernated: was_hibernated.then_some(true),
            took_ms: took_ms.filter(|_| was_hibernated),
        };
        let event = if first { EventData::WorkerStarted } else { EventData::WorkerRestarted };
        next.event(event(opened), None);
    }
    turn::prompt_if_waiting(next);
}

/// The agent could not create a session.
pub(in crate::rules) fn start_failed(next: &mut TransitionBuilder, error: Error) {
    if next.worker.restart == Restart::Begun {
        next.worker.restart = Restart::None;
    }
    next.worker.hibernation = Hibernation::None;
    next.facts.push(Fact::LastError(Some(error.clone())));
    match &next.worker.state {
        LifecycleState::Starting => {
            next.worker.state = LifecycleState::Error;
            if !parking::park(next, None) {
                queue::pause(next, QueuePause::StartFailed, None);
            }
        }
        LifecycleState::Turn(RuntimeTurn { dispatching: true, .. }) => {
            turn_end::close_turn(next, Some(TurnEnd::Failed { error }));
        }
        LifecycleState::Turn(turn) => {
            let held = turn.cancel.is_none().then(|| turn.id.clone());
            // The turn provably did not start, so the next runtime gets it.
            if held.is_some_and(|id| parking::park(next, Some(&id))) {
                return;
            }
            turn_end::close_turn(next, Some(TurnEnd::Failed { error: error.with("dispatched", "no") }));
        }
        LifecycleState::Stopping(_) => turn_end::close_turn(next, None),
        LifecycleState::Idle | LifecycleState::Local(_) | LifecycleState::Error | LifecycleState::Stopped => {
        }
    }
}
