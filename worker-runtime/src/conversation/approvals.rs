//! Open permission requests and elicitations. Both wait for an answer without a time limit. The
//! agent asks for a permission, or we do, for something that it asked us to do.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use subagent_protocol::MAX_LINE_BYTES;
use subagent_protocol::frame::Refusal;
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::{
    AnswerWritten, ApprovalClosed, ApprovalClosedReason, ApprovalRequested, RecordType,
};
use subagent_protocol::state::{ElicitationAction, QuestionKind};

use super::turn::CancelCause;
use super::{Conversation, ConversationState, Cx, errors};
use crate::acp::outgoing::OutgoingKind;
use crate::acp::requests;

/// Maximum number of open requests, so that an agent cannot fill the memory.
pub(super) const MAX_OPEN: usize = 256;

struct PendingQuestion {
    id: RequestId,
    asker: Asker,
    turn: Option<u64>,
    kind: QuestionKind,
}

/// The requester that waits for the answer.
enum Asker {
    /// The agent, with its request id as JSON text.
    Agent(String),
    /// One of its client requests, by our number.
    Call(u64),
}

/// All open requests; rarely more than two.
#[derive(Default)]
pub(super) struct PendingQuestions {
    open: Vec<PendingQuestion>,
}

impl PendingQuestions {
    pub(super) fn ids(&self) -> Vec<RequestId> {
        self.open.iter().map(|open| open.id.clone()).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.open.len() >= MAX_OPEN
    }

    fn take(&mut self, which: impl Fn(&PendingQuestion) -> bool) -> Vec<PendingQuestion> {
        self.open.extract_if(.., |open| which(open)).collect()
    }
}

impl Conversation {
    /// The agent requests a permission.
    pub(super) fn asked(
        &mut self,
        kind: QuestionKind,
        rpc: &str,
        params: Option<&RawValue>,
        cx: &mut Cx<'_>,
    ) {
        let over = self.answers_no_more();
        if over.is_none() && self.approvals.is_full() {
            let message = "too many open questions";
            cx.send(OutgoingKind::Automatic, requests::error(rpc, requests::INTERNAL_ERROR, message));
            let method = match kind {
                QuestionKind::Permission => "session/request_permission",
                QuestionKind::Elicitation => "elicitation/create",
            };
            return self.notified(method, params, cx);
        }
        let Some(id) = (self.config.make_request_id)() else {
            let message = "the client could not generate an id for the request";
            return cx.send(OutgoingKind::Automatic, requests::error(rpc, requests::INTERNAL_ERROR, message));
        };
        let params = params.map_or_else(|| crate::journal::batch::to_raw(&()), ToOwned::to_owned);
        // A record that is too long for its reader might lose the request.
        let room = MAX_LINE_BYTES.saturating_sub(params.get().len());
        let tool_call = self.tool_calls.request(&params).filter(|call| call.get().len() <= room);
        let child = self.child_that_asks(params.get());
        let body = ApprovalRequested { request_id: id, params, tool_call, client_call: None, child };
        self.open_question(kind, Asker::Agent(rpc.to_owned()), body, over, cx);
    }

    /// Requests a permission for one of the agent's client requests. The caller has checked
    /// that there is room.
    pub(super) fn ask_for_call(&mut self, call: u64, id: RequestId, params: Box<RawValue>, cx: &mut Cx<'_>) {
        let (over, child) = (self.answers_no_more(), self.child_that_asks(params.get()));
        let body =
            ApprovalRequested { request_id: id, params, tool_call: None, client_call: Some(call), child };
        self.open_question(QuestionKind::Permission, Asker::Call(call), body, over, cx);
    }

    /// Returns why no answer is possible any more, if so.
    fn answers_no_more(&self) -> Option<ApprovalClosedReason> {
        match (&self.state, self.turn().map(|turn| turn.cancel)) {
            (ConversationState::Ending(_) | ConversationState::Ended, _) => {
                Some(ApprovalClosedReason::Stopped)
            }
            (_, Some(Some(_))) => Some(ApprovalClosedReason::TurnCanceled),
            _ => None,
        }
    }

    fn open_question(
        &mut self,
        kind: QuestionKind,
        asker: Asker,
        body: ApprovalRequested,
        over: Option<ApprovalClosedReason>,
        cx: &mut Cx<'_>,
    ) {
        let turn = self.open_turn();
        let record = match kind {
            QuestionKind::Permission => RecordType::ApprovalRequested,
            QuestionKind::Elicitation => RecordType::ElicitationRequested,
        };
        cx.record(record, turn, &body);
        let open = PendingQuestion { id: body.request_id, asker, turn, kind };
        match over {
            // The agent waits for a response.
            Some(reason) => self.answer_cancelled(open, reason, cx),
            None => self.approvals.open.push(open),
        }
    }

