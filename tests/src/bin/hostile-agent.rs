//! An agent that writes its bytes by hand and breaks every rule of the wire, one case at a time. It
//! shares no code with the peer that it tests.

// By default it behaves well. A prompt with the line `hostile: NAME` plays that case between the
// chunks `before` and `after`. Then it ends the turn with `end_turn`, unless the case is not to
// end it.
//
// `--at-initialize NAME` and `--at-session-new NAME` play a case just before that response,
// `--bytes N` is the size of `long-line`, and `--list` prints the names. `hostile: tree REGISTRY
// SHAPE` starts a process tree (`subagent_tests::trees`) and works until it is canceled. `hostile:
// write FILE` writes the bytes of a file. `hostile: escape TARGETS` tries every way out of a
// sandbox and reports the results (`hostile_agent/escapes.rs`).
//
// `--answer METHOD JSON`, `--refuse METHOD CODE`, `--hang METHOD` and `--die METHOD` replace the
// handling of a request (`--complain METHOD` ends with a message on stdout). `--history` repeats a
// history in `session/resume`. `quirk: NAME` plays what a real agent does with permissions
// (`hostile_agent/quirks.rs`). `--log-in FILE` is a login at a terminal, which writes its findings
// into the file.

#[path = "hostile_agent/delegation.rs"]
mod delegation;
#[path = "hostile_agent/escapes.rs"]
mod escapes;
#[path = "hostile_agent/quirks.rs"]
mod quirks;
#[path = "hostile_agent/wire.rs"]
mod wire;

use std::io::{self, BufRead, IsTerminal, StdinLock, Write};
use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use wire::{
    answer, bytewise, elicitation, head_of, line, long_line, raw, raw_update, replaced, say, tool,
    update_for, update_line, wait_for_hangup, write,
};

const SESSION: &str = "hostile-session";
const DEPTH: usize = 10_000;

/// All cases with how each turn continues.
const CASES: [(&str, Ending); 34] = [
    ("truncated-json", Ending::Proper),
    ("giant-numbers", Ending::Proper),
    ("deep-nesting", Ending::Proper),
    ("duplicate-keys", Ending::Proper),
    ("invalid-utf8", Ending::Proper),
    ("nuls", Ending::Proper),
    ("lone-surrogates", Ending::Proper),
    ("odd-end", Ending::Odd),
    ("id-collision", Ending::Proper),
    ("unasked-response", Ending::Proper),
    ("response-twice", Ending::Twice),
    ("request-id-null", Ending::Proper),
    ("request-id-string", Ending::Proper),
    ("request-id-float", Ending::Proper),
    ("crlf", Ending::CrLf),
    ("long-line", Ending::Proper),
    ("bom", Ending::Proper),
    ("other-session", Ending::Proper),
    ("permission-no-options", Ending::Proper),
    ("permission-duplicate-options", Ending::Proper),
    ("permission-unknown-kinds", Ending::Proper),
    ("permission-bare-tool-call", Ending::Proper),
    ("permission-of-a-told-call", Ending::Proper),
    ("permission-with-details", Ending::Proper),
    ("permission-strange-ids", Ending::Proper),
    ("client-nonsense", Ending::Proper),
    ("client-flood", Ending::Proper),
    ("elicitation-deep", Ending::Proper),
    ("elicitation-huge", Ending::Proper),
    ("elicitation-many", Ending::Proper),
    ("elicitation-link", Ending::Proper),
    ("close-stdout", Ending::Never),
    ("never-read", Ending::Never),
    ("byte-by-byte", Ending::Bytewise),
];

/// How a case ends its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Proper,
    Twice,
    CrLf,
    Bytewise,
    /// With half of a surrogate pair, and deeply nested.
    Odd,
    /// The case does not return.
    Never,
}

/// The result of waiting for a response, which was printed already.
enum ResponseWaitEnd {
    Given,
    Cancelled,
}

