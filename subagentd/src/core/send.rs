//! The start of a turn: a message for a worker without an open turn.

use serde_json::{Value, json};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::state::{Carrier, ParkReason, QuestionKind};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::approval::Approval;
use super::step::TransitionBuilder;
use super::worker::{By, Fact, LifecycleState, RuntimeStatus, RuntimeTurn, WorkerAction, stopped_for_good};

/// Returns the error for a message to a parked worker that must not be queued.
fn parked(until: Timestamp) -> Error {
    let message = format!(
        "the worker is parked until {until} by its provider's rate limit; queue the message with `--queue`, \
         or end that with `worker resume`"
    );
    Error::new(Code::WorkerBusy, message)
        .retryable()
        .with("parked", json!({"until": until, "reason": ParkReason::RateLimit}))
}

impl TransitionBuilder {
    pub(super) fn send(&mut self, turn_id: TurnId, message: Value, input: &Value, by: By) -> Result<()> {
        let state = self.worker.public_state();
        if self.worker.holds_turn()
            && let Some(until) = self.worker.parking.until
        {
            return Err(parked(until).with("state", state.as_str()));
        }
        match self.worker.state {
            LifecycleState::Idle | LifecycleState::Error => {}
            LifecycleState::Stopping(_) | LifecycleState::Stopped => return Err(stopped_for_good(state)),
            LifecycleState::Starting | LifecycleState::Turn(_) | LifecycleState::Local(_) => {
                let error = match self.asks() {
                    Some((request_id, kind)) => {
                        let what = match kind {
                            QuestionKind::Permission => "the worker asks for a permission",
                            QuestionKind::Elicitation => "the worker asks a question (see `subagent answer`)",
                        };
                        Error::new(Code::WorkerBusy, format!("{what}; answer it, or cancel the turn"))
                            .with("pendingRequestId", request_id.as_str())
                    }
                    None => Error::new(
                        Code::WorkerBusy,
                        format!("the worker is {state}; wait for the end of its turn, or cancel it"),
                    ),
                };
                return Err(error.with("state", state.as_str()));
            }
        }
        if let Some(until) = self.worker.parking.until {
            return Err(parked(until).with("state", state.as_str()));
        }
        if self.worker.waits_to_open() {
            let message = "the worker is about to begin its next queued turn; wait for the end of that turn";
            return Err(Error::new(Code::WorkerBusy, message).with("state", state.as_str()));
        }
        if !self.worker.queue.turns.is_empty() {
            // A message must not overtake the queue by accident.
            return Err(self.is_paused());
        }
        self.begin(turn_id, message, input, by);
        Ok(())
    }

    /// Opens a turn. No turn may be open.
    pub(super) fn begin(&mut self, turn_id: TurnId, message: Value, input: &Value, by: By) {
        let no = self.next_number();
        let carrier = match by {
            By::Runtime => Carrier::Runtime,
            By::Local | By::LocalAsking { .. } => Carrier::Local,
        };
        self.facts.push(Fact::TurnOpened { no, id: turn_id.clone(), carrier });
        self.event(EventType::TurnStarted, json!({"turnId": turn_id, "input": input}), Some(no));
        self.event(EventType::MessageSent, message, Some(no));
        match by {
            By::Runtime => self.give_to_runtime(no, turn_id),
            By::Local => self.play(no, &turn_id),
            By::LocalAsking { request_id } => self.ask_locally(no, turn_id, request_id),
        }
    }

    /// Takes the next turn number.
    pub(super) fn next_number(&mut self) -> u64 {
        let no = self.worker.last_turn + 1;
        self.worker.last_turn = no;
        self.worker.known_turn = no;
        no
    }

    /// Returns the question that must be answered first, if there is one.
    fn asks(&self) -> Option<(&RequestId, QuestionKind)> {
        if let LifecycleState::Local(local) = &self.worker.state {
            return Some((&local.request_id, QuestionKind::Permission));
        }
        let mut open = self.worker.approvals.iter();
        open.find(|(_, asked)| asked.approval == Approval::Pending)
            .map(|(request_id, asked)| (request_id, asked.kind))
    }

    /// Assigns an open turn to the runtime, and starts one if necessary.
    pub(super) fn give_to_runtime(&mut self, no: u64, id: TurnId) {
        self.worker.state =
            LifecycleState::Turn(RuntimeTurn { no, id, dispatching: false, retried: false, cancel: None });
        match self.worker.link {
            RuntimeStatus::None => {
                self.worker.link = RuntimeStatus::Starting;
                self.actions.push(WorkerAction::StartRuntime);
            }
            RuntimeStatus::Ready => self.actions.push(WorkerAction::Prompt { turn: no }),
            // Waits for its hello, its session, or the end of the old runtime.
            RuntimeStatus::Adopted | RuntimeStatus::Starting | RuntimeStatus::Ending => {}
        }
    }
}
