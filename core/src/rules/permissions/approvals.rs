//! Open questions: how one is opened, decided and closed.

use subagent_protocol::api::DecidedBy;
use subagent_protocol::data::EventData;
use subagent_protocol::data::questions::{ApprovalDecidedEvent, ApprovalOver, ElicitationAnsweredEvent};
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::{ElicitationAction, QuestionKind};
use subagent_protocol::{Code, Error, Result};

use crate::model::{AgentRequest, Approval, ApprovalInput, Fact, PermissionDecision, event_of};
use crate::rules::transition::TransitionBuilder;

/// Opens a question of the agent.
pub(in crate::rules) fn asked(
    next: &mut TransitionBuilder,
    request_id: RequestId,
    kind: QuestionKind,
) -> Result<()> {
    if next.worker.approvals.contains_key(&request_id) {
        let message = format!("the journal asks twice for the open question {request_id}");
        return Err(Error::new(Code::Internal, message));
    }
    let turn = next.worker.asking_turn();
    let asked = AgentRequest { kind, turn, approval: Approval::Pending };
    next.worker.approvals.insert(request_id.clone(), asked);
    next.facts.push(Fact::ApprovalOpened { request_id, kind, turn });
    Ok(())
}

/// Records a decision about an undecided question. Returns the asking turn.
pub(super) fn take_decision(
    next: &mut TransitionBuilder,
    request_id: &RequestId,
    kind: QuestionKind,
    option_id: Option<&str>,
) -> Result<Option<u64>> {
    match next.worker.approvals.get_mut(request_id) {
        Some(asked) if asked.kind == kind && asked.approval == Approval::Pending => {
            asked.approval = Approval::Decided { option_id: option_id.map(str::to_owned) };
            Ok(asked.turn)
        }
        Some(asked) if asked.kind == kind => {
            let message = "the question was decided already";
            let error = Error::new(Code::ApprovalNotPending, message);
            let status = asked.approval.status().as_str();
            Err(error.with("requestId", request_id.as_str()).with("status", status))
        }
        _ => {
            let error = Error::new(Code::ApprovalNotFound, "no such question is open");
            Err(error.with("requestId", request_id.as_str()))
        }
    }
}

/// Returns the data of `approval.decided`.
pub(in crate::rules) fn decided(
    request_id: &RequestId,
    choice: &PermissionDecision,
    note: Option<String>,
    by: DecidedBy,
) -> ApprovalDecidedEvent {
    ApprovalDecidedEvent {
        request_id: request_id.clone(),
        decision: choice.decision.clone(),
        option_id: choice.option_id.clone().unwrap_or_else(|| "cancelled".to_owned()),
        alias: choice.alias.clone(),
        note,
        by: Some(by),
        always: None,
        policy: None,
        hook: None,
    }
}

/// Shows a hidden request. Returns whether it was hidden.
pub(in crate::rules) fn release(next: &mut TransitionBuilder, request_id: &RequestId) -> bool {
    match next.worker.approvals.get_mut(request_id) {
        Some(asked) if asked.approval == Approval::Held => {
            asked.approval = Approval::Pending;
            next.facts.push(Fact::ApprovalReleased { request_id: request_id.clone() });
            true
        }
        _ => false,
    }
}

/// Records that the cancel of its turn answers an elicitation.
pub(in crate::rules) fn answered_by_cancel(
    next: &mut TransitionBuilder,
    request_id: &RequestId,
    reason: &str,
    by: DecidedBy,
    turn: u64,
) {
    let answered = ElicitationAnsweredEvent {
        request_id: request_id.clone(),
        action: ElicitationAction::Cancel,
        fields: Vec::new(),
        reason: Some(reason.to_owned()),
        by: Some(by),
    };
    next.event(EventData::ElicitationAnswered(answered), Some(turn));
}

pub(in crate::rules) fn end_approvals(
    next: &mut TransitionBuilder,
    input: &ApprovalInput,
    which: impl Fn(&AgentRequest) -> bool,
) {
    let chosen = next.worker.approvals.iter().filter(|(_, asked)| which(asked));
    for request_id in chosen.map(|(request_id, _)| request_id.clone()).collect::<Vec<_>>() {
        end_approval(next, &request_id, input);
    }
}

pub(in crate::rules) fn end_approval(
    next: &mut TransitionBuilder,
    request_id: &RequestId,
    input: &ApprovalInput,
) {
    // A hidden question is shown before its end is reported.
    release(next, request_id);
    // An input for a closed question is a repetition after a restart.
    let Some(AgentRequest { kind, turn, approval }) = next.worker.approvals.remove(request_id) else {
        return;
    };
    let status = approval.end(input);
    let reason = match input {
        ApprovalInput::Closed(reason) => reason.as_str(),
        ApprovalInput::Lost => "runtime_lost",
        ApprovalInput::AnswerWritten | ApprovalInput::AnswerRefused => "unknown_to_the_agent",
    };
    let over = ApprovalOver { request_id: request_id.clone(), reason: reason.to_owned() };
    if let Some(data) = event_of(kind, status, over) {
        next.event(data, turn);
    }
    next.facts.push(Fact::ApprovalClosed { request_id: request_id.clone(), status });
}
