//! Hooks of a permission request: it is hidden while they run, and then decided or shown. The
//! content of their answers is interpreted by the supervisor.

use subagent_protocol::Result;
use subagent_protocol::api::DecidedBy;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::QuestionKind;

use super::approval::Approval;
use super::decision::HooksOutcome;
use super::inbox::decided;
use super::step::TransitionBuilder;
use super::worker::{Fact, WorkerAction};

impl TransitionBuilder {
    /// Hides a pending permission request while its hooks run.
    pub(super) fn hold_for_hooks(&mut self, request_id: RequestId) {
        if let Some(asked) = self.worker.approvals.get_mut(&request_id)
            && asked.kind == QuestionKind::Permission
            && asked.approval == Approval::Pending
        {
            asked.approval = Approval::Held;
            self.facts.push(Fact::ApprovalHeld { request_id });
        }
    }

    /// Shows a hidden request. Returns whether it was hidden.
    pub(super) fn release(&mut self, request_id: &RequestId) -> bool {
        match self.worker.approvals.get_mut(request_id) {
            Some(asked) if asked.approval == Approval::Held => {
                asked.approval = Approval::Pending;
                self.facts.push(Fact::ApprovalReleased { request_id: request_id.clone() });
                true
            }
            _ => false,
        }
    }

    /// Applies the answer of hooks. A late answer to a closed request is ignored.
    pub(super) fn hooks_answered(&mut self, request_id: RequestId, outcome: HooksOutcome) -> Result<()> {
        if !self.release(&request_id) {
            return Ok(());
        }
        match outcome {
            HooksOutcome::Ask => Ok(()),
            HooksOutcome::ByRule { choice, rule } => self.decide_by_rule(request_id, choice, &rule),
            HooksOutcome::ByHook { choice, reason, hook } => {
                let option_id = choice.option_id.clone();
                let turn = self.take_decision(&request_id, QuestionKind::Permission, option_id.as_deref())?;
                let mut data = decided(&request_id, &choice, reason, DecidedBy::Hook);
                data["hook"] = hook;
                self.event(EventType::ApprovalDecided, data, turn);
                let (fact_id, option) = (request_id.clone(), option_id.clone());
                self.facts.push(Fact::ApprovalDecided {
                    request_id: fact_id,
                    option_id: option,
                    content: None,
                    by_cancel: false,
                });
                self.actions.push(WorkerAction::Answer { request_id, option_id });
                Ok(())
            }
        }
    }
}
