//! Cases of the conversation, without any process.

mod asking;
mod chosen;
mod full_disk;
mod hibernate;
mod lines;
mod login;

use std::time::Duration;

use serde_json::{Value, json};
use subagent_protocol::frame::{Refusal, RuntimeCommand, RuntimePhase};
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::options::Options;
use subagent_protocol::process::ProcessId;
use subagent_protocol::record::{AgentStarted, RecordType as T};
use subagent_protocol::start::{Login, Timeouts};

use super::*;
use crate::acp::lines::AgentLine;
use crate::acp::outgoing::OutgoingKind;
use crate::acp::requests::SessionContext;
use crate::journal::batch::RecordBatch;
use crate::journal::batch::reading::{OwnedRecord, records};
use crate::stderr::StderrTail;

/// A conversation with all its effects.
pub(super) struct Talk {
    pub(super) conversation: Conversation,
    batch: RecordBatch,
    tail: StderrTail,
    pub(super) records: Vec<OwnedRecord>,
    pub(super) actions: Vec<ConversationAction>,
    connection: u64,
    command: u64,
}

impl Talk {
    pub(super) fn new(session: Option<&str>, turn_ms: Option<u64>) -> Self {
        let mut next: u16 = 0;
        let make_request_id = Box::new(move || {
            next += 1;
            let [low, high] = next.to_le_bytes();
            Some(RequestId::from_random([low, low, low, low, low ^ high]))
        });
        let config = ConversationConfig {
            session: session.map(str::to_owned),
            resume_only: false,
            restore_failures: Vec::new(),
            context: SessionContext { cwd: "/w".to_owned(), ..SessionContext::default() },
            command: vec!["agent".to_owned()],
            timeouts: Timeouts { turn_ms, ..Timeouts::default() },
            last_turn: 4,
            options: Options::default(),
            login: Login::default(),
            client_rules: None,
            make_request_id,
        };
        let mut talk = Self {
            conversation: Conversation::new(config),
            batch: RecordBatch::new(1),
            tail: StderrTail::default(),
            records: Vec::new(),
            actions: Vec::new(),
            connection: 1,
            command: 0,
        };
        talk.input(ConversationInput::Begin);
        talk
    }

    /// A conversation with a new session, without earlier effects.
    pub(super) fn ready(turn_ms: Option<u64>, capabilities: Value) -> Self {
        let mut talk = Self::new(None, turn_ms);
        talk.started();
        talk.line(json!({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}}));
        talk.line(json!({"id": 2, "result": {"sessionId": "s"}}));
        assert_eq!(talk.conversation.phase(), RuntimePhase::Ready);
        talk.forget();
        talk
    }

    pub(super) fn started(&mut self) {
        let guard = ProcessId { pid: 2, start_time: 3 };
        self.input(ConversationInput::AgentStarted(AgentStarted { agent_pid: 7, guard }));
    }

    pub(super) fn forget(&mut self) {
        self.records.clear();
        self.actions.clear();
    }

    pub(super) fn input(&mut self, input: ConversationInput<'_>) {
        let mut cx = Cx { batch: &mut self.batch, actions: &mut self.actions, tail: &self.tail };
        self.conversation.handle(input, &mut cx);
        self.records.extend(records(self.batch.bytes()));
        self.batch.clear();
    }

    pub(super) fn line(&mut self, message: Value) {
        self.input(ConversationInput::Line(AgentLine::Whole(message.to_string().as_bytes())));
    }

    pub(super) fn update(&mut self, kind: &str) {
        self.line(json!({"method": "session/update", "params": {"update": {"sessionUpdate": kind}}}));
    }

    pub(super) fn command(&mut self, command: RuntimeCommand) -> Result<(), Refusal> {
        self.command += 1;
        let to = ReplyTo { connection: self.connection, id: self.command };
        self.input(ConversationInput::Command { to, command });
        let answer = self.actions.iter().find_map(|action| match action {
            ConversationAction::Accept(of) if *of == to => Some(Ok(())),
            ConversationAction::Refuse(of, refusal) if *of == to => Some(Err(refusal.clone())),
            _ => None,
        });
        answer.expect("every command has an answer")
    }

    pub(super) fn prompt(&mut self, turn: u64) -> Result<(), Refusal> {
        let turn_id = TurnId::from_random([0; 5]);
        self.command(RuntimeCommand::Prompt {
            change: None,
            turn,
            turn_id,
            prompt: vec![json!({"type": "text", "text": "p"})],
            attachments: vec![],
        })
    }

    pub(super) fn sent(&self) -> Vec<Value> {
        let lines = self.actions.iter().filter_map(|action| match action {
            ConversationAction::Send(line) => Some(serde_json::from_slice(&line.bytes).unwrap()),
            _ => None,
        });
        lines.collect()
    }

    fn types(&self) -> Vec<T> {
        self.records.iter().map(|record| record.t).collect()
    }

    fn methods(&self) -> Vec<String> {
        self.sent().iter().filter_map(|message| message["method"].as_str().map(str::to_owned)).collect()
    }
}

