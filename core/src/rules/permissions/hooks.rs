//! Hooks of a permission request: it is hidden while they run, and then decided or shown. The
//! content of their answers is interpreted by the supervisor.

use subagent_protocol::Result;
use subagent_protocol::api::DecidedBy;
use subagent_protocol::data::EventData;
use subagent_protocol::data::questions::ApprovalDecidedEvent;
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::QuestionKind;

use super::{approvals, policy};
use crate::model::{Approval, Fact, HooksOutcome, WorkerAction};
use crate::rules::transition::TransitionBuilder;

/// Hides a pending permission request while its hooks run.
pub(in crate::rules) fn hold_for_hooks(next: &mut TransitionBuilder, request_id: RequestId) {
    if let Some(asked) = next.worker.approvals.get_mut(&request_id)
        && asked.kind == QuestionKind::Permission
        && asked.approval == Approval::Pending
    {
        asked.approval = Approval::Held;
        next.facts.push(Fact::ApprovalHeld { request_id });
    }
}

/// Applies the answer of hooks. A late answer to a closed request is ignored.
pub(in crate::rules) fn hooks_answered(
    next: &mut TransitionBuilder,
    request_id: RequestId,
    outcome: HooksOutcome,
) -> Result<()> {
    if !approvals::release(next, &request_id) {
        return Ok(());
    }
    match outcome {
        HooksOutcome::Ask => Ok(()),
        HooksOutcome::ByRule { choice, rule } => policy::decide_by_rule(next, request_id, choice, rule),
        HooksOutcome::ByHook { choice, reason, hook } => {
            let option_id = choice.option_id.clone();
            let turn =
                approvals::take_decision(next, &request_id, QuestionKind::Permission, option_id.as_deref())?;
            let decided = approvals::decided(&request_id, &choice, reason, DecidedBy::Hook);
            let data = ApprovalDecidedEvent { hook: Some(hook), ..decided };
            next.event(EventData::ApprovalDecided(data), turn);
            let (fact_id, option) = (request_id.clone(), option_id.clone());
            next.facts.push(Fact::ApprovalDecided {
                request_id: fact_id,
                option_id: option,
                content: None,
                by_cancel: false,
            });
            next.actions.push(WorkerAction::Answer { request_id, option_id });
            Ok(())
        }
    }
}
