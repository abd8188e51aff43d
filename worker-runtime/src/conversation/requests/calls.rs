//! Client requests of the agent (files and terminals): recorded, handed to the driver, answered
//! once.

// The driver fetches a request by its number once its record is written. A request that was
// withdrawn, dropped or answered meanwhile is not carried out. Requests that the worker's rules
// cover first wait for a permission ([`super::approvals`]).

use serde_json::json;
use serde_json::value::RawValue;
use subagent_protocol::MAX_LINE_BYTES;
use subagent_protocol::client::{
    self, ClientRequest, ClientRequestFacts, ClientResponse, RequestFailure, TerminalExited,
};
use subagent_protocol::json::extend;
use subagent_protocol::record::{ApprovalClosedReason, RecordType};

use super::asking::ALLOW;
use super::client_request::{OpenClientRequest, RequestStage};
use crate::acp::client_operation::{self, ClientOperation};
use crate::acp::outgoing::OutgoingKind;
use crate::acp::requests;
use crate::conversation::effects::{ClientOperationError, ClientOperationResult, ConversationAction, Cx};
use crate::conversation::state::{Conversation, ConversationState};
use crate::journal::batch::to_raw;

/// Maximum number of open requests. Their parameters have a total limit too, so that an agent
/// cannot fill the memory.
pub(in crate::conversation) const MAX_OPEN: usize = 256;
const MAX_BYTES: usize = MAX_LINE_BYTES;
/// Maximum length of an error message, in bytes.
const MAX_MESSAGE_BYTES: usize = 5000;

/// The agent makes a client request.
pub(in crate::conversation) fn called(
    conversation: &mut Conversation,
    rpc: &str,
    method: &str,
    params: Option<&RawValue>,
    cx: &mut Cx<'_>,
) {
    conversation.calls.last += 1;
    let call = conversation.calls.last;
    let body = ClientRequest { call, method: method.to_owned(), params: params.map(ToOwned::to_owned) };
    record(conversation, RecordType::ClientRequest, method, &to_raw(&body), cx);
    let bytes = params.map_or(0, |params| params.get().len());
    let request = match client_operation::parse(method, params) {
        Ok(request) => check_limits(conversation, bytes).map(|()| request),
        Err(what) => Err(ClientOperationError {
            code: requests::INVALID_PARAMS,
            message: format!("Invalid params: {what}"),
        }),
    };
    let about = request.as_ref().map(about).unwrap_or_default();
    let (rpc, method) = (rpc.to_owned(), method.to_owned());
    let session = params.and_then(client_operation::session);
    let open = OpenClientRequest {
        call,
        rpc,
        method,
        session,
        about,
        bytes,
        request: None,
        stage: RequestStage::Begun,
    };
    match request {
        Ok(request) => {
            conversation.calls.open.push(OpenClientRequest { request: Some(request), ..open });
            cx.push(ConversationAction::Call(call));
        }
        Err(refused) => answer_error(conversation, open, refused, cx),
    }
}

fn check_limits(conversation: &Conversation, bytes: usize) -> Result<(), ClientOperationError> {
    let refused = |message: &str| Err(ClientOperationError::internal(message));
    if matches!(conversation.state, ConversationState::Ending(_) | ConversationState::Ended) {
        return refused("the worker is being stopped");
    }
    let open = &conversation.calls.open;
    if open.len() >= MAX_OPEN || open.iter().map(|open| open.bytes).sum::<usize>() + bytes > MAX_BYTES {
        return refused("too many open requests");
    }
    Ok(())
}

pub(in crate::conversation) fn done(
    conversation: &mut Conversation,
    call: u64,
    outcome: Result<ClientOperationResult, ClientOperationError>,
    cx: &mut Cx<'_>,
) {
    // A request that was withdrawn has its response already.
    let Some(mut open) = conversation.calls.take(call) else { return };
    let answer = match outcome {
        Ok(answer) => answer,
        Err(refused) => return answer_error(conversation, open, refused, cx),
    };
    if let ClientOperationResult::Created { terminal } = &answer {
        conversation.calls.running.insert(terminal.clone());
    }
    learn(&mut open.about, &answer);
    let line = requests::result(&open.rpc, &result(&answer));
    record_response(conversation, open, None, cx);
    cx.send(OutgoingKind::Result, line);
}

/// The agent withdraws a request by its own id (JSON text). Returns whether it was open.
pub(in crate::conversation) fn withdrawn(
    conversation: &mut Conversation,
    rpc: &str,
    cx: &mut Cx<'_>,
) -> bool {
    let withdrawn: Vec<OpenClientRequest> =
        conversation.calls.open.extract_if(.., |open| open.rpc == rpc).collect();
    let any = !withdrawn.is_empty();
    for open in withdrawn {
        cx.push(ConversationAction::DropCall(open.call));
        let message = "the request was withdrawn; it may have been partly carried out".to_owned();
        answer_error(
            conversation,
            open,
            ClientOperationError { code: requests::REQUEST_CANCELLED, message },
            cx,
        );
    }
    any
}

