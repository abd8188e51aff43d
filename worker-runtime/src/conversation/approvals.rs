//! The questions that are open: permission requests and elicitations. Both wait for somebody, for as long as it takes.

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
use super::{Conversation, Cx, State};
use crate::acp::outgoing::Kind;
use crate::acp::requests;

/// So many may be open: an agent that asks without end would fill the memory.
pub(super) const MOST_OPEN: usize = 256;

/// One of them.
struct Open {
    id: RequestId,
    /// The agent's id, as JSON text.
    rpc: String,
    turn: Option<u64>,
    kind: QuestionKind,
}

/// All of them; there are rarely more than two.
#[derive(Default)]
pub(super) struct Approvals {
    open: Vec<Open>,
}

impl Approvals {
    pub(super) fn ids(&self) -> Vec<RequestId> {
        self.open.iter().map(|open| open.id.clone()).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn take(&mut self, which: impl Fn(&Open) -> bool) -> Vec<Open> {
        self.open.extract_if(.., |open| which(open)).collect()
    }
}

impl Conversation {
    /// The agent asks.
    pub(super) fn asked(
        &mut self,
        kind: QuestionKind,
        rpc: &str,
        params: Option<&RawValue>,
        cx: &mut Cx<'_>,
    ) {
        let over = match (&self.state, self.turn().map(|turn| turn.cancel)) {
            (State::Ending(_) | State::Ended, _) => Some(ApprovalClosedReason::Stopped),
            (_, Some(Some(_))) => Some(ApprovalClosedReason::TurnCanceled),
            _ => None,
        };
        if over.is_none() && self.approvals.open.len() >= MOST_OPEN {
            let message = "too many open questions";
            cx.send(Kind::Automatic, requests::error(rpc, requests::INTERNAL_ERROR, message));
            let method = match kind {
                QuestionKind::Permission => "session/request_permission",
                QuestionKind::Elicitation => "elicitation/create",
            };
            return self.notified(method, params, cx);
        }
        let Some(id) = (self.config.make_request_id)() else {
            let message = "the client could not make an id for the request";
            return cx.send(Kind::Automatic, requests::error(rpc, requests::INTERNAL_ERROR, message));
        };
        let turn = self.open_turn();
        let params = params.map_or_else(|| crate::journal::batch::to_raw(&()), ToOwned::to_owned);
        // A record that is too long for its reader might not be one of a request any more.
        let room = MAX_LINE_BYTES.saturating_sub(params.get().len());
        let tool_call = self.tool_calls.behind(&params).filter(|call| call.get().len() <= room);
        let child = self.child_that_asks(params.get());
        let body = ApprovalRequested { request_id: id.clone(), params, tool_call, child };
        let record = match kind {
            QuestionKind::Permission => RecordType::ApprovalRequested,
            QuestionKind::Elicitation => RecordType::ElicitationRequested,
        };
        cx.record(record, turn, &body);
        let open = Open { id, rpc: rpc.to_owned(), turn, kind };
        match over {
            // Nobody can decide any more, and the agent waits.
            Some(reason) => answer_cancelled(open, reason, cx),
            None => self.approvals.open.push(open),
        }
    }

    /// The daemon answers.
    pub(super) fn answer(
        &mut self,
        id: &RequestId,
        option: Option<&str>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        // Whoever lost what an elicitation asks can still cancel it.
        let fits = |open: &Open| open.kind == QuestionKind::Permission || option.is_none();
        let Some(open) = self.approvals.take(|open| open.id == *id && fits(open)).pop() else {
            return Err(Refusal::NoSuchRequest);
        };
        cx.record(RecordType::AnswerWritten, open.turn, &AnswerWritten { request_id: open.id.clone() });
        cx.send(
            Kind::Answer,
            match option {
                Some(option) => requests::permission(&open.rpc, Some(option)),
                None => cancelled(&open),
            },
        );
        Ok(())
    }

    /// The daemon answers an elicitation. What was filled in goes to the agent and nowhere else.
    pub(super) fn answer_elicitation(
        &mut self,
        id: &RequestId,
        action: ElicitationAction,
        content: Option<&Map<String, Value>>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        let fits = |open: &Open| open.id == *id && open.kind == QuestionKind::Elicitation;
        let Some(open) = self.approvals.take(fits).pop() else { return Err(Refusal::NoSuchRequest) };
        cx.record(RecordType::AnswerWritten, open.turn, &AnswerWritten { request_id: open.id });
        cx.send(Kind::Answer, requests::elicitation(&open.rpc, action, content));
        Ok(())
    }

    /// The agent withdraws a request by its own id, which is JSON text. Whether there was one.
    pub(super) fn withdrawn(&mut self, rpc: &str, cx: &mut Cx<'_>) -> bool {
        let withdrawn = self.approvals.take(|open| open.rpc == rpc);
        for open in &withdrawn {
            closed(open, ApprovalClosedReason::Withdrawn, cx);
            let message = "the request was withdrawn";
            cx.send(Kind::Automatic, requests::error(rpc, requests::REQUEST_CANCELLED, message));
        }
        !withdrawn.is_empty()
    }

    /// Answers all open requests with `cancelled`, as a cancel must.
    pub(super) fn cancel_approvals(&mut self, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
        for open in self.approvals.take(|_| true) {
            answer_cancelled(open, reason, cx);
        }
    }

    /// The turn is over: what it asked needs no answer any more.
    pub(super) fn close_approvals_of(&mut self, turn: u64, cx: &mut Cx<'_>) {
        for open in self.approvals.take(|open| open.turn == Some(turn)) {
            closed(&open, ApprovalClosedReason::TurnEnded, cx);
        }
    }

    /// There is nobody left to answer to.
    pub(super) fn forget_approvals(&mut self, cx: &mut Cx<'_>) {
        for open in self.approvals.take(|_| true) {
            closed(&open, ApprovalClosedReason::AgentGone, cx);
        }
    }

    /// What a cancel of whatever kind tells the agent.
    pub(super) fn cancel_at_agent(&mut self, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
        self.cancel_approvals(reason, cx);
        let session = match &self.state {
            State::Ready { session, .. } => Some(&session.id),
            State::Ending(ending) => ending.session.as_ref().map(|session| &session.id),
            _ => None,
        };
        if let Some(session) = session {
            cx.send(Kind::Plain, requests::cancel(session));
        }
        for child in self.children.to_cancel() {
            cx.send(Kind::Plain, requests::cancel(child));
        }
    }

    pub(super) fn cancel_turn_for(&mut self, cause: CancelCause, cx: &mut Cx<'_>) {
        if let Some(turn) = self.turn_mut() {
            turn.cancel = Some(cause);
        }
        self.cancel_at_agent(ApprovalClosedReason::TurnCanceled, cx);
        self.give_up_turn_login(cx);
    }
}

fn answer_cancelled(open: Open, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
    closed(&open, reason, cx);
    cx.send(Kind::Answer, cancelled(&open));
}

fn cancelled(open: &Open) -> Vec<u8> {
    match open.kind {
        QuestionKind::Permission => requests::permission(&open.rpc, None),
        QuestionKind::Elicitation => requests::elicitation(&open.rpc, ElicitationAction::Cancel, None),
    }
}

fn closed(open: &Open, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
    let body = ApprovalClosed { request_id: open.id.clone(), reason };
    cx.record(RecordType::ApprovalClosed, open.turn, &body);
}
