//! Questions to an agent, without any process.

use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_protocol::ask::{AgentQueryResult, AgentQuestion, Deadlines};

use super::machine::{AgentQueryAction, AgentQueryInput, AgentQueryMachine, QueryContext};
use crate::acp::lines::AgentLine;
use crate::conversation::Exit;

const DEADLINES: Deadlines = Deadlines { initialize_ms: 1000, request_ms: 500, stop_grace_ms: 100 };

/// A machine with a clock and the actions it requested.
struct AgentQueryHarness {
    machine: AgentQueryMachine,
    now: u64,
    wanted: Vec<AgentQueryAction>,
}

impl AgentQueryHarness {
    fn new(question: AgentQuestion) -> Self {
        let machine = AgentQueryMachine::new(question, DEADLINES, "/w".to_owned(), vec!["agent".to_owned()]);
        let mut run = Self { machine, now: 0, wanted: Vec::new() };
        run.take(AgentQueryInput::Spawned);
        run
    }

    fn take(&mut self, input: AgentQueryInput<'_>) {
        self.now += 10;
        let mut cx = QueryContext { now: self.now, tail: &|| "last words".to_owned(), actions: Vec::new() };
        self.machine.handle(input, &mut cx);
        self.wanted.extend(cx.actions);
    }

    fn say(&mut self, message: &Value) {
        self.take(AgentQueryInput::Line(AgentLine::Whole(message.to_string().as_bytes())));
    }

    /// Returns the last request to the agent.
    fn asked(&self) -> Value {
        let sent = self.wanted.iter().rev().find_map(|action| match action {
            AgentQueryAction::Send(line) => serde_json::from_slice(&line.bytes).ok(),
            _ => None,
        });
        sent.unwrap_or(Value::Null)
    }

    #[track_caller]
    fn answer(&mut self, method: &str, result: Value) {
        let asked = self.asked();
        assert_eq!(asked["method"], method);
        self.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
    }

    #[track_caller]
    fn refuse(&mut self, method: &str, code: i64) {
        let asked = self.asked();
        assert_eq!(asked["method"], method);
        self.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": "no"}}));
    }

    /// Reports the end of the agent and of its tree. No further action may follow.
    #[track_caller]
    fn end(mut self) -> AgentQueryResult {
        assert!(self.wanted.contains(&AgentQueryAction::CloseInput), "{:?}", self.wanted);
        self.take(AgentQueryInput::AgentExited(Exit { code: Some(0), signal: None }));
        self.take(AgentQueryInput::TreeEnded);
        assert_eq!(self.wanted.last(), Some(&AgentQueryAction::Finish));
        self.machine.into_answer()
    }
}

fn capabilities(session: Value) -> Value {
    json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": session}})
}

fn phases(answer: &AgentQueryResult) -> Vec<&str> {
    answer.phases.iter().map(|phase| phase.phase.as_str()).collect()
}

fn code(answer: &AgentQueryResult) -> Option<Code> {
    answer.error.as_ref().map(|error| error.code)
}

#[test]
fn a_handshake_opens_a_session_and_closes_it() {
    let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
    assert_eq!(run.asked()["params"]["clientCapabilities"]["auth"]["terminal"], true);
    run.answer("initialize", capabilities(json!({"close": {}})));
    assert_eq!(run.asked()["params"], json!({"cwd": "/w", "mcpServers": []}));
    run.answer("session/new", json!({"sessionId": "s", "modes": {"currentModeId": "m"}}));
    run.answer("session/close", json!({}));
    let answer = run.end();
    assert_eq!(phases(&answer), ["spawn", "initialize", "session", "end"]);
    assert_eq!(answer.session.unwrap()["modes"]["currentModeId"], "m");
    assert_eq!(answer.error, None);
}

#[test]
fn an_agent_that_wants_a_login_is_an_answer_with_its_methods() {
    let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
    run.answer("initialize", json!({"authMethods": [{"id": "a", "name": "A"}, {"id": 7}]}));
    run.refuse("session/new", -32000);
    let answer = run.end();
    let error = answer.error.unwrap();
    assert_eq!(error.code, Code::AuthRequired);
    let expected = json!([{"id": "a", "name": "A", "description": null, "type": "agent"}]);
    assert_eq!(error.details["authMethods"], expected);
}