/// The scripted handling of a request.
enum HostileScript {
    Answer(Value),
    Refuse(i64),
    Hang,
    Die,
    Complain,
}

struct Hostile {
    scripts: Vec<(String, HostileScript)>,
    input: StdinLock<'static>,
    long_line: usize,
    /// Whether it declares that it can load sessions.
    loads: bool,
    /// Whether it resumes sessions and then repeats their history.
    history: bool,
    at_initialize: Option<String>,
    at_session_new: Option<String>,
    /// The MCP servers of the session.
    servers: Value,
    /// The id of the request being answered, as JSON.
    current: Value,
}

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The error is lost if stderr is closed.
            let _ = writeln!(io::stderr(), "hostile-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> io::Result<()> {
    let mut agent = Hostile {
        scripts: Vec::new(),
        input: io::stdin().lock(),
        long_line: 100 * 1024 * 1024,
        loads: true,
        history: false,
        at_initialize: None,
        at_session_new: None,
        servers: Value::Null,
        current: Value::Null,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| io::Error::other(format!("{arg} needs a value")));
        match arg.as_str() {
            "--list" => {
                let names: String = CASES.iter().map(|(name, _)| format!("{name}\n")).collect();
                return write(names.as_bytes());
            }
            "--no-load" => agent.loads = false,
            "--history" => agent.history = true,
            "--complain" => agent.scripts.push((value()?, HostileScript::Complain)),
            "--answer" => {
                let (method, text) = (value()?, args.next().unwrap_or_default());
                let answer = serde_json::from_str(&text).map_err(io::Error::other)?;
                agent.scripts.push((method, HostileScript::Answer(answer)));
            }
            "--refuse" => {
                let (method, code) = (value()?, args.next().unwrap_or_default());
                agent.scripts.push((method, HostileScript::Refuse(code.parse().map_err(io::Error::other)?)));
            }
            "--hang" => agent.scripts.push((value()?, HostileScript::Hang)),
            "--die" => agent.scripts.push((value()?, HostileScript::Die)),
            "--log-in" => {
                let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
                let found = std::env::var("LOGIN_WORD").unwrap_or_default();
                std::fs::write(value()?, format!("{terminal} {found}\n"))?;
                return Ok(());
            }
            // Runs as a process of a tree started by this agent, and does not return.
            "--tree" => {
                let (registry, shape) = (value()?, args.next().unwrap_or_default());
                subagent_tests::trees::play(Path::new(&registry), &shape);
            }
            "--bytes" => agent.long_line = value()?.parse().map_err(io::Error::other)?,
            "--at-initialize" => agent.at_initialize = Some(value()?),
            "--at-session-new" => agent.at_session_new = Some(value()?),
            _ => return Err(io::Error::other(format!("unknown flag {arg}"))),
        }
    }
    while let Some(message) = agent.read()? {
        agent.handle(&message)?;
    }
    Ok(())
}

impl Hostile {
    /// Returns the next message; `None` at the end of stdin. Skips lines that are not JSON.
    fn read(&mut self) -> io::Result<Option<Value>> {
        loop {
            let mut line = Vec::new();
            if self.input.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            if let Ok(message) = serde_json::from_slice(&line) {
                return Ok(Some(message));
            }
        }
    }

