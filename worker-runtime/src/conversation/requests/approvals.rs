//! Asks the daemon for permissions and elicitations, and hands the answers to the agent. The agent
//! asks for a permission, or we do, for something that it asked us to do.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use subagent_protocol::MAX_LINE_BYTES;
use subagent_protocol::frame::Refusal;
use subagent_protocol::ids::RequestId;
use subagent_protocol::json::extend;
use subagent_protocol::record::{
    AnswerWritten, ApprovalClosed, ApprovalClosedReason, ApprovalRequested, RecordType,
};
use subagent_protocol::state::{ElicitationAction, QuestionKind};

use super::asking::{ALLOW, MAX_ID_BYTES, REJECT, needs_permission, question};
use super::calls;
use super::client_request::RequestStage;
use super::question::{Asker, PendingQuestion};
use crate::acp::outgoing::OutgoingKind;
use crate::acp::requests;
use crate::conversation::effects::{ClientOperationError, ConversationAction, Cx, ResolvedRequest};
use crate::conversation::state::{Conversation, ConversationState};
use crate::journal::batch::to_raw;

/// The agent requests a permission.
pub(in crate::conversation) fn asked(
    conversation: &mut Conversation,
    kind: QuestionKind,
    rpc: &str,
    params: Option<&RawValue>,
    cx: &mut Cx<'_>,
) {
    let over = answers_no_more(conversation);
    if over.is_none() && conversation.approvals.is_full() {
        let message = "too many open questions";
        cx.send(OutgoingKind::Automatic, requests::error(rpc, requests::INTERNAL_ERROR, message));
        let method = match kind {
            QuestionKind::Permission => "session/request_permission",
            QuestionKind::Elicitation => "elicitation/create",
        };
        return cx.notification(conversation.attributed_turn(), method, params);
    }
    let Some(id) = (conversation.config.make_request_id)() else {
        let message = "the client could not generate an id for the request";
        return cx.send(OutgoingKind::Automatic, requests::error(rpc, requests::INTERNAL_ERROR, message));
    };
    let params = params.map_or_else(|| crate::journal::batch::to_raw(&()), ToOwned::to_owned);
    // A record that is too long for its reader might lose the request.
    let room = MAX_LINE_BYTES.saturating_sub(params.get().len());
    let tool_call = conversation.tool_calls.request(&params).filter(|call| call.get().len() <= room);
    let child = conversation.children.asking(conversation.own_session(), params.get());
    let body = ApprovalRequested { request_id: id, params, tool_call, client_call: None, child };
    open_question(conversation, kind, Asker::Agent(rpc.to_owned()), body, over, cx);
}

/// The path of a request was resolved.
pub(in crate::conversation) fn call_found(
    conversation: &mut Conversation,
    call: u64,
    found: Result<ResolvedRequest, ClientOperationError>,
    cx: &mut Cx<'_>,
) {
    let Some(open) = conversation.calls.find(call).filter(|open| open.stage == RequestStage::Finding) else {
        return;
    };
    let found = match found {
        Ok(found) => found,
        Err(refused) => return calls::refuse(conversation, call, refused, cx),
    };
    let (Some(request), Some(rules)) = (&open.request, &conversation.config.client_rules) else { return };
    if !needs_permission(request, &found.path, rules) {
        open.stage = RequestStage::Allowed(found.path);
        return cx.push(ConversationAction::Call(call));
    }
    if conversation.approvals.is_full() {
        return calls::refuse(
            conversation,
            call,
            ClientOperationError::internal("too many open questions"),
            cx,
        );
    }
    let Some(id) = (conversation.config.make_request_id)() else {
        let message = "the client could not generate an id for the request";
        return calls::refuse(conversation, call, ClientOperationError::internal(message), cx);
    };
    let mut params = match question(request, &found, id.as_str()) {
        Ok(tool_call) => json!({"toolCall": tool_call, "options": [
            {"optionId": ALLOW, "name": "Allow", "kind": "allow_once"},
            {"optionId": REJECT, "name": "Reject", "kind": "reject_once"},
        ]}),
        Err(refused) => return calls::refuse(conversation, call, refused, cx),
    };
    let session = open.session.clone().filter(|session| session.len() <= MAX_ID_BYTES);
    open.stage = RequestStage::Asking(found.path);
    if let Some(session) = session.or_else(|| conversation.own_session().map(str::to_owned)) {
        extend(&mut params, [("sessionId", session.into())]);
    }
    ask_for_call(conversation, call, id, to_raw(&params), cx);
}

