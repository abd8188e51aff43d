//! Proves the model server and the environment of `real_agent` with the real Gemini CLI, over ACP that is
//! written by hand here: neither our product nor an ACP library takes part. Skipped, loudly, where the agent
//! is not installed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of this file is a test, the driver included; times are printed for who looks for them"
)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde_json::{Value, json};
use subagent_tests::model_server::{Asked, ModelServer};
use subagent_tests::real_agent::RealAgent;

/// For each message; the agent needs 1.3 s for its first on a quiet machine, several times that on a busy one.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running agent with one session. Dropping it kills what is left of its process group.
struct Agent<'a> {
    child: Child,
    group: Pid,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    ended: Receiver<()>,
    started: &'a RealAgent,
    session: String,
    last_id: u64,
}

/// What a turn brought.
#[derive(Debug, Default)]
struct Turn {
    stop_reason: String,
    text: String,
    permissions: Vec<Value>,
    tools: Vec<Value>,
}

impl<'a> Agent<'a> {
    fn start(agent: &'a RealAgent, cwd: &Path) -> Self {
        let begun = Instant::now();
        let mut child = Command::new(&agent.command)
            .args(&agent.args)
            .env_clear()
            .envs(&agent.env)
            .current_dir(cwd)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(agent.home().join("stderr.log")).unwrap())
            .spawn()
            .unwrap();
        let group = Pid::from_raw(child.id().try_into().unwrap());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (to_messages, messages) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({"noise": line}));
                if to_messages.send(message).is_err() {
                    break;
                }
            }
        });
        let (to_ended, ended) = mpsc::channel();
        thread::spawn(move || {
            // Without reaping it, so that its id stays its own until `finish` or `drop` has taken its status.
            let _ = waitid(Id::Pid(group), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
            let _ = to_ended.send(());
        });
        let stdin = child.stdin.take();
        let mut agent =
            Self { child, group, stdin, messages, ended, started: agent, session: String::new(), last_id: 0 };

        let result = agent.call("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
        assert_eq!(result["protocolVersion"], 1, "{result}");
        assert_eq!(result["agentInfo"]["name"], "gemini-cli", "{result}");
        let initialized = begun.elapsed();
        let result = agent.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        agent.session = result["sessionId"].as_str().unwrap().to_owned();
        eprintln!("initialize answered after {initialized:?}, session/new after {:?}", begun.elapsed());
        agent
    }

    fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        self.send(json!({"id": self.last_id, "method": method, "params": params}));
        self.last_id
    }

    fn next(&self) -> Value {
        self.messages.recv_timeout(DEADLINE).unwrap_or_else(|error| {
            let stderr = fs::read_to_string(self.started.home().join("stderr.log")).unwrap_or_default();
            panic!("no message from the agent: {error}; its stderr:\n{stderr}")
        })
    }

    /// The result of a request outside of a turn; updates before it are dropped.
    fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        loop {
            let mut message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
        }
    }

    fn prompt(&mut self, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", json!({"sessionId": self.session, "prompt": prompt}))
    }

    /// Reads on until the prompt is answered. Permission is given with the option of this kind;
    /// `on_text` is called once, with the first text.
    fn finish_turn(&mut self, id: u64, option_kind: &str, on_text: impl FnOnce(&mut Self)) -> Turn {
        let mut turn = Turn::default();
        let mut on_text = Some(on_text);
        loop {
            let message = self.next();
            match message["method"].as_str() {
                Some("session/update") => {
                    let update = &message["params"]["update"];
                    match update["sessionUpdate"].as_str() {
                        Some("agent_message_chunk") => {
                            turn.text += update["content"]["text"].as_str().unwrap();
                            if let Some(on_text) = on_text.take() {
                                on_text(self);
                            }
                        }
                        Some("tool_call" | "tool_call_update") => turn.tools.push(update.clone()),
                        _ => {}
                    }
                }
                Some("session/request_permission") => {
                    let params = &message["params"];
                    let options = params["options"].as_array().unwrap();
                    let option = options.iter().find(|option| option["kind"] == option_kind).unwrap();
                    let outcome = json!({"outcome": "selected", "optionId": option["optionId"]});
                    self.send(json!({"id": message["id"], "result": {"outcome": outcome}}));
                    turn.permissions.push(params.clone());
                }
                None if message["id"] == id => {
                    turn.stop_reason =
                        message["result"]["stopReason"].as_str().unwrap_or_default().to_owned();
                    assert!(!turn.stop_reason.is_empty(), "{message}");
                    return turn;
                }
                _ => panic!("unexpected: {message}"),
            }
        }
    }

    fn turn(&mut self, text: &str, option_kind: &str) -> Turn {
        let begun = Instant::now();
        let id = self.prompt(text);
        let turn = self.finish_turn(id, option_kind, |_| {});
        eprintln!("{text:?} answered after {:?}", begun.elapsed());
        turn
    }

    /// Ends the agent by closing its stdin, and checks that nothing of it is left.
    fn finish(mut self) {
        drop(self.stdin.take());
        let begun = Instant::now();
        let ended = self.ended.recv_timeout(DEADLINE);
        assert_ne!(
            ended,
            Err(RecvTimeoutError::Timeout),
            "still there {DEADLINE:?} after its stdin was closed"
        );
        let status: ExitStatus = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        eprintln!("ended {:?} after its stdin was closed", begun.elapsed());
        assert_eq!(killpg(self.group, None), Err(nix::errno::Errno::ESRCH), "its group is not empty");
        assert_eq!(strays(self.started.home()), Vec::<String>::new(), "left behind");
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        // Its id is its own until it is reaped, which `finish` may have done.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = killpg(self.group, Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// The processes that have this HOME, in whatever group or session they are.
fn strays(home: &Path) -> Vec<String> {
    let marker = format!("HOME={}\0", home.display());
    let of =
        |pid: &Path| String::from_utf8_lossy(&fs::read(pid.join("environ")).unwrap_or_default()).into_owned();
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes.filter(|pid| of(pid).contains(&marker)).map(|pid| pid.display().to_string()).collect()
}

#[test]
fn says_what_the_prompt_asks_for_and_is_asked_once() {
    let models = ModelServer::start().unwrap();
    let Some(gemini) = RealAgent::find("gemini", &models, None) else { return };
    let cwd = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(&gemini, cwd.path());

    let turn = agent.turn("SAY: Hello from a model without a network.", "none");
    assert_eq!(
        (turn.stop_reason.as_str(), turn.text.as_str()),
        ("end_turn", "Hello from a model without a network.")
    );
    let turn = agent.turn("some words", "none");
    assert_eq!(turn.text, "some words");

    agent.finish();
    assert_eq!(models.prompts(), ["SAY: Hello from a model without a network.", "some words"]);
    let unknown: Vec<_> =
        models.requests().into_iter().filter(|request| request.asked == Asked::Unknown).collect();
    assert!(unknown.is_empty(), "the agent wants what the server does not know: {unknown:?}");
}

#[test]
fn runs_a_command_when_it_is_allowed_and_only_then() {
    let models = ModelServer::start().unwrap();
    let Some(gemini) = RealAgent::find("gemini", &models, None) else { return };
    let cwd = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(&gemini, cwd.path());

    let turn = agent.turn("RUN: touch rejected && echo it-ran", "reject_once");
    assert_eq!(turn.permissions.len(), 1, "{turn:?}");
    assert!(turn.text.starts_with("DONE: ") && !turn.text.contains("it-ran"), "{turn:?}");
    assert!(!cwd.path().join("rejected").exists());

    let turn = agent.turn("RUN: touch allowed && echo it-ran", "allow_once");
    assert_eq!(turn.permissions.len(), 1, "{turn:?}");
    assert_eq!(turn.permissions[0]["toolCall"]["kind"], "execute", "{turn:?}");
    assert!(turn.tools.iter().any(|tool| tool["status"] == "completed"), "{turn:?}");
    assert!(turn.text.starts_with("DONE: ") && turn.text.contains("it-ran"), "{turn:?}");
    assert!(cwd.path().join("allowed").exists());

    agent.finish();
}

#[test]
fn stays_in_a_turn_until_the_gate_opens_or_it_is_canceled() {
    let models = ModelServer::start().unwrap();
    let Some(gemini) = RealAgent::find("gemini", &models, None) else { return };
    let cwd = tempfile::tempdir().unwrap();
    let gate = cwd.path().join("gate");
    let mut agent = Agent::start(&gemini, cwd.path());

    let id = agent.prompt(&format!("GATE: {}", gate.display()));
    let turn = agent.finish_turn(id, "none", |_| fs::write(&gate, "").unwrap());
    assert_eq!((turn.stop_reason.as_str(), turn.text.as_str()), ("end_turn", "waiting opened"));

    let cancel = |agent: &mut Agent<'_>| {
        agent.send(json!({"method": "session/cancel", "params": {"sessionId": agent.session}}));
    };
    for long in [format!("GATE: {}", cwd.path().join("closed").display()), "SLOW: 50".to_owned()] {
        let begun = Instant::now();
        let id = agent.prompt(&long);
        let turn = agent.finish_turn(id, "none", cancel);
        assert_eq!(turn.stop_reason, "cancelled", "{long}: {turn:?}");
        eprintln!("{long:?} canceled after {:?}", begun.elapsed());
    }

    let turn = agent.turn("SAY: still here", "none");
    assert_eq!((turn.stop_reason.as_str(), turn.text.as_str()), ("end_turn", "still here"));
    agent.finish();
}