#[test]
fn silence_has_an_end_in_every_phase_and_is_named() {
    for (phase, answers) in [("spawn", 0), ("initialize", 0), ("session", 1)] {
        let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
        if phase == "spawn" {
            run.machine = AgentQueryMachine::new(
                AgentQuestion::Handshake,
                DEADLINES,
                "/w".to_owned(),
                vec!["agent".to_owned()],
            );
        }
        if answers > 0 {
            run.answer("initialize", json!({}));
        }
        run.wanted.clear();
        run.take(AgentQueryInput::Deadline);
        assert_eq!(run.wanted[..2], [AgentQueryAction::CloseInput, AgentQueryAction::Terminate]);
        run.take(AgentQueryInput::Deadline);
        assert_eq!(run.wanted.last(), Some(&AgentQueryAction::EndTree));
        let error = run.end().error.unwrap();
        assert_eq!(error.code, Code::BackendTimeout);
        assert_eq!(error.details["phase"], phase);
        assert_eq!(error.details["logTail"], "last words");
    }
}

#[test]
fn another_version_and_an_end_in_the_middle_are_errors() {
    for version in [json!(2), json!(0), json!("1.0")] {
        let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
        run.answer("initialize", json!({"protocolVersion": version}));
        assert_eq!(code(&run.end()), Some(Code::BackendProtocolError));
    }
    let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
    run.take(AgentQueryInput::Line(AgentLine::Whole(b"Usage: agent")));
    run.take(AgentQueryInput::AgentExited(Exit { code: Some(127), signal: None }));
    run.take(AgentQueryInput::TreeEnded);
    assert_eq!(code(&run.machine.into_answer()), Some(Code::BackendLauncher));
}

#[test]
fn a_closed_connection_ends_everything() {
    for answers in 0..2 {
        let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
        if answers > 0 {
            run.answer("initialize", json!({}));
        }
        run.take(AgentQueryInput::HungUp);
        run.take(AgentQueryInput::Deadline);
        run.take(AgentQueryInput::Deadline);
        assert_eq!(run.wanted.last(), Some(&AgentQueryAction::EndTree));
        run.end();
    }
}

#[test]
fn the_last_reported_login_status_is_kept() {
    let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
    run.answer("initialize", json!({"protocolVersion": 1}));
    for kind in [json!("account"), json!("none"), Value::Null] {
        let params = json!({"authStatus": {"kind": kind}});
        run.say(&json!({"jsonrpc": "2.0", "method": "_auth/status_update", "params": params}));
    }
    run.answer("session/new", json!({"sessionId": "s"}));
    let answer = run.end();
    assert_eq!((answer.auth_status.unwrap().kind, answer.error), ("none".to_owned(), None));
}

#[test]
fn requests_of_the_agent_are_refused_meanwhile() {
    let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
    run.say(&json!({"id": 0, "method": "session/request_permission", "params": {}}));
    assert_eq!(run.asked()["result"], json!({"outcome": {"outcome": "cancelled"}}));
    run.say(&json!({"id": "x", "method": "fs/read_text_file", "params": {}}));
    assert_eq!((&run.asked()["id"], &run.asked()["error"]["code"]), (&json!("x"), &json!(-32601)));
}

#[test]
fn the_method_of_a_login_is_the_one_that_is_named_or_the_only_one() {
    let login = |method: Option<&str>, offered: Value| {
        let mut run = AgentQueryHarness::new(AgentQuestion::Login { method: method.map(str::to_owned) });
        run.answer("initialize", json!({"authMethods": offered}));
        run
    };
    let (a, b) = (json!({"id": "a"}), json!({"id": "b", "type": "terminal"}));
    for (named, offered) in [(None, json!([a])), (Some("a"), json!([a, b]))] {
        let mut run = login(named, offered);
        assert_eq!(run.asked()["params"], json!({"methodId": "a"}));
        run.answer("authenticate", json!({}));
        let answer = run.end();
        assert_eq!((answer.method, answer.error), (Some(a.clone()), None));
    }
    let answer = login(Some("b"), json!([a, b])).end();
    assert_eq!((answer.method, answer.error), (Some(b.clone()), None));
    for (named, offered, expected) in [
        (None, json!([a, b]), Code::InvalidArgument),
        (Some("c"), json!([a]), Code::InvalidArgument),
        (Some("d"), json!([{"id": "d", "type": "_palm"}]), Code::InvalidArgument),
        (None, json!([]), Code::AgentMethodUnsupported),
        (None, json!("none"), Code::AgentMethodUnsupported),
    ] {
        assert_eq!(code(&login(named, offered).end()), Some(expected));
    }
    let mut run = login(None, json!([a]));
    run.refuse("authenticate", -32603);
    assert_eq!(code(&run.end()), Some(Code::BackendRpcError));
}

