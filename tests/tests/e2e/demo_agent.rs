//! The scripted agent as a client sees it: bytes over pipes, driven by a small NDJSON client.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code including its helpers")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use subagent_tests::harness::executables;

/// Time limit of every wait; nothing here takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(30);

/// A running agent; killed on drop.
struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    errors: Receiver<Vec<u8>>,
    next_id: u64,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(from: impl std::io::Read + Send + 'static) -> Receiver<Vec<u8>> {
    // Bounded, so that a flood waits in the agent and not in this process's memory.
    let (to, lines) = sync_channel(256);
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            match from.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) if to.send(line).is_err() => break,
                Ok(_) => {}
            }
        }
    });
    lines
}

impl Agent {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(executables().path("subagent"))
            .arg("demo-agent")
            .args(args)
            .env("DEMO_TEST", "a value")
            .env_remove("DEMO_AGENT_PIDS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let errors = lines_of(child.stderr.take().unwrap());
        Self { stdin: child.stdin.take(), child, lines, errors, next_id: 0 }
    }

    /// Starts an agent, initializes it and opens a session.
    fn ready(args: &[&str]) -> (Self, String) {
        let mut agent = Self::start(args);
        agent.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})).unwrap();
        let session = agent.new_session();
        (agent, session)
    }

    fn new_session(&mut self) -> String {
        let result = self.call("session/new", json!({"cwd": "/", "mcpServers": []})).unwrap();
        result["sessionId"].as_str().unwrap().to_owned()
    }

    fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn prompt(&mut self, session: &str, script: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": script}]);
        self.request("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    fn cancel(&mut self, session: &str) {
        self.send(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}));
    }

    fn line(&self) -> Vec<u8> {
        self.lines.recv_timeout(LIMIT).expect("the agent writes a line in time")
    }

    fn message(&self) -> Value {
        serde_json::from_slice(&self.line()).expect("the line is JSON")
    }

    /// Reads up to the response to this request. Also returns the messages before it.
    fn answer(&self, id: u64) -> (Result<Value, Value>, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let mut message = self.message();
            if message.get("method").is_none() && message["id"] == json!(id) {
                assert_eq!(message["jsonrpc"], "2.0");
                let result = message.get_mut("result").map(Value::take);
                return (result.ok_or_else(|| message["error"].take()), before);
            }
            before.push(message);
        }
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        self.answer(id).0
    }

    /// Runs a script to its end. Returns the stopReason and the updates.
    fn turn(&mut self, session: &str, script: &str) -> (String, Vec<Value>) {
        let id = self.prompt(session, script);
        let (result, before) = self.answer(id);
        let reason = result.unwrap()["stopReason"].as_str().unwrap().to_owned();
        (reason, before.into_iter().map(|mut message| message["params"]["update"].take()).collect())
    }

    fn exit(&mut self) -> ExitStatus {
        let end = Instant::now() + LIMIT;
        // The channel ends when the process has closed its stdout, which is the event to wait for.
        while Instant::now() < end && self.lines.recv_timeout(LIMIT).is_ok() {}
        self.child.wait().unwrap()
    }
}

fn text(update: &Value) -> &str {
    update["content"]["text"].as_str().unwrap_or_default()
}

fn texts(updates: &[Value]) -> Vec<&str> {
    updates.iter().filter(|update| update["sessionUpdate"] == "agent_message_chunk").map(text).collect()
}

fn kinds(updates: &[Value]) -> Vec<&str> {
    updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect()
}

fn code(result: Result<Value, Value>) -> i64 {
    result.unwrap_err()["code"].as_i64().unwrap()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not happen");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn initialize_offers_what_is_implemented_and_ids_are_echoed() {
    let mut agent = Agent::start(&[]);
    assert_eq!(code(agent.call("session/new", json!({"cwd": "/", "mcpServers": []}))), -32600);
    agent.send(
        &json!({"jsonrpc": "2.0", "id": "a-1", "method": "initialize", "params": {"protocolVersion": 7}}),
    );
    let message = agent.message();
    assert_eq!(message["id"], "a-1");
    assert_eq!(message["result"]["protocolVersion"], 1);
    let offered = &message["result"]["agentCapabilities"];
    assert_eq!(offered["loadSession"], true);
    assert_eq!(offered["sessionCapabilities"], json!({"close": {}, "list": {}, "resume": {}}));
    assert_eq!(message["result"]["agentInfo"]["name"], "demo-agent");
    assert_eq!(code(agent.call("session/set_mode", json!({}))), -32601);
    assert_eq!(code(agent.call("session/new", json!({"cwd": "relative", "mcpServers": []}))), -32602);
    assert_eq!(code(agent.call("session/new", json!({"cwd": "/"}))), -32602);
    assert_eq!(code(agent.call("session/prompt", json!({"sessionId": "x", "prompt": []}))), -32002);
    let closed = agent.new_session();
    assert_eq!(agent.call("session/close", json!({"sessionId": closed})), Ok(json!({})));
    assert_eq!(code(agent.call("session/prompt", json!({"sessionId": closed, "prompt": []}))), -32002);
    agent.stdin = None;
    assert!(agent.exit().success());
}

