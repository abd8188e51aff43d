//! Changes of the queue: pausing it, dropping and moving its messages.

use subagent_protocol::api::not_queued;
use subagent_protocol::data::EventData;
use subagent_protocol::data::turns::{QueuePaused, QueueResumedEvent, TurnDroppedEvent, TurnQueued};
use subagent_protocol::ids::TurnId;
use subagent_protocol::state::QueuePause;
use subagent_protocol::{Code, Error, Result};

use crate::model::Fact;
use crate::rules::reasons::STOPPED_BY_MANAGER;
use crate::rules::transition::TransitionBuilder;

/// Reason in the event of a dropped message.
const DROPPED: &str = "dropped by manager";

/// Returns the error for a message that would overtake a paused queue.
pub(super) fn is_paused(next: &TransitionBuilder) -> Error {
    let waiting = next.worker.queue.turns.len();
    let message = format!(
        "the queue is paused, and its messages ({waiting}) come first: run `queue resume`, drop them \
         with `turn drop`, or send this one ahead of them to the idle worker with `--if-busy steer`"
    );
    let reason = next.worker.queue.paused.map(QueuePause::as_str);
    let state = next.worker.public_state().as_str();
    Error::new(Code::QueuePaused, message).with("length", waiting).with("reason", reason).with("state", state)
}

/// Pauses the queue until a client resumes it.
pub(in crate::rules) fn pause(next: &mut TransitionBuilder, reason: QueuePause, turn: Option<&TurnId>) {
    let length = next.worker.queue.turns.len();
    if length == 0 || next.worker.queue.paused.is_some() {
        return;
    }
    next.worker.queue.paused = Some(reason);
    let data = QueuePaused { reason, length: length as u64, turn_id: turn.cloned() };
    next.event(EventData::QueuePaused(data), None);
}

pub(in crate::rules) fn drop_queued(next: &mut TransitionBuilder, turn_id: &TurnId) -> Result<()> {
    let index = index_of(next, turn_id)?;
    next.worker.queue.turns.remove(index);
    dropped(next, turn_id, DROPPED);
    not_paused_if_empty(next);
    Ok(())
}

/// Moves a message to a position, from 1. Larger positions mean the last.
pub(in crate::rules) fn move_queued(next: &mut TransitionBuilder, turn_id: &TurnId, to: usize) -> Result<()> {
    let index = index_of(next, turn_id)?;
    let to = to.clamp(1, next.worker.queue.turns.len()) - 1;
    if index == to {
        return Ok(());
    }
    if let Some(moved) = next.worker.queue.turns.remove(index) {
        next.worker.queue.turns.insert(to, moved);
    }
    next.facts.push(Fact::QueueOrdered { turns: next.worker.queue.turns.iter().cloned().collect() });
    let moved = TurnQueued { turn_id: turn_id.clone(), position: to as u64 + 1 };
    next.event(EventData::TurnMoved(moved), None);
    Ok(())
}

/// Drops all messages of a worker that is being stopped.
pub(in crate::rules) fn drop_all_queued(next: &mut TransitionBuilder) {
    next.worker.queue.paused = None;
    for turn_id in std::mem::take(&mut next.worker.queue.turns) {
        dropped(next, &turn_id, STOPPED_BY_MANAGER);
    }
}

/// Drops all messages of a task that ends.
pub(in crate::rules) fn drop_for_good(next: &mut TransitionBuilder, reason: &str) {
    for turn_id in std::mem::take(&mut next.worker.queue.turns) {
        dropped(next, &turn_id, reason);
    }
    not_paused_if_empty(next);
}

/// Checks that this message is queued.
pub(in crate::rules) fn waits(next: &TransitionBuilder, turn_id: &TurnId) -> Result<()> {
    index_of(next, turn_id).map(drop)
}

/// Removes a message that a runtime has got already, so that it is not sent twice.
pub(in crate::rules) fn unqueue_recovered(next: &mut TransitionBuilder, turn_id: &TurnId) {
    if let Ok(index) = index_of(next, turn_id) {
        next.worker.queue.turns.remove(index);
        next.facts.push(Fact::TurnUnqueued { id: turn_id.clone() });
        not_paused_if_empty(next);
    }
}

fn index_of(next: &TransitionBuilder, turn_id: &TurnId) -> Result<usize> {
    let index = next.worker.queue.turns.iter().position(|queued| queued == turn_id);
    index.ok_or_else(|| not_queued(turn_id.as_str()))
}

fn dropped(next: &mut TransitionBuilder, turn_id: &TurnId, reason: &str) {
    next.facts.push(Fact::TurnUnqueued { id: turn_id.clone() });
    let data = TurnDroppedEvent { turn_id: turn_id.clone(), reason: reason.to_owned() };
    next.event(EventData::TurnDropped(data), None);
}

fn not_paused_if_empty(next: &mut TransitionBuilder) {
    if next.worker.queue.turns.is_empty() && next.worker.queue.paused.take().is_some() {
        next.event(EventData::QueueResumed(QueueResumedEvent { length: 0 }), None);
    }
}
