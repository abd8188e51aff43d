//! Elicitations, where they differ from permission requests: the content of an answer.

use serde_json::json;
use subagent_protocol::api::DecidedBy;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::RequestId;
use subagent_protocol::state::{ElicitationAction, QuestionKind};
use subagent_protocol::{Code, Error, Result};

use super::approval::{AgentRequest, Approval};
use super::decision::ElicitationReply;
use super::step::TransitionBuilder;
use super::worker::{Fact, WorkerAction};

impl TransitionBuilder {
    /// Opens a question of the agent.
    pub(super) fn asked(&mut self, request_id: RequestId, kind: QuestionKind) -> Result<()> {
        if self.worker.approvals.contains_key(&request_id) {
            let message = format!("the journal asks twice for the open question {request_id}");
            return Err(Error::new(Code::Internal, message));
        }
        let turn = self.worker.asking_turn();
        let asked = AgentRequest { kind, turn, approval: Approval::Pending };
        self.worker.approvals.insert(request_id.clone(), asked);
        self.facts.push(Fact::ApprovalOpened { request_id, kind, turn });
        Ok(())
    }

    /// Answers an elicitation for the owner.
    pub(super) fn answer(&mut self, request_id: RequestId, reply: ElicitationReply) -> Result<()> {
        self.answer_as(request_id, reply, DecidedBy::Owner)
    }

    pub(super) fn answer_as(
        &mut self,
        request_id: RequestId,
        reply: ElicitationReply,
        by: DecidedBy,
    ) -> Result<()> {
        let ElicitationReply { action, fields, content } = reply;
        let option_id = Some(action).filter(|action| *action != ElicitationAction::Cancel);
        let option_id = option_id.map(|action| action.as_str().to_owned());
        let turn = self.take_decision(&request_id, QuestionKind::Elicitation, option_id.as_deref())?;
        let data =
            json!({"requestId": request_id, "action": action, "fields": fields, "reason": null, "by": by});
        self.event(EventType::ElicitationAnswered, data, turn);
        let fact_id = request_id.clone();
        let decided = Fact::ApprovalDecided {
            request_id: fact_id,
            option_id: option_id.clone(),
            content,
            by_cancel: false,
        };
        self.facts.push(decided);
        self.actions.push(WorkerAction::Answer { request_id, option_id });
        Ok(())
    }

    /// Records that the cancel of its turn answers an elicitation.
    pub(super) fn answered_by_cancel(
        &mut self,
        request_id: &RequestId,
        reason: &str,
        by: DecidedBy,
        turn: u64,
    ) {
        let action = ElicitationAction::Cancel;
        let data =
            json!({"requestId": request_id, "action": action, "fields": [], "reason": reason, "by": by});
        self.event(EventType::ElicitationAnswered, data, Some(turn));
    }
}
