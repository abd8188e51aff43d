//! Policy: rules decide permission requests for the owner, and a denied call that was made without
//! a request cancels its turn. The supervisor evaluates the rules.

use subagent_protocol::api::DecidedBy;
use subagent_protocol::data::EventData;
use subagent_protocol::data::questions::{ApprovalDecidedEvent, DecidingRule, PolicyViolated};
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::{QuestionKind, QueuePause};
use subagent_protocol::{Code, Error, Result};

use super::approvals;
use crate::model::{Fact, LifecycleState, PermissionDecision, WorkerAction};
use crate::rules::transition::TransitionBuilder;
use crate::rules::turns::{cancel, queue};

/// Decides a pending request by a rule.
pub(in crate::rules) fn decide_by_rule(
    next: &mut TransitionBuilder,
    request_id: RequestId,
    choice: PermissionDecision,
    rule: DecidingRule,
) -> Result<()> {
    let option_id = choice.option_id.clone();
    let turn = approvals::take_decision(next, &request_id, QuestionKind::Permission, option_id.as_deref())?;
    let decided = approvals::decided(&request_id, &choice, None, DecidedBy::Rule);
    let data = ApprovalDecidedEvent { policy: Some(rule), ..decided };
    next.event(EventData::ApprovalDecided(data), turn);
    let fact_id = request_id.clone();
    let option = option_id.clone();
    next.facts.push(Fact::ApprovalDecided {
        request_id: fact_id,
        option_id: option,
        content: None,
        by_cancel: false,
    });
    next.actions.push(WorkerAction::Answer { request_id, option_id });
    Ok(())
}

/// Reports a denied call of this turn. Cancels the turn if it is open and not being canceled.
pub(in crate::rules) fn violation(
    next: &mut TransitionBuilder,
    turn: Option<u64>,
    call: PolicyViolated,
) -> Result<()> {
    let message = violation_text(&call);
    next.event(EventData::PolicyViolated(call), turn);
    let error = Error::new(Code::PolicyViolation, message.clone());
    next.facts.push(Fact::LastError(Some(error.clone())));
    next.facts.push(Fact::TaskCause { error, turn });
    let open = next.worker.open_turn().cloned();
    queue::pause(next, QueuePause::PolicyViolation, open.as_ref());
    match &next.worker.state {
        LifecycleState::Turn(open) if Some(open.no) == turn && open.cancel.is_none() => {
            cancel::cancel(next, format!("{}: {message}", Code::PolicyViolation.as_str()))
        }
        _ => Ok(()),
    }
}

/// Returns the data of `policy.violated` as a sentence.
#[must_use]
pub fn violation_text(call: &PolicyViolated) -> String {
    let PolicyViolated { evidence, decided, .. } = call;
    let what = decided.subject.as_ref().unwrap_or(&decided.kind);
    let rule = decided.rule.as_deref().unwrap_or_default();
    format!("the agent did without asking what the rule {rule} denies: {what} ({evidence})")
}