/// Requests a permission for one of the agent's client requests. The caller has checked
/// that there is room.
fn ask_for_call(
    conversation: &mut Conversation,
    call: u64,
    id: RequestId,
    params: Box<RawValue>,
    cx: &mut Cx<'_>,
) {
    let (over, child) = (
        answers_no_more(conversation),
        conversation.children.asking(conversation.own_session(), params.get()),
    );
    let body = ApprovalRequested { request_id: id, params, tool_call: None, client_call: Some(call), child };
    open_question(conversation, QuestionKind::Permission, Asker::Call(call), body, over, cx);
}

/// Returns why no answer is possible any more, if so.
fn answers_no_more(conversation: &Conversation) -> Option<ApprovalClosedReason> {
    match (&conversation.state, conversation.turn().map(|turn| turn.cancel)) {
        (ConversationState::Ending(_) | ConversationState::Ended, _) => Some(ApprovalClosedReason::Stopped),
        (_, Some(Some(_))) => Some(ApprovalClosedReason::TurnCanceled),
        _ => None,
    }
}

fn open_question(
    conversation: &mut Conversation,
    kind: QuestionKind,
    asker: Asker,
    body: ApprovalRequested,
    over: Option<ApprovalClosedReason>,
    cx: &mut Cx<'_>,
) {
    let turn = conversation.open_turn();
    let record = match kind {
        QuestionKind::Permission => RecordType::ApprovalRequested,
        QuestionKind::Elicitation => RecordType::ElicitationRequested,
    };
    cx.record(record, turn, &body);
    let open = PendingQuestion { id: body.request_id, asker, turn, kind };
    match over {
        // The agent waits for a response.
        Some(reason) => answer_cancelled(conversation, open, reason, cx),
        None => conversation.approvals.open.push(open),
    }
}

/// The daemon answers a permission request.
pub(in crate::conversation) fn answer(
    conversation: &mut Conversation,
    id: &RequestId,
    option: Option<&str>,
    rule: Option<&str>,
    cx: &mut Cx<'_>,
) -> Result<(), Refusal> {
    // A client that lost the content of an elicitation can still cancel it.
    let fits = |open: &PendingQuestion| open.kind == QuestionKind::Permission || option.is_none();
    let Some(open) = conversation.approvals.take(|open| open.id == *id && fits(open)).pop() else {
        return Err(Refusal::NoSuchRequest);
    };
    cx.record(RecordType::AnswerWritten, open.turn, &AnswerWritten { request_id: open.id.clone() });
    match (&open.asker, option) {
        (Asker::Call(call), option) => calls::decided(conversation, *call, option, rule, cx),
        (Asker::Agent(rpc), Some(option)) => {
            cx.send(OutgoingKind::Answer, requests::permission(rpc, Some(option)));
        }
        (Asker::Agent(rpc), None) => cx.send(OutgoingKind::Answer, cancelled(open.kind, rpc)),
    }
    Ok(())
}

/// The daemon answers an elicitation. The content goes only to the agent.
pub(in crate::conversation) fn answer_elicitation(
    conversation: &mut Conversation,
    id: &RequestId,
    action: ElicitationAction,
    content: Option<&Map<String, Value>>,
    cx: &mut Cx<'_>,
) -> Result<(), Refusal> {
    let fits = |open: &PendingQuestion| open.id == *id && open.kind == QuestionKind::Elicitation;
    let Some(open) = conversation.approvals.take(fits).pop() else { return Err(Refusal::NoSuchRequest) };
    cx.record(RecordType::AnswerWritten, open.turn, &AnswerWritten { request_id: open.id });
    if let Asker::Agent(rpc) = open.asker {
        cx.send(OutgoingKind::Answer, requests::elicitation(&rpc, action, content));
    }
    Ok(())
}