/// A client or a rule has decided.
pub(in crate::conversation) fn decided(
    conversation: &mut Conversation,
    call: u64,
    option: Option<&str>,
    rule: Option<&str>,
    cx: &mut Cx<'_>,
) {
    let Some(open) = conversation.calls.find(call) else { return };
    let RequestStage::Asking(found) = &open.stage else { return };
    if option == Some(ALLOW) {
        open.stage = RequestStage::Allowed(found.clone());
        return cx.push(ConversationAction::Call(call));
    }
    let why = match (option, rule) {
        (None, _) => return not_decided(conversation, call, ApprovalClosedReason::TurnCanceled, cx),
        (Some(_), Some(rule)) => format!("the rule `{rule}` of the worker denies it"),
        (Some(_), None) => "the owner of the worker has rejected it".to_owned(),
    };
    let message = format!("{} was not done: {why}", open.method);
    refuse(conversation, call, ClientOperationError::invalid(message), cx);
}

/// No decision is possible any more.
pub(in crate::conversation) fn not_decided(
    conversation: &mut Conversation,
    call: u64,
    reason: ApprovalClosedReason,
    cx: &mut Cx<'_>,
) {
    let why = match reason {
        ApprovalClosedReason::TurnCanceled => "it was canceled",
        ApprovalClosedReason::TurnEnded => "the turn ended",
        ApprovalClosedReason::Withdrawn | ApprovalClosedReason::AgentGone | ApprovalClosedReason::Stopped => {
            "the worker is being stopped"
        }
    };
    let message = format!("what the rules of the worker ask for was not allowed before {why}");
    refuse(conversation, call, ClientOperationError { code: requests::REQUEST_CANCELLED, message }, cx);
}

/// The agent is ending or has ended: drops its requests and ends its terminals.
pub(in crate::conversation) fn end_all(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    for open in std::mem::take(&mut conversation.calls.open) {
        answer_error(conversation, open, ClientOperationError::internal("the worker is being stopped"), cx);
    }
    cx.push(ConversationAction::EndCalls);
}

/// Drops progress records that cannot be written, to make room for the essential ones.
pub(in crate::conversation) fn shed(conversation: &mut Conversation, cx: &mut Cx<'_>) -> u64 {
    let dropped = cx.batch.shed();
    refuse_unwritten_calls(conversation, cx);
    if dropped > 0 {
        cx.push(ConversationAction::Note(format!(
            "the disk is full: {dropped} updates of the agent were dropped"
        )));
    }
    dropped
}

/// Rejects requests whose records are given up on a full disk: nothing
/// happens without a record.
fn refuse_unwritten_calls(conversation: &mut Conversation, cx: &mut Cx<'_>) {
    let unwritten =
        |open: &mut OpenClientRequest| open.request.is_some() && open.stage == RequestStage::Begun;
    for open in conversation.calls.open.extract_if(.., unwritten) {
        let message = "the disk is full: the request could not be written down";
        cx.send(OutgoingKind::Automatic, requests::error(&open.rpc, requests::INTERNAL_ERROR, message));
    }
}

pub(in crate::conversation) fn terminal_exited(
    conversation: &mut Conversation,
    exited: &TerminalExited,
    cx: &mut Cx<'_>,
) {
    conversation.calls.running.remove(&exited.terminal_id);
    if !matches!(conversation.state, ConversationState::Ended) {
        let turn = conversation.attributed_turn();
        cx.batch.push(RecordType::TerminalExited, turn, Some(client::TERMINAL), &to_raw(exited));
    }
}

/// Answers a request with an error, if it is still open.
pub(in crate::conversation) fn refuse(
    conversation: &mut Conversation,
    call: u64,
    refused: ClientOperationError,
    cx: &mut Cx<'_>,
) {
    if let Some(open) = conversation.calls.take(call) {
        answer_error(conversation, open, refused, cx);
    }
}

fn answer_error(
    conversation: &Conversation,
    open: OpenClientRequest,
    mut refused: ClientOperationError,
    cx: &mut Cx<'_>,
) {
    // The message may quote the agent's input, which has no length limit.
    refused.message = crate::shorten::text(&refused.message, MAX_MESSAGE_BYTES);
    let line = match (refused.code, &open.about.path) {
        (requests::RESOURCE_NOT_FOUND, Some(path)) => {
            requests::error_with(&open.rpc, refused.code, &refused.message, &json!({"uri": path}))
        }
        _ => requests::error(&open.rpc, refused.code, &refused.message),
    };
    record_response(
        conversation,
        open,
        Some(RequestFailure { code: refused.code, message: refused.message }),
        cx,
    );
    cx.send(OutgoingKind::Automatic, line);
}

