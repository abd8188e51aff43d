//! Canceling a turn: the runtime ends it, unless no runtime can have its prompt.

use subagent_protocol::api::DecidedBy;
use subagent_protocol::data::EventData;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::state::QuestionKind;
use subagent_protocol::{Code, Error, Result};

use super::{turn, turn_end};
use crate::model::{Approval, Cancel, Fact, LifecycleState, PermissionDecision, RuntimeStatus, WorkerAction};
use crate::rules::permissions::approvals;
use crate::rules::reasons::EXPIRED;
use crate::rules::simulated;
use crate::rules::transition::TransitionBuilder;

/// Returns the error code of a cancel by the daemon itself, given its reason. `None` if the owner
/// canceled.
pub fn own_cause(reason: &str) -> Option<Code> {
    if reason == EXPIRED {
        return Some(Code::ApprovalTimeout);
    }
    let code = Code::parse(reason.split_once(": ")?.0)?;
    matches!(code, Code::PolicyViolation | Code::BudgetExceeded | Code::BudgetUnknown).then_some(code)
}

/// Cancels the open turn, if it is this one.
pub(in crate::rules) fn cancel_only(
    next: &mut TransitionBuilder,
    turn: &TurnId,
    reason: String,
) -> Result<()> {
    if next.worker.open_turn() == Some(turn) {
        return cancel(next, reason);
    }
    let error = Error::new(Code::TurnNotOpen, format!("the turn {turn} is not open"));
    Err(error.with("turnId", turn.as_str()).with("state", next.worker.public_state().as_str()))
}

pub(in crate::rules) fn cancel(next: &mut TransitionBuilder, reason: String) -> Result<()> {
    let state = next.worker.public_state();
    if let LifecycleState::Stopping(Some(_)) = next.worker.state {
        // The stop cancels the turn already.
        return Ok(());
    }
    if let LifecycleState::Local(local) = &next.worker.state {
        let local = local.clone();
        simulated::cancel_local(next, &local, reason);
        return Ok(());
    }
    let LifecycleState::Turn(turn) = &mut next.worker.state else {
        let error =
            Error::new(Code::WorkerNotRunning, format!("the worker is {state}: there is no turn to cancel"));
        return Err(error.with("state", state.as_str()));
    };
    if turn.cancel.is_some() {
        // A second cancel waits for the same end.
        return Ok(());
    }
    let no = turn.no;
    if cancel_turn(next, reason.clone(), None) {
        next.actions.push(WorkerAction::Cancel { turn: no, reason });
    }
    Ok(())
}

/// Cancels the open turn, which has no cancel yet. `expired` is the question whose timeout
/// caused it. Returns whether a runtime may have the prompt; otherwise the turn has ended.
pub(in crate::rules) fn cancel_turn(
    next: &mut TransitionBuilder,
    reason: String,
    expired: Option<&RequestId>,
) -> bool {
    let LifecycleState::Turn(turn) = &mut next.worker.state else { return false };
    let no = turn.no;
    let cancel = Cancel { reason: reason.clone(), requested: false };
    turn.cancel = Some(cancel.clone());
    let may_be_sent =
        turn.dispatching || matches!(next.worker.link, RuntimeStatus::Ready | RuntimeStatus::Adopted);
    next.facts.push(Fact::TurnCancel { no, cancel });
    if !may_be_sent {
        // No runtime has the prompt, and none will get it.
        turn_end::close_turn(next, None);
        return false;
    }
    let held: Vec<RequestId> = next
        .worker
        .approvals
        .iter()
        .filter(|(_, asked)| asked.approval == Approval::Held && asked.turn == Some(no))
        .map(|(request_id, _)| request_id.clone())
        .collect();
    for request_id in &held {
        approvals::release(next, request_id);
    }
    let pending: Vec<(RequestId, QuestionKind)> = next
        .worker
        .approvals
        .iter_mut()
        // The runtime decides about questions from outside of the turn.
        .filter(|(_, asked)| asked.approval == Approval::Pending && asked.turn == Some(no))
        .map(|(request_id, asked)| {
            asked.approval = Approval::DecidedByCancel;
            (request_id.clone(), asked.kind)
        })
        .collect();
    for (request_id, kind) in pending {
        let by = if expired == Some(&request_id) { DecidedBy::Deadline } else { DecidedBy::Cancel };
        match kind {
            QuestionKind::Permission => {
                let decided = approvals::decided(
                    &request_id,
                    &PermissionDecision::cancelled(),
                    Some(reason.clone()),
                    by,
                );
                next.event(EventData::ApprovalDecided(decided), Some(no));
            }
            QuestionKind::Elicitation => approvals::answered_by_cancel(next, &request_id, &reason, by, no),
        }
        next.facts.push(Fact::ApprovalDecided {
            request_id,
            option_id: None,
            content: None,
            by_cancel: true,
        });
    }
    true
}

/// The runtime took the cancel of a turn.
pub(in crate::rules) fn cancel_requested(
    next: &mut TransitionBuilder,
    turn: u64,
    reason: String,
) -> Result<()> {
    let open = turn::open_turn(next, turn)?;
    // The first reason stays, because clients have seen it.
    let reason = open.cancel.take().map_or(reason, |cancel| cancel.reason);
    let cancel = Cancel { reason, requested: true };
    open.cancel = Some(cancel.clone());
    next.facts.push(Fact::TurnCancel { no: turn, cancel });
    Ok(())
}

/// Cancels the open turn for an exhausted budget, unless it is being canceled already.
pub(in crate::rules) fn over_budget(next: &mut TransitionBuilder, error: Error) -> Result<()> {
    match &next.worker.state {
        LifecycleState::Turn(open) if open.cancel.is_none() => {
            let reason = error.to_string();
            let turn = Some(open.no);
            next.facts.push(Fact::LastError(Some(error.clone())));
            next.facts.push(Fact::TaskCause { error, turn });
            cancel(next, reason)
        }
        _ => Ok(()),
    }
}
