//! Parking: a worker whose provider limits its rate waits, and continues by itself. No turn is
//! opened meanwhile. An open turn whose prompt was not sent is given to the next runtime; any other
//! has failed.

use subagent_protocol::api::{WorkerParked, WorkerUnparked};
use subagent_protocol::data::EventData;
use subagent_protocol::ids::TurnId;
use subagent_protocol::state::{ParkReason, UnparkReason};

use super::turn;
use crate::model::{LifecycleState, RuntimeStatus, WorkerAction};
use crate::rules::transition::TransitionBuilder;

/// Parks the worker if the input reported a rate limit. Returns whether the worker is parked
/// now.
pub(in crate::rules) fn park(next: &mut TransitionBuilder, turn: Option<&TurnId>) -> bool {
    let Some(limit) = next.limit.take() else { return false };
    if matches!(next.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
        return false;
    }
    let Some(parking) = next.worker.parking.after(limit) else {
        next.worker.parking.backoffs = 0;
        return false;
    };
    next.worker.parking = parking;
    let data = WorkerParked {
        until: parking.until.unwrap_or(limit.at),
        reason: ParkReason::RateLimit,
        turn_id: turn.cloned(),
        backoff: limit.until.is_none().then_some(parking.backoffs),
    };
    next.event(EventData::WorkerParked(data), None);
    true
}

/// Ends the parking and continues.
pub(in crate::rules) fn unpark(next: &mut TransitionBuilder, reason: UnparkReason) {
    if reason != UnparkReason::Due {
        next.worker.parking.backoffs = 0;
    }
    let holds_turn = next.worker.holds_turn();
    if next.worker.parking.until.take().is_none() {
        return;
    }
    next.event(EventData::WorkerUnparked(WorkerUnparked { reason }), None);
    match next.worker.link {
        RuntimeStatus::None if holds_turn => {
            next.worker.link = RuntimeStatus::Starting;
            next.actions.push(WorkerAction::StartRuntime);
        }
        _ => turn::prompt_if_waiting(next),
    }
}