#[test]
fn a_script_becomes_updates_in_its_order() {
    let (mut agent, session) = Agent::ready(&[]);
    let script = "hello\n!chunks 2\n!think hm\n!tool read look at it\n!plan one|two\n!usage 10 200\n\
                  !env DEMO_TEST\n!env DEMO_TEST_NOT_SET\n!dance\n!say end";
    let (reason, updates) = agent.turn(&session, script);
    assert_eq!(reason, "end_turn");
    assert_eq!(
        kinds(&updates),
        [
            "agent_message_chunk",
            "agent_message_chunk",
            "agent_message_chunk",
            "agent_thought_chunk",
            "tool_call",
            "tool_call_update",
            "plan",
            "usage_update",
            "agent_message_chunk",
            "agent_message_chunk",
            "agent_message_chunk",
            "agent_message_chunk",
        ]
    );
    assert_eq!(
        texts(&updates),
        [
            "hello",
            "chunk 0 ",
            "chunk 1 ",
            "a value",
            "unset",
            "demo-agent: line 9: unknown directive !dance",
            "end"
        ]
    );
    assert_eq!(updates[4]["status"], "in_progress");
    assert_eq!(updates[5]["status"], "completed");
    assert_eq!(updates[4]["toolCallId"], updates[5]["toolCallId"]);
    assert_eq!(updates[5]["content"][0]["content"]["text"], "look at it: done");
    assert_eq!(updates[6]["entries"][1]["content"], "two");
    assert_eq!(updates[7], json!({"sessionUpdate": "usage_update", "used": 10, "size": 200}));
}