/// A conversation that restores a session, up to the response to `initialize`.
fn restoring(failures: usize, only: bool, timeouts: Timeouts, capabilities: Value) -> Talk {
    let mut talk = Talk::new(Some("old"), None);
    talk.conversation.config.restore_failures = (0..failures).map(|n| format!("failure {n}")).collect();
    talk.conversation.config.resume_only = only;
    talk.conversation.config.timeouts = timeouts;
    talk.started();
    talk.line(json!({"id": 1, "result": {"agentCapabilities": capabilities}}));
    talk
}

/// Returns the body of the only record of this type.
#[track_caller]
fn body(talk: &Talk, t: T) -> Value {
    let mut found = talk.records.iter().filter(|record| record.t == t);
    found.next().expect("there is one").body.clone()
}

#[test]
fn each_phase_may_have_a_deadline_of_its_own() {
    let timeouts = Timeouts { initialize_ms: Some(7000), session_ms: Some(3000), ..Timeouts::default() };
    let mut talk = Talk::new(None, None);
    talk.conversation = Conversation::new(ConversationConfig {
        session: None,
        resume_only: false,
        restore_failures: Vec::new(),
        context: SessionContext { cwd: "/w".to_owned(), ..SessionContext::default() },
        options: Options::default(),
        login: Login::default(),
        client_rules: None,
        command: vec!["agent".to_owned()],
        timeouts,
        last_turn: 0,
        make_request_id: Box::new(|| None),
    });
    talk.forget();
    talk.input(ConversationInput::Begin);
    assert!(talk.actions.contains(&ConversationAction::SetTimer(Timer::Phase, Duration::from_secs(7))));
    talk.started();
    talk.line(json!({"id": 1, "result": {}}));
    assert!(talk.actions.contains(&ConversationAction::SetTimer(Timer::Phase, Duration::from_secs(3))));
    talk.input(ConversationInput::Timer(Timer::Phase));
    let error = &body(&talk, T::StartFailed)["error"];
    assert_eq!(
        (&error["code"], &error["details"]["phase"]),
        (&json!("BACKEND_TIMEOUT"), &json!("session/new"))
    );
    assert_eq!(error["details"]["timeoutSeconds"], 3.0);
}

#[test]
fn a_session_that_hung_before_is_given_up_in_time_for_a_new_one() {
    let mut first = restoring(0, false, Timeouts::default(), json!({}));
    assert!(
        !first.actions.iter().any(|action| matches!(action, ConversationAction::SetTimer(Timer::Phase, _)))
    );
    first.input(ConversationInput::Timer(Timer::Startup));
    assert_eq!(body(&first, T::StartFailed)["error"]["details"]["phase"], "session/load");

    let mut second = restoring(1, false, Timeouts::default(), json!({"sessionCapabilities": {"resume": {}}}));
    for method in ["session/resume", "session/load"] {
        assert_eq!(second.sent().last().unwrap()["method"], method);
        assert!(
            second.actions.contains(&ConversationAction::SetTimer(Timer::Phase, Duration::from_secs(20)))
        );
        second.forget();
        second.input(ConversationInput::Timer(Timer::Phase));
        assert_eq!(second.sent()[0]["method"], "$/cancel_request");
    }
    // A late response must not count for the new request.
    second.line(json!({"id": 3, "result": {}}));
    second.line(json!({"id": 4, "result": {"sessionId": "new"}}));
    let session = body(&second, T::Session);
    assert_eq!((&session["contextLost"], &session["sessionId"]), (&json!(true), &json!("new")));
    let reason = session["contextLostReason"].as_str().unwrap();
    assert_eq!(reason, "session/resume: no answer within 20 s; session/load: no answer within 20 s");

    let mut third = restoring(2, false, Timeouts::default(), json!({"loadSession": true}));
    assert_eq!(third.sent().last().unwrap()["method"], "session/new");
    third.line(json!({"id": 2, "result": {"sessionId": "new"}}));
    assert_eq!(body(&third, T::Session)["contextLostReason"], "failure 0; failure 1");
}