    /// The daemon answers a permission request.
    pub(super) fn answer(
        &mut self,
        id: &RequestId,
        option: Option<&str>,
        rule: Option<&str>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        // A client that lost the content of an elicitation can still cancel it.
        let fits = |open: &PendingQuestion| open.kind == QuestionKind::Permission || option.is_none();
        let Some(open) = self.approvals.take(|open| open.id == *id && fits(open)).pop() else {
            return Err(Refusal::NoSuchRequest);
        };
        cx.record(RecordType::AnswerWritten, open.turn, &AnswerWritten { request_id: open.id.clone() });
        match (&open.asker, option) {
            (Asker::Call(call), option) => self.call_decided(*call, option, rule, cx),
            (Asker::Agent(rpc), Some(option)) => {
                cx.send(OutgoingKind::Answer, requests::permission(rpc, Some(option)));
            }
            (Asker::Agent(rpc), None) => cx.send(OutgoingKind::Answer, cancelled(open.kind, rpc)),
        }
        Ok(())
    }

    /// The daemon answers an elicitation. The content goes only to the agent.
    pub(super) fn answer_elicitation(
        &mut self,
        id: &RequestId,
        action: ElicitationAction,
        content: Option<&Map<String, Value>>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        let fits = |open: &PendingQuestion| open.id == *id && open.kind == QuestionKind::Elicitation;
        let Some(open) = self.approvals.take(fits).pop() else { return Err(Refusal::NoSuchRequest) };
        cx.record(RecordType::AnswerWritten, open.turn, &AnswerWritten { request_id: open.id });
        if let Asker::Agent(rpc) = open.asker {
            cx.send(OutgoingKind::Answer, requests::elicitation(&rpc, action, content));
        }
        Ok(())
    }

    /// The agent withdraws a request by its own id (JSON text). Returns whether it was open.
    pub(super) fn withdrawn(&mut self, rpc: &str, cx: &mut Cx<'_>) -> bool {
        let withdrawn = self.approvals.take(|open| matches!(&open.asker, Asker::Agent(own) if own == rpc));
        for open in &withdrawn {
            closed(open, ApprovalClosedReason::Withdrawn, cx);
            let message = "the request was withdrawn";
            cx.send(OutgoingKind::Automatic, requests::error(rpc, requests::REQUEST_CANCELLED, message));
        }
        !withdrawn.is_empty()
    }

    /// The operation behind this question is no longer wanted.
    pub(super) fn close_question_of(&mut self, call: u64, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
        for open in self.approvals.take(|open| matches!(open.asker, Asker::Call(own) if own == call)) {
            closed(&open, reason, cx);
        }
    }

    /// Answers all open requests with `cancelled`, as a cancel requires.
    pub(super) fn cancel_approvals(&mut self, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
        for open in self.approvals.take(|_| true) {
            self.answer_cancelled(open, reason, cx);
        }
    }

    /// The turn has ended: its requests need no answer.
    pub(super) fn close_approvals_of(&mut self, turn: u64, cx: &mut Cx<'_>) {
        for open in self.approvals.take(|open| open.turn == Some(turn)) {
            closed(&open, ApprovalClosedReason::TurnEnded, cx);
            if let Asker::Call(call) = open.asker {
                self.call_not_decided(call, ApprovalClosedReason::TurnEnded, cx);
            }
        }
    }

    /// The agent is gone: no request can be answered.
    pub(super) fn forget_approvals(&mut self, cx: &mut Cx<'_>) {
        for open in self.approvals.take(|_| true) {
            closed(&open, ApprovalClosedReason::AgentGone, cx);
        }
    }

    /// Sends the agent what every kind of cancel requires.
    pub(super) fn cancel_at_agent(&mut self, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
        self.cancel_approvals(reason, cx);
        let session = match &self.state {
            ConversationState::Ready { session, .. } => Some(&session.id),
            ConversationState::Ending(ending) => ending.session.as_ref().map(|session| &session.id),
            _ => None,
        };
        if let Some(session) = session {
            cx.send(OutgoingKind::Plain, requests::cancel(session));
        }
        for child in self.children.to_cancel() {
            cx.send(OutgoingKind::Plain, requests::cancel(child));
        }
    }

    pub(super) fn cancel_turn_for(&mut self, cause: CancelCause, cx: &mut Cx<'_>) {
        if let Some(turn) = self.turn_mut() {
            turn.cancel = Some(cause);
        }
        self.cancel_at_agent(ApprovalClosedReason::TurnCanceled, cx);
        self.give_up_turn_login(cx);
        self.give_up_prompt(errors::never_sent(), cx);
    }

    fn answer_cancelled(&mut self, open: PendingQuestion, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
        closed(&open, reason, cx);
        match open.asker {
            Asker::Agent(rpc) => cx.send(OutgoingKind::Answer, cancelled(open.kind, &rpc)),
            Asker::Call(call) => self.call_not_decided(call, reason, cx),
        }
    }
}

fn cancelled(kind: QuestionKind, rpc: &str) -> Vec<u8> {
    match kind {
        QuestionKind::Permission => requests::permission(rpc, None),
        QuestionKind::Elicitation => requests::elicitation(rpc, ElicitationAction::Cancel, None),
    }
}

fn closed(open: &PendingQuestion, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
    let body = ApprovalClosed { request_id: open.id.clone(), reason };
    cx.record(RecordType::ApprovalClosed, open.turn, &body);
}
