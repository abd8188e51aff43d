//! The open turn: how it begins, and when its prompt is sent.

use serde_json::Value;
use subagent_protocol::data::EventData;
use subagent_protocol::data::turns::{TurnInput, TurnStarted};
use subagent_protocol::ids::TurnId;
use subagent_protocol::state::Carrier;
use subagent_protocol::{Code, Error, Result};

use crate::model::{By, Fact, LifecycleState, RuntimeStatus, RuntimeTurn, WorkerAction};
use crate::rules::simulated;
use crate::rules::transition::TransitionBuilder;

/// Opens a turn. No turn may be open.
pub(super) fn begin(next: &mut TransitionBuilder, turn_id: TurnId, message: Value, input: TurnInput, by: By) {
    let no = next_number(next);
    let carrier = match by {
        By::Runtime => Carrier::Runtime,
        By::Local | By::LocalAsking { .. } => Carrier::Local,
    };
    next.facts.push(Fact::TurnOpened { no, id: turn_id.clone(), carrier });
    let started = TurnStarted { turn_id: turn_id.clone(), input: Some(input), recovered: None };
    next.event(EventData::TurnStarted(started), Some(no));
    next.facts.push(Fact::MessageSent { message, turn: no });
    match by {
        By::Runtime => give_to_runtime(next, no, turn_id),
        By::Local => simulated::play(next, no, &turn_id),
        By::LocalAsking { request_id } => simulated::ask_locally(next, no, turn_id, request_id),
    }
}

/// Takes the next turn number.
pub(super) fn next_number(next: &mut TransitionBuilder) -> u64 {
    let no = next.worker.last_turn + 1;
    next.worker.last_turn = no;
    next.worker.known_turn = no;
    no
}

/// Assigns an open turn to the runtime, and starts one if necessary.
pub(super) fn give_to_runtime(next: &mut TransitionBuilder, no: u64, id: TurnId) {
    next.worker.state =
        LifecycleState::Turn(RuntimeTurn { no, id, dispatching: false, retried: false, cancel: None });
    match next.worker.link {
        RuntimeStatus::None => {
            next.worker.link = RuntimeStatus::Starting;
            next.actions.push(WorkerAction::StartRuntime);
        }
        RuntimeStatus::Ready => next.actions.push(WorkerAction::Prompt { turn: no }),
        // Waits for its hello, its session, or the end of the old runtime.
        RuntimeStatus::Adopted | RuntimeStatus::Starting | RuntimeStatus::Ending => {}
    }
}

pub(in crate::rules) fn prompt_if_waiting(next: &mut TransitionBuilder) {
    if let LifecycleState::Turn(RuntimeTurn { no, dispatching: false, cancel: None, .. }) = next.worker.state
        && next.worker.link == RuntimeStatus::Ready
    {
        next.actions.push(WorkerAction::Prompt { turn: no });
    }
}

pub(in crate::rules) fn open_turn(next: &mut TransitionBuilder, no: u64) -> Result<&mut RuntimeTurn> {
    match &mut next.worker.state {
        LifecycleState::Turn(turn) | LifecycleState::Stopping(Some(turn)) if turn.no == no => Ok(turn),
        LifecycleState::Starting
        | LifecycleState::Idle
        | LifecycleState::Turn(_)
        | LifecycleState::Local(_)
        | LifecycleState::Stopping(_)
        | LifecycleState::Error
        | LifecycleState::Stopped => {
            Err(Error::new(Code::Internal, format!("the journal speaks of turn {no}, which is not open")))
        }
    }
}

/// The prompt of a turn is about to be sent.
pub(in crate::rules) fn dispatching(next: &mut TransitionBuilder, turn: u64) -> Result<()> {
    open_turn(next, turn)?.dispatching = true;
    next.facts.push(Fact::TurnDispatching { no: turn });
    Ok(())
}