fn record_response(
    conversation: &Conversation,
    open: OpenClientRequest,
    error: Option<RequestFailure>,
    cx: &mut Cx<'_>,
) {
    let OpenClientRequest { call, method, about: facts, .. } = open;
    let body = ClientResponse { call, method: method.clone(), facts, error };
    record(conversation, RecordType::ClientResponse, &method, &to_raw(&body), cx);
}

fn record(conversation: &Conversation, t: RecordType, method: &str, body: &RawValue, cx: &mut Cx<'_>) {
    cx.batch.push(t, conversation.attributed_turn(), client::kind_of(method), body);
}

fn about(request: &ClientOperation) -> ClientRequestFacts {
    match request {
        ClientOperation::Read { path, .. } => {
            ClientRequestFacts { path: Some(path.clone()), ..ClientRequestFacts::default() }
        }
        ClientOperation::Write { path, content } => ClientRequestFacts {
            path: Some(path.clone()),
            bytes: Some(content.len() as u64),
            ..ClientRequestFacts::default()
        },
        ClientOperation::Create(_) => ClientRequestFacts::default(),
        ClientOperation::Output { terminal }
        | ClientOperation::WaitForExit { terminal }
        | ClientOperation::Kill { terminal }
        | ClientOperation::Release { terminal } => {
            // An id that is not ours can have any length.
            ClientRequestFacts {
                terminal_id: Some(crate::shorten::text(terminal, 100)),
                ..ClientRequestFacts::default()
            }
        }
    }
}

fn learn(about: &mut ClientRequestFacts, answer: &ClientOperationResult) {
    match answer {
        ClientOperationResult::Content(text) => about.bytes = Some(text.len() as u64),
        ClientOperationResult::Created { terminal } => about.terminal_id = Some(terminal.clone()),
        ClientOperationResult::Output { text, exit, .. } => {
            about.bytes = Some(text.len() as u64);
            about.exit_status.clone_from(exit);
        }
        ClientOperationResult::Exited(exit) => about.exit_status = Some(exit.clone()),
        ClientOperationResult::Written | ClientOperationResult::Done => {}
    }
}