#[test]
fn an_end_during_a_restore_is_reported_as_such() {
    let mut talk = restoring(0, false, Timeouts::default(), json!({}));
    talk.input(ConversationInput::AgentExited(Exit { code: Some(1), signal: None }));
    assert_eq!(body(&talk, T::StartFailed)["error"]["details"]["phase"], "session/load");
}

#[test]
fn a_disk_that_is_full_while_a_session_is_restored_is_no_fault_of_the_session() {
    let mut talk = restoring(0, false, Timeouts::default(), json!({"loadSession": true}));
    talk.input(ConversationInput::Storage(Storage::Full));
    talk.input(ConversationInput::Timer(Timer::StorageFull));
    let error = &body(&talk, T::StartFailed)["error"];
    assert_eq!((&error["code"], &error["details"]["phase"]), (&json!("STORAGE_FULL"), &json!(null)));
}

#[test]
fn a_session_that_must_be_taken_up_is_never_replaced() {
    let resume = json!({"sessionCapabilities": {"resume": {}}, "loadSession": false});
    for (capabilities, refused, expected) in [
        (json!({"loadSession": true}), Some(-32002), "SESSION_NOT_FOUND"),
        (json!({"loadSession": true}), Some(-32603), "SESSION_NOT_FOUND"),
        (json!({}), Some(-32601), "AGENT_METHOD_UNSUPPORTED"),
        (resume, Some(-32002), "SESSION_NOT_FOUND"),
        (json!({"loadSession": true}), Some(-32000), "BACKEND_RPC_ERROR"),
        (json!({"loadSession": false}), None, "AGENT_METHOD_UNSUPPORTED"),
    ] {
        for failures in [0, 2] {
            let mut talk = restoring(failures, true, Timeouts::default(), capabilities.clone());
            if let Some(code) = refused {
                talk.line(json!({"id": 2, "error": {"code": code, "message": "no"}}));
            }
            assert_eq!(body(&talk, T::StartFailed)["error"]["code"], expected, "{capabilities} {refused:?}");
            assert!(!talk.methods().contains(&"session/new".to_owned()));
        }
    }
    let mut talk = restoring(0, true, Timeouts::default(), json!({"sessionCapabilities": {"resume": {}}}));
    talk.line(json!({"id": 2, "result": {}}));
    let session = body(&talk, T::Session);
    assert_eq!((&session["sessionId"], &session["origin"]), (&json!("old"), &json!("resumed")));
}

fn load_error() -> Value {
    json!({"code": -32603, "message": "no such session"})
}

#[test]
fn a_session_is_resumed_loaded_or_made_anew() {
    let capabilities =
        |load: Value, resume: Value| json!({"loadSession": load, "sessionCapabilities": {"resume": resume}});
    for (capabilities, expected) in [
        (capabilities(json!(true), json!({})), &["session/resume", "session/load", "session/new"][..]),
        (capabilities(json!(false), json!({})), &["session/resume", "session/new"]),
        (capabilities(json!(true), json!(null)), &["session/load", "session/new"]),
        (capabilities(json!(false), json!(null)), &["session/new"]),
        (json!(null), &["session/load", "session/new"]),
    ] {
        let mut talk = Talk::new(Some("old"), None);
        talk.started();
        talk.line(json!({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities}}));
        for rpc in 2..=expected.len() {
            talk.line(json!({"id": rpc, "error": load_error()}));
        }
        assert_eq!(talk.methods()[1..], *expected);
        talk.line(json!({"id": expected.len() + 1, "result": {"sessionId": "new"}}));
        let session = &talk.records.last().unwrap().body;
        assert_eq!((&session["contextLost"], &session["sessionId"]), (&json!(true), &json!("new")));
        let reason = session["contextLostReason"].as_str().unwrap();
        assert!(reason.contains("no such session") || reason.contains("offers neither"), "{reason}");
    }
}

