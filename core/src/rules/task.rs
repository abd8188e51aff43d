//! A worker of a task: its early end, and messages that are joined in its queue.

use subagent_protocol::ids::TurnId;
use subagent_protocol::{Error, Result};

use super::transition::TransitionBuilder;
use super::turns::{cancel, queue};
use crate::model::{Fact, LifecycleState, TaskEnding};

/// Ends the worker's task: drops queued messages and cancels the open turn.
pub(super) fn end_task(next: &mut TransitionBuilder, ending: TaskEnding, reason: &str) -> Result<()> {
    if matches!(next.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
        return Ok(());
    }
    let turn = next.worker.turn().map(|turn| turn.no);
    next.facts.push(Fact::TaskEnding(ending));
    next.facts.push(Fact::TaskCause { error: Error::new(ending.code(), reason), turn });
    queue::drop_for_good(next, reason);
    match next.worker.state {
        LifecycleState::Turn(_) | LifecycleState::Local(_) => cancel::cancel(next, reason.to_owned()),
        _ => Ok(()),
    }
}

/// Appends text to a queued message.
pub(super) fn append_queued(next: &mut TransitionBuilder, turn_id: TurnId, text: String) -> Result<()> {
    queue::waits(next, &turn_id)?;
    next.facts.push(Fact::QueuedAppended { id: turn_id, text });
    Ok(())
}
