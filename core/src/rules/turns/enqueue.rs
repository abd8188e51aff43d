//! A message that may have to wait, and when the next queued turn is opened.

use subagent_protocol::data::EventData;
use subagent_protocol::data::turns::{QueueResumedEvent, TurnQueued};
use subagent_protocol::state::QueuePause;
use subagent_protocol::{Code, Error, Result};

use super::{cancel, queue, turn};
use crate::model::{By, Fact, LifecycleState, QueuePosition, Queued};
use crate::rules::reasons::{STEERED, stopped_for_good};
use crate::rules::transition::TransitionBuilder;

/// Sends a message, or queues it.
pub(in crate::rules) fn enqueue(
    next: &mut TransitionBuilder,
    queued: Queued,
    urgency: QueuePosition,
    most: usize,
) -> Result<()> {
    let waiting = next.worker.queue.turns.len();
    let steered = matches!(urgency, QueuePosition::Steered | QueuePosition::Ahead);
    match &next.worker.state {
        LifecycleState::Stopping(_) | LifecycleState::Stopped => {
            return Err(stopped_for_good(next.worker.public_state()));
        }
        LifecycleState::Idle | LifecycleState::Error
            if urgency.is_at_once(waiting) && !next.worker.is_parked() =>
        {
            turn::begin(next, queued.turn_id, queued.message, queued.input, By::Runtime);
            return Ok(());
        }
        // It would be the first, and would never start.
        _ if steered && next.worker.queue.paused.is_some() => return Err(queue::is_paused(next)),
        _ => {}
    }
    if waiting >= most {
        let message = format!("the queue is full ({most} messages); drop one or wait");
        let error = Error::new(Code::QueueFull, message).with("limit", most).with("length", waiting);
        return Err(error);
    }
    let turn_id = queued.turn_id.clone();
    if steered {
        next.worker.queue.turns.push_front(turn_id.clone());
    } else {
        next.worker.queue.turns.push_back(turn_id.clone());
    }
    let position = if steered { 1 } else { waiting + 1 };
    next.facts.push(Fact::TurnQueued { queued, first: steered });
    next.event(EventData::TurnQueued(TurnQueued { turn_id, position: position as u64 }), None);
    match &next.worker.state {
        LifecycleState::Turn(_) | LifecycleState::Local(_) if steered => {
            cancel::cancel(next, STEERED.to_owned())
        }
        _ if urgency == QueuePosition::Resumed => resume_queue(next),
        _ => Ok(()),
    }
}

/// Opens the next turn of a queue that is not gated. Called at the end of each step.
pub(in crate::rules) fn open_next(next: &mut TransitionBuilder) {
    if !next.worker.queue.gated {
        open_first(next);
    }
}

/// Opens the next turn after a check, or pauses the queue if it was refused.
pub(in crate::rules) fn open_queued(next: &mut TransitionBuilder, refused: Option<Error>) {
    match refused {
        Some(error) if next.worker.waits_to_open() => {
            next.facts.push(Fact::LastError(Some(error)));
            queue::pause(next, QueuePause::Budget, None);
        }
        Some(_) => {}
        None => open_first(next),
    }
}

fn open_first(next: &mut TransitionBuilder) {
    if !next.worker.waits_to_open() {
        return;
    }
    let Some(id) = next.worker.queue.turns.pop_front() else { return };
    let no = turn::next_number(next);
    next.facts.push(Fact::QueuedTurnOpened { no, id: id.clone() });
    turn::give_to_runtime(next, no, id);
}

/// Resumes a paused queue.
pub(in crate::rules) fn resume_queue(next: &mut TransitionBuilder) -> Result<()> {
    if let LifecycleState::Stopping(_) | LifecycleState::Stopped = next.worker.state {
        return Err(stopped_for_good(next.worker.public_state()));
    }
    if next.worker.queue.paused.take().is_some() {
        let length = next.worker.queue.turns.len();
        next.event(EventData::QueueResumed(QueueResumedEvent { length: length as u64 }), None);
    }
    Ok(())
}