#[test]
fn operations_that_are_not_offered_are_not_requested() {
    for question in [
        AgentQuestion::Logout,
        AgentQuestion::ListSessions { cwd: None },
        AgentQuestion::DeleteSession { session_id: "s".to_owned() },
    ] {
        let mut run = AgentQueryHarness::new(question);
        run.answer("initialize", capabilities(json!({"list": false, "close": {}})));
        let answer = run.end();
        assert_eq!(code(&answer), Some(Code::AgentMethodUnsupported));
        assert_eq!(phases(&answer), ["spawn", "initialize", "end"]);
    }
}

#[test]
fn sessions_are_paged_within_bounds() {
    let mut run = AgentQueryHarness::new(AgentQuestion::ListSessions { cwd: Some("/w".to_owned()) });
    run.answer("initialize", capabilities(json!({"list": {}})));
    assert_eq!(run.asked()["params"], json!({"cwd": "/w"}));
    run.answer("session/list", json!({"sessions": [{"sessionId": "1"}], "nextCursor": "c"}));
    assert_eq!(run.asked()["params"], json!({"cwd": "/w", "cursor": "c"}));
    run.answer("session/list", json!({"sessions": [{"sessionId": "2"}], "nextCursor": null}));
    let answer = run.end();
    assert_eq!((answer.sessions.len(), answer.truncated), (2, false));
    assert_eq!(phases(&answer), ["spawn", "initialize", "list", "end"]);

    let mut endless = AgentQueryHarness::new(AgentQuestion::ListSessions { cwd: None });
    endless.answer("initialize", capabilities(json!({"list": {}})));
    let mut pages = 0;
    while !endless.wanted.contains(&AgentQueryAction::CloseInput) {
        pages += 1;
        endless.answer("session/list", json!({"sessions": [], "nextCursor": format!("{pages}")}));
    }
    assert_eq!((pages, endless.end().truncated), (100, true));

    let mut same = AgentQueryHarness::new(AgentQuestion::ListSessions { cwd: None });
    same.answer("initialize", capabilities(json!({"list": {}})));
    for _ in 0..2 {
        same.answer("session/list", json!({"sessions": [1], "nextCursor": "same"}));
    }
    assert!(!same.end().truncated);
}

#[test]
fn a_session_that_is_not_known_cannot_be_deleted() {
    for (refused, expected) in [(-32002, Code::SessionNotFound), (-32603, Code::BackendRpcError)] {
        let mut run = AgentQueryHarness::new(AgentQuestion::DeleteSession { session_id: "s".to_owned() });
        run.answer("initialize", capabilities(json!({"delete": {}})));
        run.refuse("session/delete", refused);
        assert_eq!(code(&run.end()), Some(expected));
    }
}

proptest::proptest! {
    /// The question ends within a few deadlines, for any output of the agent and any silence.
    #[test]
    fn the_end_comes_despite_any_input(
        said in proptest::collection::vec("(\\{\"id\":[0-4],\"(result|error)\":(1|\\{\\}|null|\\{\"sessionId\":\"s\"\\})\\}|x|\\{\"id\":1,\"method\":\"m\"\\})", 0..12),
    ) {
        let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
        for line in &said {
            run.take(AgentQueryInput::Line(AgentLine::Whole(line.as_bytes())));
        }
        for _ in 0..4 {
            run.take(AgentQueryInput::Deadline);
        }
        proptest::prop_assert!(run.wanted.contains(&AgentQueryAction::EndTree));
        run.end();
    }
}

#[test]
fn unkillable_processes_are_reported_without_a_wait() {
    let mut run = AgentQueryHarness::new(AgentQuestion::Handshake);
    run.take(AgentQueryInput::AgentExited(Exit { code: Some(0), signal: None }));
    assert!(matches!(run.wanted.last(), Some(AgentQueryAction::Deadline(_))), "{:?}", run.wanted.last());
    run.take(AgentQueryInput::Deadline);
    assert_eq!(run.wanted.last(), Some(&AgentQueryAction::Finish));
    let mut run = AgentQueryHarness::new(AgentQuestion::ListSessions { cwd: None });
    run.answer("initialize", json!({"agentCapabilities": {"sessionCapabilities": {"list": {}}}}));
    run.answer("session/list", json!({"sessions": []}));
    for _ in 0..3 {
        run.take(AgentQueryInput::Deadline);
    }
    assert_eq!(run.wanted.last(), Some(&AgentQueryAction::Finish));
    let answer = run.machine.into_answer();
    assert_eq!(answer.error.map(|error| error.code), Some(Code::StopIncomplete));
}
