//! Questions of the agent: opened, decided or answered by the owner, or not answered in time.

use subagent_protocol::api::DecidedBy;
use subagent_protocol::data::EventData;
use subagent_protocol::data::questions::{AddedRule, ApprovalDecidedEvent, ElicitationAnsweredEvent};
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::{ElicitationAction, QuestionKind};
use subagent_protocol::{Code, Error, Result};

use super::approvals;
use crate::model::{
    Approval, ElicitationReply, Expiry, Fact, InboxFact, LifecycleState, PermissionDecision, QuestionInput,
    WorkerAction,
};
use crate::rules::reasons::EXPIRED;
use crate::rules::simulated;
use crate::rules::transition::TransitionBuilder;
use crate::rules::turns::cancel;

/// Answers an elicitation for the owner.
pub(in crate::rules) fn answer(
    next: &mut TransitionBuilder,
    request_id: RequestId,
    reply: ElicitationReply,
) -> Result<()> {
    answer_as(next, request_id, reply, DecidedBy::Owner)
}

fn answer_as(
    next: &mut TransitionBuilder,
    request_id: RequestId,
    reply: ElicitationReply,
    by: DecidedBy,
) -> Result<()> {
    let ElicitationReply { action, fields, content } = reply;
    let option_id = Some(action).filter(|action| *action != ElicitationAction::Cancel);
    let option_id = option_id.map(|action| action.as_str().to_owned());
    let turn = approvals::take_decision(next, &request_id, QuestionKind::Elicitation, option_id.as_deref())?;
    let answered = ElicitationAnsweredEvent {
        request_id: request_id.clone(),
        action,
        fields,
        reason: None,
        by: Some(by),
    };
    next.event(EventData::ElicitationAnswered(answered), turn);
    let fact_id = request_id.clone();
    let decided = Fact::ApprovalDecided {
        request_id: fact_id,
        option_id: option_id.clone(),
        content,
        by_cancel: false,
    };
    next.facts.push(decided);
    next.actions.push(WorkerAction::Answer { request_id, option_id });
    Ok(())
}

pub(in crate::rules) fn inbox(next: &mut TransitionBuilder, input: QuestionInput) -> Result<()> {
    match input {
        QuestionInput::DecideAll { choices, note } => {
            choices.into_iter().try_for_each(|(request_id, choice)| {
                decide_as(next, request_id, choice, note.clone(), DecidedBy::Owner, None)
            })
        }
        QuestionInput::DecideAlways { request_id, choice, note, rule } => {
            let standing = AddedRule {
                rule_id: rule.rule_id.clone(),
                rule: rule.rule.clone(),
                action: rule.action.to_owned(),
                scope: if rule.for_controller { "controller" } else { "worker" }.to_owned(),
            };
            decide_as(next, request_id, choice, note, DecidedBy::Owner, Some(standing))?;
            next.facts.push(Fact::Inbox(InboxFact::RuleAdded(rule)));
            Ok(())
        }
        QuestionInput::Expired { request_id, expiry } => expired(next, request_id, expiry),
    }
}

fn expired(next: &mut TransitionBuilder, request_id: RequestId, expiry: Expiry) -> Result<()> {
    let asked = next.worker.approvals.get(&request_id);
    let kind = asked.map_or(QuestionKind::Permission, |asked| asked.kind);
    match (kind, expiry) {
        (QuestionKind::Permission, Expiry::Decide(choice)) => {
            decide_as(next, request_id, choice, None, DecidedBy::Deadline, None)
        }
        (_, Expiry::Cancel) if expires_with(next, &request_id) => Ok(()),
        (QuestionKind::Permission, Expiry::Decline | Expiry::Cancel) => {
            let note = Some(EXPIRED.to_owned());
            decide_as(next, request_id, PermissionDecision::cancelled(), note, DecidedBy::Deadline, None)
        }
        (QuestionKind::Elicitation, Expiry::Cancel) => {
            answer_as(next, request_id, nothing(ElicitationAction::Cancel), DecidedBy::Deadline)
        }
        (QuestionKind::Elicitation, Expiry::Decide(_) | Expiry::Decline) => {
            answer_as(next, request_id, nothing(ElicitationAction::Decline), DecidedBy::Deadline)
        }
    }
}

/// Cancels the open turn that asked, unless it is being canceled. The runtime answers the
/// question with the cancel. An answer before the cancel could let the turn complete.
fn expires_with(next: &mut TransitionBuilder, request_id: &RequestId) -> bool {
    let asked = next.worker.approvals.get(request_id);
    let Some(turn) = asked.filter(|asked| asked.approval == Approval::Pending).and_then(|asked| asked.turn)
    else {
        return false;
    };
    let cancels =
        matches!(&next.worker.state, LifecycleState::Turn(open) if open.no == turn && open.cancel.is_none());
    if cancels {
        let reason = EXPIRED.to_owned();
        let error = Error::new(Code::ApprovalTimeout, EXPIRED);
        next.facts.push(Fact::TaskCause { error, turn: Some(turn) });
        if cancel::cancel_turn(next, reason.clone(), Some(request_id)) {
            next.actions.push(WorkerAction::Cancel { turn, reason });
        }
    }
    cancels
}

/// Decides a permission request of the agent or of a simulated turn.
pub(in crate::rules) fn decide_as(
    next: &mut TransitionBuilder,
    request_id: RequestId,
    choice: PermissionDecision,
    note: Option<String>,
    by: DecidedBy,
    always: Option<AddedRule>,
) -> Result<()> {
    if let LifecycleState::Local(local) = &next.worker.state
        && local.request_id == request_id
    {
        let local = local.clone();
        simulated::decide_local(next, &local, &choice, note, by);
        return Ok(());
    }
    let turn =
        approvals::take_decision(next, &request_id, QuestionKind::Permission, choice.option_id.as_deref())?;
    let decided = approvals::decided(&request_id, &choice, note, by);
    let data = ApprovalDecidedEvent { always, ..decided };
    next.event(EventData::ApprovalDecided(data), turn);
    next.facts.push(Fact::ApprovalDecided {
        request_id: request_id.clone(),
        option_id: choice.option_id.clone(),
        content: None,
        by_cancel: false,
    });
    next.actions.push(WorkerAction::Answer { request_id, option_id: choice.option_id });
    Ok(())
}

fn nothing(action: ElicitationAction) -> ElicitationReply {
    ElicitationReply { action, fields: Vec::new(), content: None }
}
