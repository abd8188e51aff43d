//! The end of a turn and of its questions: the events, and whether the queue continues.

use subagent_protocol::data::EventData;
use subagent_protocol::data::turns::{TurnCanceledEvent, TurnCompleted, TurnFailed};
use subagent_protocol::record::{ApprovalClosedReason, TurnEnd};
use subagent_protocol::state::{Dispatched, QueuePause, TurnStatus, UnparkReason};
use subagent_protocol::{Code, fields};

use super::{parking, queue};
use crate::model::{ApprovalInput, Fact, LifecycleState};
use crate::rules::permissions::approvals;
use crate::rules::reasons::STOPPED_BY_MANAGER;
use crate::rules::transition::TransitionBuilder;
use crate::rules::usage;

/// The ACP method that cancels a turn; agents must obey it.
const CANCEL: &str = "session/cancel";

/// Returns whether the agent ignored the cancel, so that its runtime ended it.
fn ignored_cancel(end: &TurnEnd) -> bool {
    let TurnEnd::Failed { error } = end else { return false };
    error.code == Code::BackendTimeout && error.facts().method.0 == Some(CANCEL)
}

/// Ends the open turn, if there is one. `end` is `None` if the runtime did not report an end.
pub(in crate::rules) fn close_turn(next: &mut TransitionBuilder, end: Option<TurnEnd>) {
    if let Some(no) = next.worker.turn().map(|turn| turn.no) {
        // The runtime closes questions before it ends a turn. A remaining one would stay open
        // forever. Questions from outside of the turn stay open.
        let closed = ApprovalInput::Closed(ApprovalClosedReason::TurnEnded);
        approvals::end_approvals(next, &closed, |asked| asked.turn == Some(no));
    }
    let turn = match &mut next.worker.state {
        LifecycleState::Turn(turn) => {
            let turn = turn.clone();
            next.worker.state = LifecycleState::Idle;
            turn
        }
        LifecycleState::Stopping(open) => match open.take() {
            Some(turn) => turn,
            None => return,
        },
        LifecycleState::Starting
        | LifecycleState::Idle
        | LifecycleState::Local(_)
        | LifecycleState::Error
        | LifecycleState::Stopped => return,
    };
    usage::spend_turn(next, &turn, end.as_ref());
    // A cancel that the runtime did not journal counts only if the runtime did not decide the
    // end.
    let is_lost = lost(end.as_ref());
    let own = !turn.dispatching || end.is_none() || is_lost;
    let canceled = turn.cancel.as_ref().filter(|cancel| cancel.requested || own);
    let turn_id = turn.id.clone();
    let (status, data) = match (canceled, end) {
        (Some(cancel), end) => {
            let forced = end.as_ref().is_some_and(ignored_cancel).then_some(true);
            let data = TurnCanceledEvent { turn_id, reason: cancel.reason.clone(), forced };
            (TurnStatus::Canceled, EventData::TurnCanceled(data))
        }
        (None, Some(TurnEnd::Answered { stop_reason, usage, meta })) => {
            let usage = fields::usage_of_turn(usage.as_ref(), meta.as_ref());
            let data = TurnCompleted { stop_reason, usage, ..TurnCompleted::new(turn_id, "completed") };
            // Cleared only by a completed turn, so that the next message does not hide the last
            // error.
            next.facts.push(Fact::LastError(None));
            (TurnStatus::Completed, EventData::TurnCompleted(data))
        }
        (None, Some(TurnEnd::Failed { error })) => {
            next.facts.push(Fact::LastError(Some(error.clone())));
            (TurnStatus::Failed, EventData::TurnFailed(TurnFailed { turn_id, error }))
        }
        (None, None) => {
            let data = TurnCanceledEvent { turn_id, reason: STOPPED_BY_MANAGER.to_owned(), forced: None };
            (TurnStatus::Canceled, EventData::TurnCanceled(data))
        }
    };
    let pause = match status {
        TurnStatus::Failed if is_lost => Some(QueuePause::TurnLost),
        TurnStatus::Failed => Some(QueuePause::TurnFailed),
        TurnStatus::Completed | TurnStatus::Canceled | TurnStatus::Accepted => None,
    };
    let dispatched = match (turn.dispatching, &status) {
        (false, _) => Dispatched::No,
        (true, TurnStatus::Completed) => Dispatched::Yes,
        (true, _) => Dispatched::Maybe,
    };
    next.event(data, Some(turn.no));
    next.facts.push(Fact::TurnClosed { no: turn.no, status, dispatched });
    if let Some(reason) = pause
        && !parking::park(next, Some(&turn.id))
    {
        queue::pause(next, reason, Some(&turn.id));
    }
    if status == TurnStatus::Completed {
        parking::unpark(next, UnparkReason::TurnCompleted);
    }
}

/// Returns whether a turn ended because its runtime died. An accepted cancel counts then, although
/// the runtime could not journal it.
fn lost(end: Option<&TurnEnd>) -> bool {
    matches!(end, Some(TurnEnd::Failed { error }) if error.code == Code::RuntimeLost)
}