#[test]
fn edits_change_files_and_are_reported_as_diffs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/a.txt").to_str().unwrap().to_owned();
    let (mut agent, session) = Agent::ready(&[]);
    let diff =
        |old: Value, new: &str| json!([{"type": "diff", "path": path, "oldText": old, "newText": new}]);

    let (_, updates) = agent.turn(&session, &format!("!edit create {path} one\\ntwo"));
    assert_eq!(kinds(&updates), ["tool_call", "tool_call_update"]);
    assert_eq!((&updates[0]["kind"], &updates[0]["status"]), (&json!("edit"), &json!("in_progress")));
    assert_eq!(updates[0]["locations"], json!([{"path": path}]));
    assert_eq!(updates[0]["content"], diff(Value::Null, "one\ntwo\n"));
    assert_eq!(
        (&updates[1]["status"], &updates[1]["content"]),
        (&json!("completed"), &updates[0]["content"])
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");

    let (_, updates) = agent.turn(&session, &format!("!edit replace {path} 2 zwei"));
    assert_eq!(updates[0]["content"], diff(json!("one\ntwo\n"), "one\nzwei\n"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\nzwei\n");

    let (_, updates) = agent.turn(&session, &format!("!edit delete {path}"));
    assert_eq!(updates[0]["content"], diff(json!("one\nzwei\n"), ""));
    assert!(!Path::new(&path).exists());

    let (reason, updates) = agent.turn(&session, &format!("!edit delete {path}"));
    let said = format!("demo-agent: line 1: !edit: {path}: no such file");
    assert_eq!((reason.as_str(), texts(&updates)), ("end_turn", vec![said.as_str()]));
}

#[test]
fn ends_of_a_turn_are_as_scripted() {
    let (mut agent, session) = Agent::ready(&[]);
    assert_eq!(agent.turn(&session, "!stop max_tokens\nnever").0, "max_tokens");
    let id = agent.prompt(&session, "!error -32123 it broke");
    assert_eq!(agent.answer(id).0, Err(json!({"code": -32123, "message": "it broke"})));
    let id = agent.prompt(&session, "!late\nfirst");
    let (_, before) = agent.answer(id);
    assert_eq!(before.len(), 1);
    assert_eq!(text(&agent.message()["params"]["update"]), "late update");
    let id = agent.prompt(&session, "!exit-after\nbye");
    assert_eq!(agent.answer(id).0, Ok(json!({"stopReason": "end_turn"})));
    assert!(agent.exit().success());
}

#[test]
fn streams_and_long_lines_have_the_size_they_promise() {
    let (mut agent, session) = Agent::ready(&[]);
    let (_, updates) = agent.turn(&session, "!stream 3000");
    assert_eq!(updates.len(), 3000);
    assert_eq!(text(&updates[2999]), "chunk 2999 ");
    let id = agent.prompt(&session, "!line 5000\n!line 10\n!flood 3 70000");
    assert_eq!(agent.line().len(), 5000);
    let (_, before) = agent.answer(id);
    assert!(text(&before[0]["params"]["update"]).contains("the shortest line is"));
    let sizes: Vec<usize> = before[1..].iter().map(|m| text(&m["params"]["update"]).len()).collect();
    assert_eq!(sizes, [70000, 70000, 70000]);
    let (_, updates) = agent.turn(&session, "!flood 1s 50000");
    assert!(updates.len() > 10, "a second of flood is more than {} updates", updates.len());
}

#[test]
fn noise_is_as_dirty_as_promised() {
    let (mut agent, session) = Agent::ready(&[]);
    let id = agent.prompt(&session, "!noise");
    let lines: Vec<Vec<u8>> = (0..6).map(|_| agent.line()).collect();
    assert!(lines[0].starts_with(b"warning"));
    assert_eq!(lines[1], b"\n");
    assert!(std::str::from_utf8(&lines[2]).is_err());
    assert_eq!(lines[3], b"[1,2,3]\n");
    assert_eq!(lines[4], b"{}\n");
    assert!(agent.answer(id).0.is_ok());
}

/// Runs `!ask` and answers the request with this outcome.
fn asked(outcome: Value) -> (Value, Vec<Value>) {
    let (mut agent, session) = Agent::ready(&[]);
    let id = agent.prompt(&session, "!ask execute rm -rf build\nafter");
    assert_eq!(agent.message()["params"]["update"]["status"], "pending");
    let request = agent.message();
    assert_eq!(request["method"], "session/request_permission");
    assert_eq!(request["params"]["sessionId"], json!(session));
    agent.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": {"outcome": outcome}}));
    let (result, before) = agent.answer(id);
    assert_eq!(result, Ok(json!({"stopReason": "end_turn"})));
    (request, before.into_iter().map(|mut message| message["params"]["update"].take()).collect())
}

#[test]
fn a_permission_is_asked_for_and_its_answer_obeyed() {
    for (option, status) in
        [("allow-once", "completed"), ("allow-always", "completed"), ("reject-once", "failed")]
    {
        let (request, updates) = asked(json!({"outcome": "selected", "optionId": option}));
        let options: Vec<(&str, &str)> = request["params"]["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|option| (option["optionId"].as_str().unwrap(), option["kind"].as_str().unwrap()))
            .collect();
        assert_eq!(
            options,
            [("allow-once", "allow_once"), ("allow-always", "allow_always"), ("reject-once", "reject_once")]
        );
        assert_eq!(request["id"], 0);
        assert_eq!(request["params"]["toolCall"]["title"], "rm -rf build");
        assert_eq!(updates[0]["status"], status);
        assert_eq!(texts(&updates), [format!("permission: {option}").as_str(), "after"]);
    }
    let (_, updates) = asked(json!({"outcome": "cancelled"}));
    assert_eq!(texts(&updates), ["permission: cancelled", "after"]);
}

#[test]
fn two_permissions_are_open_at_once_and_answered_in_any_order() {
    let (mut agent, session) = Agent::ready(&[]);
    let id = agent.prompt(&session, "!ask2 edit change");
    let messages: Vec<Value> = (0..4).map(|_| agent.message()).collect();
    let ids: Vec<&Value> = messages.iter().filter_map(|message| message.get("id")).collect();
    assert_eq!(ids.len(), 2);
    for (id, option) in [(ids[1], "reject-once"), (ids[0], "allow-once")] {
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        agent.send(&json!({"jsonrpc": "2.0", "id": id, "result": outcome}));
    }
    let (_, before) = agent.answer(id);
    let updates: Vec<Value> = before.into_iter().map(|mut m| m["params"]["update"].take()).collect();
    assert_eq!(texts(&updates), ["permission 2: reject-once", "permission 1: allow-once"]);
}

#[test]
fn unknown_things_are_sent_and_the_answer_is_said() {
    let (mut agent, session) = Agent::ready(&[]);
    let id = agent.prompt(&session, "!unknown");
    assert_eq!(agent.message()["params"]["update"]["sessionUpdate"], "demo_unknown_update");
    assert_eq!(agent.message()["method"], "_demo/unknown_notification");
    let request = agent.message();
    assert_eq!(request["method"], "_x/y");
    let error = json!({"code": -32601, "message": "no"});
    agent.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    let (_, before) = agent.answer(id);
    assert_eq!(text(&before[0]["params"]["update"]), "unknown request: -32601");
}

#[test]
fn cancel_ends_every_kind_of_wait() {
    let (mut agent, session) = Agent::ready(&[]);
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent");
    let wait_file = format!("!wait-file {}", absent.display());
    for wait in
        ["!sleep 600000", "!ask edit x", "!unknown", "!shell sleep 600", "!flood 600s 100000", &wait_file]
    {
        let id = agent.prompt(&session, &format!("begun\n{wait}\nnever"));
        assert_eq!(text(&agent.message()["params"]["update"]), "begun", "{wait}");
        let other = agent.prompt(&session, "second");
        assert_eq!(code(agent.answer(other).0), -32600, "{wait}");
        agent.cancel("another session");
        agent.cancel(&session);
        let (result, before) = agent.answer(id);
        assert_eq!(result, Ok(json!({"stopReason": "cancelled"})), "{wait}");
        assert!(!before.iter().any(|message| text(&message["params"]["update"]) == "never"), "{wait}");
    }
    assert_eq!(agent.turn(&session, "alive").0, "end_turn");
}

#[test]
fn an_open_tool_call_is_closed_when_its_turn_is_cancelled() {
    let (mut agent, session) = Agent::ready(&[]);
    let id = agent.prompt(&session, "!ask edit x");
    let tool = agent.message()["params"]["update"]["toolCallId"].take();
    agent.message();
    agent.cancel(&session);
    let (_, before) = agent.answer(id);
    assert_eq!(before[0]["params"]["update"]["toolCallId"], tool);
    assert_eq!(before[0]["params"]["update"]["status"], "failed");
}

#[test]
fn close_during_a_turn_cancels_it_first() {
    let (mut agent, session) = Agent::ready(&[]);
    let prompt = agent.prompt(&session, "begun\n!sleep 600000");
    agent.message();
    let close = agent.request("session/close", json!({"sessionId": session}));
    assert_eq!(agent.answer(prompt).0, Ok(json!({"stopReason": "cancelled"})));
    assert_eq!(agent.answer(close).0, Ok(json!({})));
}

#[test]
fn ignore_cancel_postpones_and_hang_never_answers() {
    let (mut agent, session) = Agent::ready(&[]);
    let begin = Instant::now();
    let id = agent.prompt(&session, "begun\n!ignore-cancel 300\n!sleep 600000");
    agent.message();
    agent.cancel(&session);
    assert_eq!(agent.answer(id).0, Ok(json!({"stopReason": "cancelled"})));
    assert!(begin.elapsed() >= Duration::from_millis(300));

    let hung = agent.prompt(&session, "begun\n!hang");
    agent.message();
    agent.cancel(&session);
    // It still answers requests outside the turn in order: no response to the prompt
    // came before this one.
    let list = agent.request("session/list", json!({}));
    let (result, before) = agent.answer(list);
    assert_eq!(result.unwrap()["sessions"][0]["sessionId"], json!(session));
    assert!(before.is_empty(), "prompt {hung} was answered: {before:?}");
    agent.stdin = None;
    assert!(agent.exit().success());
}

#[test]
fn history_survives_the_process_and_is_replayed_by_load_only() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let args = ["--state", state.to_str().unwrap()];
    let (mut agent, session) = Agent::ready(&args);
    agent.turn(&session, "one\n!tool read it\ntwo\nthree");
    drop(agent);

    let (mut agent, other) = Agent::ready(&args);
    assert_ne!(session, other);
    let place = |session: &str| json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    let resume = agent.request("session/resume", place(&session));
    let (result, before) = agent.answer(resume);
    let options =
        |result: &Value| result["configOptions"].is_array() && result.as_object().unwrap().len() == 1;
    assert!(options(&result.unwrap()) && before.is_empty(), "a resume must replay nothing: {before:?}");
    let load = agent.request("session/load", place(&session));
    let (result, before) = agent.answer(load);
    assert!(options(&result.unwrap()));
    let updates: Vec<Value> = before.into_iter().map(|mut m| m["params"]["update"].take()).collect();
    assert_eq!(
        kinds(&updates),
        ["user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]
    );
    assert_eq!(text(&updates[0]), "one\n!tool read it\ntwo\nthree");
    assert_eq!(texts(&updates), ["one", "twothree"]);
    assert_eq!(agent.turn(&session, "goes on").0, "end_turn");
    assert_eq!(code(agent.call("session/load", place("demo-unknown"))), -32002);
    let sessions = agent.call("session/list", json!({})).unwrap();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_system_prompt_is_taken_only_where_it_was_offered() {
    let prompt = |mode: &str| json!({"mode": mode, "content": [{"type": "text", "text": "Be brief."}]});
    let place = |prompt: Value| json!({"cwd": "/", "mcpServers": [], "systemPrompt": prompt});
    let (mut agent, session) = Agent::ready(&["--system-prompt"]);
    assert_eq!(texts(&agent.turn(&session, "!system-prompt").1), ["none"]);
    let session = agent.call("session/new", place(prompt("append"))).unwrap();
    let session = session["sessionId"].as_str().unwrap();
    assert_eq!(texts(&agent.turn(session, "!system-prompt").1), ["Be brief."]);
    assert_eq!(code(agent.call("session/new", place(prompt("override")))), -32602);
    let (mut agent, _) = Agent::ready(&[]);
    assert_eq!(code(agent.call("session/new", place(prompt("append")))), -32602);
}

#[test]
fn startup_flags_misbehave_as_scripted() {
    let mut agent = Agent::start(&["--exit", "7"]);
    assert_eq!(agent.exit().code(), Some(7));
    assert_eq!(
        agent.errors.recv_timeout(LIMIT).unwrap(),
        b"demo-agent: exiting with code 7, as told by --exit\n"
    );

    let mut agent = Agent::start(&["--what"]);
    assert_eq!(agent.exit().code(), Some(2));

    let mut agent = Agent::start(&["--no-acp"]);
    assert_eq!(agent.line(), b"Welcome to demo-agent.\n");
    agent.stdin = None;
    assert!(agent.exit().success());

    // Never answered: the error for the line that is not JSON comes first.
    let mut agent = Agent::start(&["--hang-initialize"]);
    agent.request("initialize", json!({"protocolVersion": 1}));
    agent.send(&json!("noise"));
    assert_eq!(agent.message()["error"]["code"], -32600);

    let mut agent = Agent::start(&["--hang-session-new"]);
    agent.call("initialize", json!({"protocolVersion": 1})).unwrap();
    agent.request("session/new", json!({"cwd": "/", "mcpServers": []}));
    assert_eq!(agent.call("session/list", json!({})), Ok(json!({"sessions": []})));

    let mut agent = Agent::start(&["--slow-start", "60"]);
    let begin = Instant::now();
    agent.call("initialize", json!({"protocolVersion": 1})).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(60));
}

#[test]
fn needs_auth_refuses_sessions_until_authenticated() {
    let mut agent = Agent::start(&["--needs-auth"]);
    let offered = agent.call("initialize", json!({"protocolVersion": 1})).unwrap();
    assert_eq!(code(agent.call("session/new", json!({"cwd": "/", "mcpServers": []}))), -32000);
    assert_eq!(code(agent.call("authenticate", json!({"methodId": "other"}))), -32602);
    let method = &offered["authMethods"][0]["id"];
    assert_eq!(agent.call("authenticate", json!({"methodId": method})), Ok(json!({})));
    agent.new_session();
}

#[test]
fn the_bare_dialect_is_an_agent_of_old() {
    for _ in 0..2 {
        let mut agent = Agent::start(&["--no-capabilities"]);
        let offered = agent.call("initialize", json!({"protocolVersion": 1})).unwrap();
        assert_eq!(offered, json!({"protocolVersion": 1, "serverInfo": {"name": "demo-agent"}}));
        assert_eq!(agent.new_session(), "session-1");
        let load = json!({"sessionId": "from-before", "cwd": "/", "mcpServers": []});
        assert_eq!(agent.call("session/load", load), Ok(Value::Null));
        let id = agent.prompt("from-before", "hello\n!stream 1\n!sleep 600000");
        for text in ["hello", "chunk 0 "] {
            let update = json!({"agent_message_chunk": {"content": [{"type": "text", "text": text}]}});
            assert_eq!(agent.message()["params"]["update"], update);
        }
        agent.cancel("from-before");
        let answer = agent.message();
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": null, "result": {}}));
        assert_eq!(agent.answer(id).0, Ok(json!({"stopReason": "cancelled"})));
    }
    let (mut agent, session) = Agent::ready(&["--null-load"]);
    let load = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
    assert_eq!(agent.call("session/load", load), Ok(Value::Null));
}

#[test]
fn deaths_and_signals_are_as_scripted() {
    use std::os::unix::process::ExitStatusExt;
    let (mut agent, session) = Agent::ready(&[]);
    agent.prompt(&session, "before\n!crash 3");
    assert_eq!(text(&agent.message()["params"]["update"]), "before");
    assert_eq!(agent.exit().code(), Some(3));

    let (mut agent, session) = Agent::ready(&[]);
    agent.prompt(&session, "!kill-self");
    assert_eq!(agent.exit().signal(), Some(9));

    let (mut agent, session) = Agent::ready(&["--ignore-term", "--ignore-stdin-eof"]);
    let id = Pid::from_raw(agent.child.id().cast_signed());
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    agent.prompt(&session, &format!("begun\n!wait-file {}\nafter both", go.display()));
    agent.message();
    agent.stdin = None;
    kill(id, Signal::SIGTERM).unwrap();
    std::fs::write(&go, "").unwrap();
    assert_eq!(text(&agent.message()["params"]["update"]), "after both");
    assert_eq!(agent.message()["result"]["stopReason"], "end_turn");
    assert_eq!(agent.child.try_wait().unwrap(), None);
}

#[test]
fn files_shells_and_stderr_are_touched() {
    let (mut agent, session) = Agent::ready(&[]);
    let folder = tempfile::tempdir().unwrap();
    let proof = folder.path().join("proof");
    let script = format!(
        "!touch {0}\n!touch {0}\n!shell echo out; echo err >&2; exit 4\n!stderr a line\n!touch {0}/x\n!cwd",
        proof.display()
    );
    let (_, updates) = agent.turn(&session, &script);
    let pid = agent.child.id();
    assert_eq!(std::fs::read_to_string(&proof).unwrap(), format!("{pid}\n{pid}\n"));
    assert_eq!(texts(&updates)[0], "exit 4\nout\nerr\n");
    assert!(texts(&updates)[1].starts_with("demo-agent: line 5: !touch: "));
    assert_eq!(texts(&updates)[2], std::env::current_dir().unwrap().to_string_lossy());
    assert_eq!(agent.errors.recv_timeout(LIMIT).unwrap(), b"a line\n");
}

fn pids_in(file: &Path) -> Vec<Pid> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| Pid::from_raw(line.parse().unwrap())).collect()
}

/// Whether it is gone, or a zombie not yet reaped (this test is not the parent of all of them).
fn is_dead(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

#[test]
fn spawned_processes_outlive_the_agent_until_their_file_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let (mut agent, session) = Agent::ready(&["--pids", file.to_str().unwrap()]);
    let (_, updates) = agent.turn(&session, "!spawn all");
    let expected = ["daemon", "ignore-term", "forker", "wipe-env", "hold-pipes"];
    assert_eq!(texts(&updates), expected.map(|shape| format!("spawned: {shape}")));
    let steady: Vec<Pid> = {
        // The forker writes a line per link, and continues after the agent's death.
        agent.child.kill().unwrap();
        agent.child.wait().unwrap();
        let known = pids_in(&file).len();
        wait_until("another link of the forker", || pids_in(&file).len() > known + 3);
        pids_in(&file).into_iter().filter(|pid| !is_dead(*pid)).collect()
    };
    assert!(steady.len() >= 4, "daemon, ignore-term, wipe-env and hold-pipes are alive: {steady:?}");
    for pid in &steady {
        // The process of wipe-env is not dumpable; only root may read its (empty) environment.
        let _ = kill(*pid, Signal::SIGTERM);
    }
    wait_until("SIGTERM must end all but the deaf one and the chain", || {
        steady.iter().filter(|pid| !is_dead(**pid)).count() <= 1
    });
    let all = pids_in(&file);
    std::fs::remove_file(&file).unwrap();
    wait_until("the deleted file must end the others", || all.iter().all(|pid| is_dead(*pid)));
}

#[test]
fn spawn_without_a_pid_file_is_refused() {
    let (mut agent, session) = Agent::ready(&[]);
    let (_, updates) = agent.turn(&session, "!spawn daemon");
    assert!(texts(&updates)[0].starts_with("demo-agent: line 1: !spawn needs --pids FILE"));
}