#[test]
fn files_are_offered_for_reading_to_all_but_one() {
    for (command, offered) in [
        (&["agent", "--acp"][..], true),
        (&["gemini", "--acp"], false),
        (&["npx", "-y", "@google/gemini-cli@0.61.0", "--acp"], false),
        (&["node", "/opt/node_modules/@google/gemini-cli/bundle/main.js"], false),
        (&["agent", "--model", "gemini-3"], true),
    ] {
        let mut talk = Talk::new(None, None);
        talk.conversation.config.command = command.iter().map(|word| (*word).to_owned()).collect();
        talk.started();
        let capabilities = &talk.sent()[0]["params"]["clientCapabilities"];
        assert_eq!(
            capabilities["fs"],
            json!({"readTextFile": offered, "writeTextFile": true}),
            "{command:?}"
        );
    }
}

#[test]
fn the_history_of_a_loaded_session_is_no_news() {
    let mut talk = Talk::new(Some("old"), None);
    talk.started();
    talk.line(json!({"id": 1, "result": {}}));
    talk.update("user_message_chunk");
    talk.update("available_commands_update");
    talk.line(json!({"id": 2, "result": null}));
    talk.update("agent_message_chunk");
    talk.update("usage_update");
    // The replay continues after the response; it ends with a pause.
    talk.input(ConversationInput::Timer(Timer::Replay));
    assert_eq!(talk.prompt(5), Err(Refusal::NotReady));
    talk.input(ConversationInput::Timer(Timer::Replay));
    let kinds: Vec<_> = talk.records.iter().filter_map(|record| record.kind.as_deref()).collect();
    assert_eq!(kinds, ["replayed", "available_commands", "replayed", "usage"]);
    talk.prompt(5).unwrap();
    talk.update("plan");
    assert_eq!(talk.records.last().unwrap().turn, Some(5));
    assert!(talk.actions.contains(&ConversationAction::Note("session/load replayed 2 updates".to_owned())));
}

#[test]
fn updates_before_the_answer_to_a_resume_are_history() {
    let mut talk = Talk::new(Some("old"), None);
    talk.started();
    let resume = json!({"sessionCapabilities": {"resume": {}}});
    talk.line(json!({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": resume}}));
    talk.update("agent_message_chunk");
    talk.update("tool_call");
    talk.update("usage_update");
    talk.line(json!({"id": 2, "result": {}}));
    talk.update("plan");
    let kinds: Vec<_> = talk.records.iter().filter_map(|record| record.kind.as_deref()).collect();
    assert_eq!(kinds, ["replayed", "replayed", "usage", "plan"]);
    assert!(talk.actions.contains(&ConversationAction::Note("session/resume replayed 2 updates".to_owned())));
    assert_eq!(talk.prompt(5), Ok(()));
}

#[test]
fn text_of_another_session_is_not_text_of_the_worker() {
    let mut talk = Talk::ready(None, json!({}));
    let own = talk.conversation.config.session.clone().unwrap_or_else(|| "s".to_owned());
    talk.prompt(5).unwrap();
    let text = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}});
    for session in [json!(own), json!("child"), json!(null), json!(7)] {
        let params = json!({"sessionId": session, "update": text});
        talk.line(json!({"method": "session/update", "params": params}));
    }
    let plan = json!({"sessionId": "child", "update": {"sessionUpdate": "plan", "entries": []}});
    talk.line(json!({"method": "session/update", "params": plan}));
    let said: Vec<_> = talk
        .records
        .iter()
        .filter(|record| record.kind.is_some())
        .map(|record| (record.t, record.kind.as_deref().unwrap(), record.turn))
        .collect();
    let own = (T::Update, "message", Some(5));
    let child = |kind| (T::ChildUpdate, kind, Some(5));
    assert_eq!(said, [own, child("agent_message_chunk"), own, own, child("plan")]);
}

#[test]
fn the_prompt_is_sent_after_its_record_and_reply() {
    let mut talk = Talk::ready(Some(1000), json!({}));
    talk.prompt(5).unwrap();
    assert_eq!(talk.types(), [T::Dispatching]);
    let accepted =
        talk.actions.iter().position(|action| matches!(action, ConversationAction::Accept(_))).unwrap();
    let sent = talk.actions.iter().position(
        |action| matches!(action, ConversationAction::Send(line) if line.kind == OutgoingKind::Prompt),
    );
    assert!(accepted < sent.unwrap());
    assert!(talk.actions.contains(&ConversationAction::SetTimer(Timer::Turn, Duration::from_secs(1))));
    assert_eq!(talk.prompt(6), Err(Refusal::Busy));
    assert_eq!(talk.prompt(5), Err(Refusal::WrongTurn { last: 5 }));
}