/// The agent withdraws a request by its own id (JSON text). Returns whether it was open.
pub(in crate::conversation) fn withdrawn(
    conversation: &mut Conversation,
    rpc: &str,
    cx: &mut Cx<'_>,
) -> bool {
    let withdrawn =
        conversation.approvals.take(|open| matches!(&open.asker, Asker::Agent(own) if own == rpc));
    for open in &withdrawn {
        closed(open, ApprovalClosedReason::Withdrawn, cx);
        let message = "the request was withdrawn";
        cx.send(OutgoingKind::Automatic, requests::error(rpc, requests::REQUEST_CANCELLED, message));
    }
    !withdrawn.is_empty()
}

/// The agent withdraws a client request by its own id (JSON text). Returns whether it was open.
pub(in crate::conversation) fn call_withdrawn(
    conversation: &mut Conversation,
    rpc: &str,
    cx: &mut Cx<'_>,
) -> bool {
    for call in conversation.calls.with_id(rpc) {
        close_of_call(conversation, call, ApprovalClosedReason::Withdrawn, cx);
    }
    calls::withdrawn(conversation, rpc, cx)
}

/// The operation behind this question is no longer wanted.
fn close_of_call(conversation: &mut Conversation, call: u64, reason: ApprovalClosedReason, cx: &mut Cx<'_>) {
    for open in conversation.approvals.take(|open| matches!(open.asker, Asker::Call(own) if own == call)) {
        closed(&open, reason, cx);
    }
}

/// Answers all open requests with `cancelled`, as a cancel requires.
pub(in crate::conversation) fn cancel_all(
    conversation: &mut Conversation,
    reason: ApprovalClosedReason,
    cx: &mut Cx<'_>,
) {
    for open in conversation.approvals.take(|_| true) {
        answer_cancelled(conversation, open, reason, cx);
    }
}

/// The turn has ended: its requests need no answer.
pub(in crate::conversation) fn close_of_turn(conversation: &mut Conversation, turn: u64, cx: &mut Cx<'_>) {
    for open in conversation.approvals.take(|open| open.turn == Some(turn)) {
        closed(&open, ApprovalClosedReason::TurnEnded, cx);
        if let Asker::Call(call) = open.asker {
            calls::not_decided(conversation, call, ApprovalClosedReason::TurnEnded, cx);
        }
    }
}

/// The agent is gone: no request can be answered.
pub(in crate::conversation) fn forget_all(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    for open in conversation.approvals.take(|_| true) {
        closed(&open, ApprovalClosedReason::AgentGone, cx);
    }
}

/// Sends the agent what every kind of cancel requires.
pub(in crate::conversation) fn cancel_at_agent(
    conversation: &mut Conversation,
    reason: ApprovalClosedReason,
    cx: &mut Cx<'_>,
) {
    cancel_all(conversation, reason, cx);
    let session = match &conversation.state {
        ConversationState::Ready { session, .. } => Some(&session.id),
        ConversationState::Ending(ending) => ending.session.as_ref().map(|session| &session.id),
        _ => None,
    };
    if let Some(session) = session {
        cx.send(OutgoingKind::Plain, requests::cancel(session));
    }
    for child in conversation.children.to_cancel() {
        cx.send(OutgoingKind::Plain, requests::cancel(child));
    }
}

fn answer_cancelled(
    conversation: &mut Conversation,
    open: PendingQuestion,
    reason: ApprovalClosedReason,
    cx: &mut Cx<'_>,
) {
    closed(&open, reason, cx);
    match open.asker {
        Asker::Agent(rpc) => cx.send(OutgoingKind::Answer, cancelled(open.kind, &rpc)),
        Asker::Call(call) => calls::not_decided(conversation, call, reason, cx),
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
