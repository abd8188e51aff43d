//! A message for a worker without an open turn: when it is refused.

use serde_json::{Value, json};
use subagent_protocol::data::turns::TurnInput;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::state::{ParkReason, QuestionKind};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::{queue, turn};
use crate::model::{Approval, By, LifecycleState};
use crate::rules::reasons::stopped_for_good;
use crate::rules::transition::TransitionBuilder;

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

pub(in crate::rules) fn send(
    next: &mut TransitionBuilder,
    turn_id: TurnId,
    message: Value,
    input: TurnInput,
    by: By,
) -> Result<()> {
    let state = next.worker.public_state();
    if next.worker.holds_turn()
        && let Some(until) = next.worker.parking.until
    {
        return Err(parked(until).with("state", state.as_str()));
    }
    match next.worker.state {
        LifecycleState::Idle | LifecycleState::Error => {}
        LifecycleState::Stopping(_) | LifecycleState::Stopped => return Err(stopped_for_good(state)),
        LifecycleState::Starting | LifecycleState::Turn(_) | LifecycleState::Local(_) => {
            let error = match asks(next) {
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
    if let Some(until) = next.worker.parking.until {
        return Err(parked(until).with("state", state.as_str()));
    }
    if next.worker.waits_to_open() {
        let message = "the worker is about to begin its next queued turn; wait for the end of that turn";
        return Err(Error::new(Code::WorkerBusy, message).with("state", state.as_str()));
    }
    if !next.worker.queue.turns.is_empty() {
        // A message must not overtake the queue by accident.
        return Err(queue::is_paused(next));
    }
    turn::begin(next, turn_id, message, input, by);
    Ok(())
}

/// Returns the question that must be answered first, if there is one.
fn asks(next: &TransitionBuilder) -> Option<(&RequestId, QuestionKind)> {
    if let LifecycleState::Local(local) = &next.worker.state {
        return Some((&local.request_id, QuestionKind::Permission));
    }
    let mut open = next.worker.approvals.iter();
    open.find(|(_, asked)| asked.approval == Approval::Pending)
        .map(|(request_id, asked)| (request_id, asked.kind))
}