#[test]
fn numbers_of_turns_that_were_never_sent_may_be_left_out() {
    let mut talk = Talk::ready(None, json!({}));
    assert_eq!(talk.prompt(4), Err(Refusal::WrongTurn { last: 4 }));
    talk.prompt(8).unwrap();
    talk.line(json!({"id": 3, "result": {"stopReason": "end_turn"}}));
    for taken in [4, 5, 7, 8] {
        assert_eq!(talk.prompt(taken), Err(Refusal::WrongTurn { last: 8 }));
    }
    talk.prompt(9).unwrap();
    assert_eq!(talk.conversation.open_turn(), Some(9));
}

#[test]
fn the_tokens_of_a_turn_are_written_down_with_its_end() {
    let mut talk = Talk::ready(None, json!({}));
    talk.prompt(5).unwrap();
    talk.forget();
    let usage = json!({"inputTokens": 100, "outputTokens": 20});
    talk.line(json!({"id": 3, "result": {"stopReason": "end_turn", "usage": usage, "_meta": {"quota": {}}}}));
    assert_eq!(talk.types(), [T::TurnEnd]);
    assert_eq!(
        (&talk.records[0].body["usage"], &talk.records[0].body["meta"]),
        (&usage, &json!({"quota": {}}))
    );
}

#[test]
fn an_agent_that_asks_without_end_gets_an_error() {
    let mut talk = Talk::ready(None, json!({}));
    talk.prompt(5).unwrap();
    let ask = |id: usize| json!({"id": id, "method": "session/request_permission", "params": {"of": id}});
    for id in 0..requests::question::MAX_OPEN {
        talk.line(ask(id));
    }
    assert_eq!(talk.conversation.open_approvals().len(), requests::question::MAX_OPEN);
    talk.forget();
    talk.line(ask(1000));
    assert_eq!(talk.types(), [T::Notification]);
    let body = json!({"method": "session/request_permission", "params": {"of": 1000}});
    assert_eq!((&talk.records[0].body, talk.records[0].turn), (&body, Some(5)));
    let error = json!({"code": -32603, "message": "too many open questions"});
    assert_eq!(talk.sent(), [json!({"jsonrpc": "2.0", "id": 1000, "error": error})]);
    let request_id = talk.conversation.open_approvals().remove(0);
    talk.command(RuntimeCommand::Answer { request_id, option_id: None, rule: None }).unwrap();
    talk.line(ask(1001));
    assert_eq!(talk.records.last().unwrap().t, T::ApprovalRequested, "there is room again");
}

#[test]
fn commands_before_a_session_are_not_taken() {
    let mut talk = Talk::new(None, None);
    assert_eq!(talk.prompt(5), Err(Refusal::NotReady));
    assert_eq!(
        talk.command(RuntimeCommand::Cancel { turn: 5, reason: String::new() }),
        Err(Refusal::NoSuchTurn)
    );
    talk.started();
    assert_eq!(talk.conversation.phase(), RuntimePhase::Starting);
}

#[test]
fn a_prompt_that_was_taken_is_so_also_for_a_runtime_that_ends() {
    let mut talk = Talk::ready(None, json!({}));
    talk.prompt(5).unwrap();
    talk.command(RuntimeCommand::Terminate { reason: "r".to_owned() }).unwrap();
    assert_eq!(talk.prompt(5), Err(Refusal::WrongTurn { last: 5 }));
    assert_eq!(talk.prompt(6), Err(Refusal::Ending));
}

#[test]
fn a_withdrawn_request_cannot_be_answered() {
    let mut talk = Talk::ready(None, json!({}));
    talk.prompt(5).unwrap();
    talk.line(json!({"id": "a", "method": "session/request_permission", "params": {}}));
    let id = talk.conversation.open_approvals().pop().unwrap();
    talk.forget();
    talk.line(json!({"method": "$/cancel_request", "params": {"requestId": "a"}}));
    assert_eq!(talk.records[0].body["reason"], "withdrawn");
    assert_eq!(talk.sent()[0]["error"]["code"], -32800);
    let answer = RuntimeCommand::Answer { request_id: id, option_id: None, rule: None };
    assert_eq!(talk.command(answer), Err(Refusal::NoSuchRequest));
}