fn result(answer: &ClientOperationResult) -> serde_json::Value {
    match answer {
        ClientOperationResult::Content(content) => json!({"content": content}),
        ClientOperationResult::Created { terminal } => json!({"terminalId": terminal}),
        ClientOperationResult::Output { text, truncated, exit } => {
            let mut result = json!({"output": text, "truncated": truncated});
            if let Some(exit) = exit {
                extend(&mut result, [("exitStatus", json!(exit))]);
            }
            result
        }
        ClientOperationResult::Exited(exit) => json!(exit),
        ClientOperationResult::Written | ClientOperationResult::Done => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::acp::client_operation::ClientOperationStep;
    use crate::conversation::tests::Talk;
    use crate::conversation::{ConversationInput, Storage, Timer};
    use subagent_protocol::record::RecordType as T;

    fn read(id: u64) -> Value {
        json!({"id": id, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": "/w/a"}})
    }

    fn done(talk: &mut Talk, call: u64, outcome: Result<ClientOperationResult, ClientOperationError>) {
        talk.input(ConversationInput::CallDone { call, outcome });
    }

    fn types(talk: &Talk) -> Vec<T> {
        talk.records.iter().map(|record| record.t).collect()
    }

    #[test]
    fn a_request_is_written_down_carried_out_and_answered() {
        let mut talk = Talk::ready(None, json!({}));
        talk.prompt(5).unwrap();
        talk.forget();
        talk.line(read(0));
        assert_eq!((types(&talk), talk.records[0].turn), (vec![T::ClientRequest], Some(5)));
        assert_eq!(talk.records[0].kind.as_deref(), Some("fs"));
        assert_eq!(
            talk.records[0].body,
            json!({"call": 1, "method": "fs/read_text_file", "params": read(0)["params"]})
        );
        assert_eq!(talk.actions, [ConversationAction::Call(1)]);
        let path = "/w/a".to_owned();
        let request = ClientOperation::Read { path, line: None, limit: None };
        assert_eq!(talk.conversation.take_call(1), Some(ClientOperationStep::Do(request, None)));
        assert_eq!(talk.conversation.take_call(1), None, "it is carried out once");
        talk.forget();
        done(&mut talk, 1, Ok(ClientOperationResult::Content("secret".to_owned())));
        done(&mut talk, 1, Ok(ClientOperationResult::Content("secret".to_owned())));
        assert_eq!(talk.sent(), [json!({"jsonrpc": "2.0", "id": 0, "result": {"content": "secret"}})]);
        assert_eq!(types(&talk), [T::ClientResponse]);
        assert_eq!(
            talk.records[0].body,
            json!({"call": 1, "method": "fs/read_text_file", "path": "/w/a", "bytes": 6}),
            "no content"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named_as_acp_does() {
        let mut talk = Talk::ready(None, json!({}));
        talk.line(read(7));
        talk.forget();
        done(&mut talk, 1, Err(ClientOperationError::not_found("Resource not found: /w/a")));
        let error = json!({"code": -32002, "message": "Resource not found: /w/a", "data": {"uri": "/w/a"}});
        assert_eq!(talk.sent(), [json!({"jsonrpc": "2.0", "id": 7, "error": error})]);
        assert_eq!(talk.records[0].body["error"]["code"], -32002);
    }

    #[test]
    fn bad_parameters_are_answered_at_once() {
        let mut talk = Talk::ready(None, json!({}));
        talk.line(json!({"id": "a", "method": "fs/write_text_file", "params": {"path": "x", "content": ""}}));
        assert_eq!(types(&talk), [T::ClientRequest, T::ClientResponse]);
        assert!(!talk.actions.contains(&ConversationAction::Call(1)));
        let error = &talk.sent()[0]["error"];
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32602), &json!("Invalid params: `path` must be absolute: x"))
        );
    }

    #[test]
    fn a_withdrawn_request_is_answered_once() {
        let mut talk = Talk::ready(None, json!({}));
        talk.line(read(0));
        talk.forget();
        let withdraw = json!({"method": "$/cancel_request", "params": {"requestId": 0}});
        talk.line(withdraw.clone());
        assert_eq!(talk.sent()[0]["error"]["code"], -32800);
        assert!(talk.actions.contains(&ConversationAction::DropCall(1)));
        assert_eq!(talk.conversation.take_call(1), None);
        done(&mut talk, 1, Ok(ClientOperationResult::Content(String::new())));
        talk.line(withdraw);
        assert_eq!(talk.sent().len(), 1);
        assert_eq!(types(&talk), [T::ClientResponse, T::Notification], "there is nothing left to withdraw");
    }

    #[test]
    fn an_agent_that_asks_without_end_gets_errors() {
        let mut talk = Talk::ready(None, json!({}));
        (0..MAX_OPEN as u64).for_each(|id| talk.line(read(id)));
        talk.forget();
        talk.line(read(1000));
        assert_eq!(talk.sent()[0]["error"]["message"], "too many open requests");
        done(&mut talk, 1, Err(ClientOperationError::internal("m")));
        talk.forget();
        talk.line(read(1001));
        assert_eq!(talk.sent(), Vec::<Value>::new(), "there is room again");
        let mut talk = Talk::ready(None, json!({}));
        let large = "x".repeat(MAX_BYTES / 2);
        let write = |id: u64| json!({"id": id, "method": "fs/write_text_file", "params": {"path": "/w/a", "content": large}});
        talk.line(write(0));
        talk.line(write(1));
        assert_eq!(talk.sent().len(), 1, "two are too much for the memory");
    }

    #[test]
    fn the_end_answers_open_requests_and_accepts_no_more() {
        let mut talk = Talk::ready(None, json!({}));
        talk.line(json!({"id": 0, "method": "terminal/wait_for_exit", "params": {"terminalId": "t"}}));
        talk.forget();
        talk.input(ConversationInput::End { reason: "r".to_owned() });
        assert!(talk.actions.contains(&ConversationAction::EndCalls));
        assert_eq!(talk.sent()[0]["error"]["message"], "the worker is being stopped");
        talk.forget();
        talk.line(read(1));
        assert_eq!(talk.sent()[0]["error"]["code"], -32603);
        assert!(!talk.actions.iter().any(|action| matches!(action, ConversationAction::Call(_))));
    }

    #[test]
    fn nothing_is_done_without_a_record() {
        let mut talk = Talk::ready(None, json!({}));
        talk.prompt(5).unwrap();
        talk.input(ConversationInput::Storage(Storage::Full));
        talk.line(read(0));
        talk.forget();
        talk.input(ConversationInput::Timer(Timer::StorageFull));
        assert_eq!(talk.conversation.take_call(1), None);
        assert_eq!(
            talk.sent()[0]["error"]["message"],
            "the disk is full: the request could not be written down"
        );
    }
}