    fn handle(&mut self, message: &Value) -> io::Result<()> {
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            return Ok(());
        };
        self.current = id.clone();
        match self.scripts.iter().find(|(scripted, _)| scripted == method) {
            Some((_, HostileScript::Answer(result))) => return answer(id, result),
            Some((_, HostileScript::Refuse(code))) => {
                return line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}));
            }
            Some((_, HostileScript::Hang)) => {
                io::stderr().write_all(b"hostile-agent: last words\n")?;
                return Ok(());
            }
            Some((_, HostileScript::Die)) => {
                io::stderr().write_all(b"hostile-agent: last words\n")?;
                std::process::exit(3);
            }
            Some((_, HostileScript::Complain)) => {
                write(b"\x1b[31mError:\x1b[0m the licence of this agent has expired\n")?;
                std::process::exit(3);
            }
            None => {}
        }
        match method {
            "initialize" => {
                self.turn_hostile(self.at_initialize.clone())?;
                let resume = if self.history { json!({"resume": {}}) } else { json!({}) };
                let offered = json!({"loadSession": self.loads, "sessionCapabilities": resume});
                answer(id, &json!({"protocolVersion": 1, "agentCapabilities": offered}))
            }
            "session/resume" if self.history => {
                quirks::history()?;
                answer(id, &json!({}))
            }
            "session/new" => {
                self.servers = message["params"]["mcpServers"].clone();
                self.turn_hostile(self.at_session_new.clone())?;
                answer(id, &json!({"sessionId": SESSION}))
            }
            "session/load" => answer(id, &Value::Null),
            "session/prompt" => self.prompt(id, &message["params"]),
            _ => line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})),
        }
    }

    /// Plays the case chosen for this moment. `early-updates` exists only here.
    fn turn_hostile(&mut self, case: Option<String>) -> io::Result<()> {
        match case.as_deref() {
            None => Ok(()),
            Some("early-updates") => say("too early"),
            Some(name) if CASES.iter().any(|(known, _)| *known == name) => self.play(name).map(drop),
            Some(name) => Err(io::Error::other(unknown(name))),
        }
    }

    fn prompt(&mut self, id: &Value, params: &Value) -> io::Result<()> {
        let blocks = params["prompt"].as_array();
        let texts = blocks.into_iter().flatten().filter_map(|block| block["text"].as_str());
        let name = texts.flat_map(str::lines).find_map(|line| line.strip_prefix("hostile:")).map(str::trim);
        let end = |reason: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": reason}});
        let texts = blocks.into_iter().flatten().filter_map(|block| block["text"].as_str());
        if let Some(quirk) = texts.flat_map(str::lines).find_map(|line| line.strip_prefix("quirk: ")) {
            return match quirks::play(self, quirk)? {
                Some(ResponseWaitEnd::Cancelled) => line(&end("cancelled")),
                _ => line(&end("end_turn")),
            };
        }
        if let Some(tree) = name.and_then(|name| name.strip_prefix("tree ")) {
            self.grow(tree)?;
            return line(&end("cancelled"));
        }
        if let Some(file) = name.and_then(|name| name.strip_prefix("write ")) {
            write(&std::fs::read(file)?)?;
            // Ends the line after any output.
            write(b"\n")?;
            return line(&end("end_turn"));
        }
        if let Some(targets) = name.and_then(|name| name.strip_prefix("escape ")) {
            say(&escapes::report(targets)?)?;
            return line(&end("end_turn"));
        }
        let ending = match name {
            None => Ending::Proper,
            Some(name) => match CASES.iter().find(|(known, _)| *known == name) {
                None => {
                    say(&unknown(name))?;
                    Ending::Proper
                }
                Some((_, ending)) => {
                    say("before")?;
                    if let Some(ResponseWaitEnd::Cancelled) = self.play(name)? {
                        return line(&end("cancelled"));
                    }
                    *ending
                }
            },
        };
        say("after")?;
        let end = end("end_turn");
        match ending {
            Ending::Proper => line(&end),
            Ending::Twice => line(&end).and_then(|()| line(&end)),
            Ending::CrLf => write(format!("{end}\r\n").as_bytes()),
            Ending::Bytewise => bytewise(&format!("{end}\n")),
            Ending::Odd => {
                let odd = format!(r#"{{"half":"\ud83d","deep":{}{}}}"#, "[".repeat(120), "]".repeat(120));
                raw(&format!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{{"stopReason":"end_turn","_meta":{odd}}}}}"#,
                    id
                ))
            }
            Ending::Never => Ok(()),
        }
    }

    /// Starts a process tree (`REGISTRY SHAPE`), and works until it is canceled or its input ends.
    fn grow(&mut self, tree: &str) -> io::Result<()> {
        let (registry, shape) = tree.split_once(' ').unwrap_or((tree, "stay"));
        // Not waited for: the guard has to reap it.
        #[allow(clippy::zombie_processes)]
        Command::new("/proc/self/exe").args(["--tree", registry, shape]).spawn()?;
        while let Some(message) = self.read()? {
            if message["method"] == "session/cancel" {
                break;
            }
        }
        Ok(())
    }

    /// Writes the hostile bytes of one case. Prints a response that it waited for.
    fn play(&mut self, name: &str) -> io::Result<Option<ResponseWaitEnd>> {
        match name {
            "truncated-json" => write(&head_of(&update_line("cut off"), 70))?,
            "giant-numbers" => {
                let digits = "9".repeat(DEPTH);
                for used in [digits.as_str(), "1e999", "-1e999", "18446744073709551616", "0.1e-9999", "-0"] {
                    raw_update(&format!(
                        "\"sessionUpdate\":\"usage_update\",\"used\":{used},\"size\":{used}"
                    ))?;
                }
                raw(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{digits},\"result\":{{}}}}"))?;
            }
            "deep-nesting" => {
                // JSON parsers often stop at 128 levels: also tests depths just
                // below, alone or nested.
                for depth in (110..=128).chain([DEPTH]) {
                    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
                    raw_update(&format!(
                        "\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"deep\",\"title\":\"deep\",\"rawInput\":{open}{close}"
                    ))?;
                    raw(&format!(
                        "{{\"jsonrpc\":\"2.0\",\"method\":\"_hostile/deep\",\"params\":{open}{close}}}"
                    ))?;
                }
                raw(&"[".repeat(DEPTH))?;
                raw(&"{\"a\":".repeat(DEPTH))?;
            }
            "duplicate-keys" => {
                raw_update(
                    "\"sessionUpdate\":\"plan\",\"entries\":[],\"sessionUpdate\":\"usage_update\",\"used\":1,\"size\":2",
                )?;
                raw(
                    "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"method\":\"_hostile/other\",\"params\":{},\"params\":[]}",
                )?;
            }
            "invalid-utf8" => write(&replaced("@", b"\xff\xc3\x28\xed\xa0\x80"))?,
            "nuls" => {
                write(b"\0\0\0\n")?;
                write(&replaced("@", b"a\0b"))?;
                write(&replaced("@", b"a\\u0000b"))?;
            }
            "lone-surrogates" => {
                write(&replaced("@", b"\\ud800"))?;
                write(&replaced("@", b"\\udc00\\ud800x"))?;
            }
            "id-collision" => {
                let id = self.current.clone();
                return self.ping(&id).map(Some);
            }
            "unasked-response" => {
                for id in [json!(987_654_321), json!("unknown"), json!(-1), Value::Null] {
                    answer(&id, &json!({"stopReason": "refusal"}))?;
                }
                raw("{\"jsonrpc\":\"2.0\",\"id\":987654322,\"error\":{\"code\":1,\"message\":\"unasked\"}}")?;
            }
            "request-id-null" | "request-id-float" => {
                // These need no response, so it waits for none.
                let id = if name == "request-id-null" { "null" } else { "1.5" };
                raw(&format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"_hostile/ping\",\"params\":{{}}}}"
                ))?;
            }
            "request-id-string" => return self.ping(&json!("a \"quoted\" id")).map(Some),
            "crlf" => write(format!("{}\r\n\r\n", update_line("crlf")).as_bytes())?,
            "long-line" => long_line(self.long_line)?,
            "bom" => write(format!("\u{feff}{}\n", update_line("bom")).as_bytes())?,
            "other-session" => {
                for session in [json!("another"), json!(""), json!(7), Value::Null] {
                    line(&update_for(&session, "not for you"))?;
                }
            }
            "permission-no-options" => return self.permission(tool(), &json!([])).map(Some),
            "permission-duplicate-options" => {
                let twin = |name: &str, kind: &str| json!({"optionId": "same", "name": name, "kind": kind});
                let options = json!([twin("Yes", "allow_once"), twin("No", "reject_once")]);
                return self.permission(tool(), &options).map(Some);
            }
            "permission-unknown-kinds" => {
                let options = json!([
                    {"optionId": "opt-1", "name": "Do it", "kind": "allow_for_now"},
                    {"optionId": "opt-2", "name": "Do not", "kind": 7},
                    {"optionId": "opt-3", "name": "Hm"},
                ]);
                return self.permission(tool(), &options).map(Some);
            }
            "permission-bare-tool-call" => {
                let options = json!([{"optionId": "allow", "name": "Allow", "kind": "allow_once"}]);
                return self.permission(json!({"kind": "execute"}), &options).map(Some);
            }
            "permission-of-a-told-call" => {
                let reported = json!({
                    "sessionUpdate": "tool_call", "toolCallId": "t-3", "title": "mcp.echo", "kind": "other",
                    "rawInput": {"text": "told before"},
                });
                let params = json!({"sessionId": SESSION, "update": reported});
                line(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))?;
                let options = json!([{"optionId": "allow", "name": "Allow", "kind": "allow_once"}]);
                return self.permission(json!({"toolCallId": "t-3", "kind": "execute"}), &options).map(Some);
            }
            "permission-with-details" => {
                let diff =
                    json!({"type": "diff", "path": "/ws/a.txt", "oldText": "old\n", "newText": "new\n"});
                let tool = json!({
                    "toolCallId": "t-2", "kind": "execute", "status": "pending", "content": [diff],
                    "rawInput": {"command": "rm -rf /ws\u{1b}[2J\nreboot"}, "locations": [{"path": "/ws/a.txt"}],
                });
                let options = json!([{"optionId": "allow", "name": "Allow", "kind": "allow_once"}]);
                return self.permission(tool, &options).map(Some);
            }
            "permission-strange-ids" => {
                let option =
                    |id: &str, name: &str| json!({"optionId": id, "name": name, "kind": "allow_once"});
                let options = json!([
                    option("-x", "Hyphen"),
                    option("it's\u{1b}[2J\u{202e}\n", "Escape"),
                    option("a\u{0}b", "Nul"),
                ]);
                return self.permission(tool(), &options).map(Some);
            }
            // Invalid requests for files and terminals; each gets an error.
            "client-nonsense" => {
                let nonsense = [
                    ("fs/read_text_file", json!({"path": ["/etc"]})),
                    ("fs/read_text_file", json!({"path": format!("/{}", "../".repeat(1000))})),
                    ("fs/read_text_file", json!({"path": "/proc/self/environ", "line": -1})),
                    ("fs/write_text_file", json!({"path": "/proc/self/mem", "content": "x"})),
                    ("fs/write_text_file", json!({"path": "a\u{0}b", "content": null})),
                    ("terminal/create", json!({"command": "a\u{0}", "args": ["b"]})),
                    ("terminal/create", json!({"command": "a", "env": [{"name": "A=B", "value": "c"}]})),
                    ("terminal/create", json!({"command": "true", "cwd": "/", "outputByteLimit": -1})),
                    ("terminal/create", json!({"command": "/", "args": [], "env": [], "cwd": null})),
                    ("terminal/wait_for_exit", json!({"terminalId": "t".repeat(DEPTH)})),
                    ("terminal/release", json!([])),
                ];
                for (id, (method, params)) in nonsense.iter().enumerate() {
                    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
                }
                let mut errors = 0;
                while errors < nonsense.len() {
                    let Some(answer) = self.read()? else { break };
                    if answer["error"]["code"].as_i64().is_some_and(|code| code < 0) {
                        errors += 1;
                    }
                }
                say(&format!("{errors} errors"))?;
            }
            // Thousands of requests, all withdrawn, without reading a response; then it
            // can still make requests.
            "client-flood" => {
                for id in 0..2_000 {
                    let (method, params) = match id % 4 {
                        0 => ("terminal/create", json!({"command": "exec sleep 1000"})),
                        1 => ("terminal/wait_for_exit", json!({"terminalId": "term_1_1"})),
                        2 => ("fs/read_text_file", json!({"path": "/etc/passwd"})),
                        _ => ("fs/write_text_file", json!({"path": "/x", "content": "x".repeat(100)})),
                    };
                    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
                    line(
                        &json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}}),
                    )?;
                }
                return self.ping(&json!("after the flood")).map(Some);
            }
            "elicitation-deep" => {
                let (open, close) = ("{\"properties\":".repeat(DEPTH), "}".repeat(DEPTH));
                return self
                    .elicit(&format!("\"mode\":\"form\",\"requestedSchema\":{open}{{}}{close}"))
                    .map(Some);
            }
            "elicitation-huge" => {
                let choices = vec!["x".repeat(100); 100_000];
                let schema =
                    json!({"type": "object", "properties": {"a": {"type": "string", "enum": choices}}});
                return self.elicit(&format!("\"mode\":\"form\",\"requestedSchema\":{schema}")).map(Some);
            }
            "elicitation-many" => {
                for id in 0..10_000 {
                    raw(&elicitation(
                        &json!(format!("many-{id}")),
                        "\"mode\":\"form\",\"requestedSchema\":{}",
                    ))?;
                }
            }
            "elicitation-link" => {
                let link = "\"mode\":\"url\",\"elicitationId\":\"e\",\"url\":\"javascript:alert(1)\"";
                return self.elicit(link).map(Some);
            }
            "close-stdout" => {
                nix::unistd::close(1)?;
                return self.until_end_of_input().map(|()| None);
            }
            "never-read" => wait_for_hangup()?,
            "byte-by-byte" => bytewise(&format!("{}\n", update_line("byte by byte")))?,
            // Their hostile part is the ending.
            "response-twice" | "odd-end" => {}
            _ => return Err(io::Error::other(unknown(name))),
        }
        Ok(None)
    }

    /// A request that every client refuses with -32601. Waits for the response and prints it.
    fn ping(&mut self, id: &Value) -> io::Result<ResponseWaitEnd> {
        line(&json!({"jsonrpc": "2.0", "id": id, "method": "_hostile/ping", "params": {}}))?;
        self.wait_for(id)
    }

    fn permission(&mut self, tool: Value, options: &Value) -> io::Result<ResponseWaitEnd> {
        let id = json!(0);
        let params = json!({"sessionId": SESSION, "toolCall": tool, "options": options});
        line(&json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params}))?;
        self.wait_for(&id)
    }

    fn elicit(&mut self, members: &str) -> io::Result<ResponseWaitEnd> {
        let id = json!("elicitation");
        raw(&elicitation(&id, members))?;
        self.wait_for(&id)
    }

    fn wait_for(&mut self, id: &Value) -> io::Result<ResponseWaitEnd> {
        while let Some(mut message) = self.read()? {
            if message["method"] == "session/cancel" {
                return Ok(ResponseWaitEnd::Cancelled);
            }
            if message.get("method").is_none() && message["id"] == *id {
                let answer = match message.get_mut("result") {
                    Some(result) => result.take(),
                    None => message["error"]["code"].take(),
                };
                say(&format!("answered: {answer}"))?;
                return Ok(ResponseWaitEnd::Given);
            }
        }
        Err(io::Error::other("stdin ended before the answer came"))
    }

    fn until_end_of_input(&mut self) -> io::Result<()> {
        while self.read()?.is_some() {}
        std::process::exit(0)
    }
}

fn unknown(name: &str) -> String {
    format!("hostile-agent: unknown case {name}; --list prints them")
}