#[test]
fn a_question_that_is_open_at_the_end_of_the_turn_gets_no_answer() {
    let mut talk = Talk::ready(None, json!({}));
    talk.line(json!({"id": 1, "method": "session/request_permission", "params": {}}));
    talk.prompt(5).unwrap();
    talk.line(json!({"id": 0, "method": "session/request_permission", "params": {}}));
    talk.forget();
    talk.line(json!({"id": 3, "result": {"stopReason": "max_tokens"}}));
    assert_eq!(talk.types(), [T::ApprovalClosed, T::TurnEnd]);
    assert_eq!(talk.records[0].body["reason"], "turn_ended");
    assert_eq!(talk.records[1].body["stopReason"], "max_tokens");
    assert!(talk.sent().is_empty());
    assert_eq!(talk.conversation.open_approvals().len(), 1, "the one outside of the turn stays");
}

#[test]
fn a_turn_that_takes_too_long_fails_once_the_agent_has_canceled_it() {
    let mut talk = Talk::ready(Some(1000), json!({}));
    talk.prompt(5).unwrap();
    talk.forget();
    talk.input(ConversationInput::Timer(Timer::Turn));
    assert_eq!(talk.methods(), ["session/cancel"]);
    assert!(talk.records.is_empty());
    talk.line(json!({"id": 3, "result": {"stopReason": "cancelled"}}));
    assert_eq!(talk.records[0].body["error"]["code"], "BACKEND_TIMEOUT");
    assert_eq!(talk.conversation.phase(), RuntimePhase::Ready);
    talk.update("plan");
    assert_eq!(talk.records[1].turn, Some(5), "late updates are of the canceled turn");
}

#[test]
fn an_end_takes_its_polite_steps() {
    let mut talk = Talk::ready(None, json!({"sessionCapabilities": {"close": {}}}));
    talk.prompt(5).unwrap();
    talk.forget();
    talk.command(RuntimeCommand::Terminate { reason: "r".to_owned() }).unwrap();
    assert_eq!(talk.types(), [T::Terminating]);
    assert_eq!(talk.methods(), ["session/cancel"]);
    talk.line(json!({"id": 3, "result": {"stopReason": "cancelled"}}));
    assert_eq!(talk.methods(), ["session/cancel", "session/close"]);
    talk.line(json!({"id": 4, "error": {"code": -32601}}));
    assert_eq!(talk.actions.iter().filter(|action| **action == ConversationAction::CloseInput).count(), 1);
    talk.input(ConversationInput::Timer(Timer::StopGrace));
    assert!(talk.actions.contains(&ConversationAction::Terminate));
    assert!(!talk.actions.contains(&ConversationAction::EndTree));
    talk.input(ConversationInput::Timer(Timer::StopGrace));
    assert!(talk.actions.contains(&ConversationAction::EndTree));
    talk.input(ConversationInput::AgentExited(Exit { code: None, signal: Some(9) }));
    talk.input(ConversationInput::TreeEnded { killed: 2, millis: 3 });
    assert_eq!(talk.types(), [T::Terminating, T::TurnEnd, T::AgentExited, T::Ended]);
    assert_eq!(talk.actions.last(), Some(&ConversationAction::Exit));
}

#[test]
fn a_foreign_version_is_named() {
    let mut talk = Talk::new(None, None);
    talk.started();
    talk.line(json!({"id": 1, "result": {"protocolVersion": 2}}));
    let error = &talk.records.last().unwrap().body["error"];
    assert_eq!(
        (&error["code"], &error["details"]["response"]["protocolVersion"]),
        (&json!("BACKEND_PROTOCOL_ERROR"), &json!(2))
    );
    assert!(matches!(talk.conversation.phase(), RuntimePhase::Failed { .. }));
}

#[test]
fn a_turn_is_open_for_a_daemon_until_its_end_is_written() {
    let mut talk = Talk::ready(None, json!({}));
    assert_eq!(talk.prompt(5), Ok(()));
    talk.line(json!({"id": 3, "result": {"stopReason": "end_turn"}}));
    assert_eq!(talk.conversation.open_turn(), None);
    assert_eq!(talk.conversation.open_turn_as_written(true), Some(5));
    assert_eq!(talk.conversation.open_turn_as_written(false), None);
}
