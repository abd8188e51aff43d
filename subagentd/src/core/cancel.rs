//! Canceling a turn: the runtime ends it, unless no runtime can have its prompt.

use subagent_protocol::api::DecidedBy;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::state::QuestionKind;
use subagent_protocol::{Code, Error, Result};

use super::approval::Approval;
use super::decision::PermissionDecision;
use super::inbox::{EXPIRED, decided};
use super::step::TransitionBuilder;
use super::worker::{Cancel, Fact, LifecycleState, RuntimeStatus, WorkerAction};

/// Returns the error code of a cancel by the daemon itself, given its reason. `None` if the owner
/// canceled.
pub(crate) fn own_cause(reason: &str) -> Option<Code> {
    if reason == EXPIRED {
        return Some(Code::ApprovalTimeout);
    }
    let code = Code::parse(reason.split_once(": ")?.0)?;
    matches!(code, Code::PolicyViolation | Code::BudgetExceeded | Code::BudgetUnknown).then_some(code)
}

impl TransitionBuilder {
    /// Cancels the open turn, if it is this one.
    pub(super) fn cancel_only(&mut self, turn: &TurnId, reason: String) -> Result<()> {
        if self.worker.open_turn() == Some(turn) {
            return self.cancel(reason);
        }
        let error = Error::new(Code::TurnNotOpen, format!("the turn {turn} is not open"));
        Err(error.with("turnId", turn.as_str()).with("state", self.worker.public_state().as_str()))
    }

    pub(super) fn cancel(&mut self, reason: String) -> Result<()> {
        let state = self.worker.public_state();
        if let LifecycleState::Stopping(Some(_)) = self.worker.state {
            // The stop cancels the turn already.
            return Ok(());
        }
        if let LifecycleState::Local(local) = &self.worker.state {
            let local = local.clone();
            self.cancel_local(&local, reason);
            return Ok(());
        }
        let LifecycleState::Turn(turn) = &mut self.worker.state else {
            let error = Error::new(
                Code::WorkerNotRunning,
                format!("the worker is {state}: there is no turn to cancel"),
            );
            return Err(error.with("state", state.as_str()));
        };
        if turn.cancel.is_some() {
            // A second cancel waits for the same end.
            return Ok(());
        }
        let no = turn.no;
        if self.cancel_turn(reason.clone(), None) {
            self.actions.push(WorkerAction::Cancel { turn: no, reason });
        }
        Ok(())
    }

    /// Cancels the open turn, which has no cancel yet. `expired` is the question whose timeout
    /// caused it. Returns whether a runtime may have the prompt; otherwise the turn has ended.
    pub(super) fn cancel_turn(&mut self, reason: String, expired: Option<&RequestId>) -> bool {
        let LifecycleState::Turn(turn) = &mut self.worker.state else { return false };
        let no = turn.no;
        let cancel = Cancel { reason: reason.clone(), requested: false };
        turn.cancel = Some(cancel.clone());
        let may_be_sent =
            turn.dispatching || matches!(self.worker.link, RuntimeStatus::Ready | RuntimeStatus::Adopted);
        self.facts.push(Fact::TurnCancel { no, cancel });
        if !may_be_sent {
            // No runtime has the prompt, and none will get it.
            self.close_turn(None);
            return false;
        }
        let held: Vec<RequestId> = self
            .worker
            .approvals
            .iter()
            .filter(|(_, asked)| asked.approval == Approval::Held && asked.turn == Some(no))
            .map(|(request_id, _)| request_id.clone())
            .collect();
        for request_id in &held {
            self.release(request_id);
        }
        let pending: Vec<(RequestId, QuestionKind)> = self
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
                    let data =
                        decided(&request_id, &PermissionDecision::cancelled(), Some(reason.clone()), by);
                    self.event(EventType::ApprovalDecided, data, Some(no));
                }
                QuestionKind::Elicitation => self.answered_by_cancel(&request_id, &reason, by, no),
            }
            self.facts.push(Fact::ApprovalDecided {
                request_id,
                option_id: None,
                content: None,
                by_cancel: true,
            });
        }
        true
    }
}
