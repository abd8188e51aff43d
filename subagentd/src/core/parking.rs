//! Parking: a worker whose provider limits its rate waits, and continues by itself. No turn is
//! opened meanwhile. An open turn whose prompt was not sent is given to the next runtime; any other
//! has failed.

use serde_json::json;
use subagent_protocol::api::{WorkerParked, WorkerUnparked};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::TurnId;
use subagent_protocol::record::TurnEnd;
use subagent_protocol::state::{ParkReason, UnparkReason};
use subagent_protocol::time::Timestamp;

use super::rate_limit::Limit;
use super::step::TransitionBuilder;
use super::worker::{LifecycleState, RuntimeStatus, RuntimeTurn, Worker, WorkerAction, WorkerInput};

impl WorkerInput {
    /// Returns the input with the rate limit that its error reports, if any. `at` is the time of
    /// the record.
    #[must_use]
    pub(crate) fn with_limit(self, at: Timestamp) -> Self {
        let error = match &self {
            Self::TurnEnd { end: TurnEnd::Failed { error }, .. } | Self::StartFailed { error } => error,
            _ => return self,
        };
        match Limit::reported(error, at) {
            Some(limit) => Self::RateLimited { limit, input: Box::new(self) },
            None => self,
        }
    }
}

impl Worker {
    /// Returns whether the worker waits for the end of a rate limit.
    #[must_use]
    pub(crate) fn is_parked(&self) -> bool {
        self.parking.until.is_some()
    }

    /// Returns whether its open turn waits, too, because the prompt was not sent.
    #[must_use]
    pub(crate) fn holds_turn(&self) -> bool {
        let unsent =
            matches!(self.state, LifecycleState::Turn(RuntimeTurn { dispatching: false, cancel: None, .. }));
        unsent && self.is_parked()
    }

    /// Returns when the worker continues by itself. `None` while the runtime lives that failed to
    /// start for its turn.
    #[must_use]
    pub(crate) fn unparks_at(&self) -> Option<Timestamp> {
        self.parking.until.filter(|_| !(self.holds_turn() && self.link != RuntimeStatus::None))
    }
}

impl TransitionBuilder {
    /// Parks the worker if the input reported a rate limit. Returns whether the worker is parked
    /// now.
    pub(super) fn park(&mut self, turn: Option<&TurnId>) -> bool {
        let Some(limit) = self.limit.take() else { return false };
        if matches!(self.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
            return false;
        }
        let Some(parking) = self.worker.parking.after(limit) else {
            self.worker.parking.backoffs = 0;
            return false;
        };
        self.worker.parking = parking;
        let data = WorkerParked {
            until: parking.until.unwrap_or(limit.at),
            reason: ParkReason::RateLimit,
            turn_id: turn.cloned(),
            backoff: limit.until.is_none().then_some(parking.backoffs),
        };
        self.event(EventType::WorkerParked, json!(data), None);
        true
    }

    /// Ends the parking and continues.
    pub(super) fn unpark(&mut self, reason: UnparkReason) {
        if reason != UnparkReason::Due {
            self.worker.parking.backoffs = 0;
        }
        let holds_turn = self.worker.holds_turn();
        if self.worker.parking.until.take().is_none() {
            return;
        }
        self.event(EventType::WorkerUnparked, json!(WorkerUnparked { reason }), None);
        match self.worker.link {
            RuntimeStatus::None if holds_turn => {
                self.worker.link = RuntimeStatus::Starting;
                self.actions.push(WorkerAction::StartRuntime);
            }
            _ => self.prompt_if_waiting(),
        }
    }
}
