//! `subagent mcp` and `subagent task` with the executables: a manager delegates to scripted agents.

mod forms;
mod manager;
mod merge;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

/// Longer than any response may take.
const FAR: Duration = Duration::from_secs(60);

/// The tools for delegation.
const OF_TASKS: [&str; 4] = ["task", "spawn_subagent", "get_subagents", "message_subagent"];

/// A workspace with definitions of agents.
fn sandbox() -> TestSandbox {
    let sandbox = TestSandbox::new();
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    let define = |name: &str, keys: &str| {
        let text = format!("---\ndescription: Finds things\nlauncher: demo\n{keys}---\n");
        fs::write(folder.join(format!("{name}.md")), text).unwrap();
    };
    define("scout", "");
    define("counter", "resultMaxTokens: 60\nresultSchema: {type: array}\n");
    define("teller", "resultMaxTokens: 60\n");
    define("cleaner", "permission: {execute: {'*': allow, 'rm *': deny}}\n");
    sandbox
}

/// A client of `subagent mcp`.
pub(crate) struct McpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    heard: Vec<Value>,
    last: u64,
}

impl McpClient {
    /// Starts a client that supports forms.
    fn with_forms(sandbox: &TestSandbox) -> Self {
        Self::of(sandbox.command("subagent").args(["mcp"]).process(), json!({"elicitation": {"form": {}}}))
    }

    pub(crate) fn new(sandbox: &TestSandbox) -> Self {
        Self::with(sandbox, &["mcp"])
    }

    fn with(sandbox: &TestSandbox, args: &[&str]) -> Self {
        Self::of(sandbox.command("subagent").args(args).process(), json!({}))
    }

    /// Starts a client with the token of a worker's task server.
    fn with_token(sandbox: &TestSandbox, token: &str) -> Self {
        let mut command = sandbox.command("subagent").args(["mcp"]).process();
        command.env("SUBAGENT_TASK_TOKEN", token);
        Self::of(command, json!({}))
    }

    fn of(mut command: Command, capabilities: Value) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (said, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        let mut client = Self { child, stdin, lines, heard: Vec::new(), last: 0 };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"},
        });
        assert_eq!(client.ask("initialize", hello)["result"]["serverInfo"]["name"], "subagent");
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn say(&mut self, message: Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.say(json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}));
        self.last
    }

    fn answer(&mut self, id: u64) -> Value {
        self.hear(|heard| heard["id"] == id && heard.get("method").is_none())
    }

    /// Returns the server's next message with this method.
    fn next(&mut self, method: &str) -> Value {
        self.hear(|heard| heard["method"] == method)
    }

    /// Returns the first wanted message and keeps the others.
    fn hear(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.heard.iter().position(&wanted) {
            return self.heard.remove(at);
        }
        loop {
            let next = self.lines.recv_timeout(FAR).unwrap();
            match wanted(&next) {
                true => return next,
                false => self.heard.push(next),
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    fn call(&mut self, tool: &str, arguments: Value) -> u64 {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
        self.request("tools/call", params)
    }

    /// Returns the text of a response, and whether it is an error.
    fn text(&mut self, id: u64) -> (String, bool) {
        let answer = self.answer(id);
        let text = answer["result"]["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("a text: {answer}"));
        (text.to_owned(), answer["result"]["isError"] == true)
    }

    pub(crate) fn called(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let id = self.call(tool, arguments);
        self.text(id)
    }

    /// Closes the server's stdin; the server ends with success.
    fn end(mut self) {
        self.stdin = None;
        let status = wait_until("the server to end", FAR, || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scout(prompt: &str) -> Value {
    json!({"agent": "scout", "description": "Look around", "prompt": prompt})
}

/// Returns the text between the tags.
#[track_caller]
fn inside(text: &str) -> &str {
    let (open, rest) = text.split_once('>').unwrap();
    assert!(open.starts_with("<task_"), "{text}");
    rest.rsplit_once("</task_").unwrap().0
}

#[test]
fn a_manager_gives_tasks_through_mcp_in_the_foreground_and_in_the_background() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let listed = client.ask("tools/list", json!({}));
    let agents = &listed["result"]["tools"][0]["inputSchema"]["properties"]["agent"]["enum"];
    assert!(agents.as_array().unwrap().contains(&json!("scout")), "{agents}");
    let (text, is_error) = client.called("task", scout("!tool read config\nfound it"));
    assert!(!is_error && inside(&text) == "found it", "{text}");
    assert!(text.starts_with("<task_result agent=\"scout\" name=\""), "{text}");
    assert!(client.heard.iter().any(|heard| heard["method"] == "notifications/progress"));
    // Two at once: the first one ends after the second.
    let gate = sandbox.gate("both");
    let first = client.call("task", scout(&format!("!tool read a\n{}\nfirst", gate.directive())));
    let (second, _) = client.called("task", scout("!tool read b\nsecond"));
    assert_eq!(inside(&second), "second");
    gate.open();
    assert_eq!(inside(&client.text(first).0), "first");
    let gate = sandbox.gate("background");
    let prompt = format!("!tool read c\n{}\nlater", gate.directive());
    let arguments =
        json!({"name": "Long", "task": prompt, "mode": "background", "config": {"agent_id": "scout"}});
    let (begun, _) = client.called("spawn_subagent", arguments);
    let begun: Value = serde_json::from_str(&begun).unwrap();
    assert_eq!(begun["name"], "Long");
    gate.open();
    let look = json!({"name_or_id": begun["subagent_id"], "wait_seconds": 30});
    let found: Value = serde_json::from_str(&client.called("get_subagents", look).0).unwrap();
    assert_eq!((&found["status"], &found["result"]), (&json!("completed"), &json!("later")));
    let (text, is_error) =
        client.called("task", json!({"agent": "scout", "prompt": "!say without", "command": "/look"}));
    assert!(!is_error && inside(&text) == "without", "{text}");
    let listed = sandbox.run(&["task", "list"]).data_of("task.listed");
    let last = listed["items"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["description"], &last["metadata"]),
        (&json!("!say without"), &json!({"command": "/look"}))
    );
    let (error, is_error) = client.called("task", json!({"agent": "scout", "prompt": 7}));
    assert!(is_error && inside(&error).starts_with("INVALID_ARGUMENT: task: invalid type"), "{error}");
    let (error, is_error) =
        client.called("task", json!({"agent": "absent", "description": "d", "prompt": "p"}));
    assert!(is_error && inside(&error).starts_with("AGENT_NOT_FOUND: "), "{error}");
    client.end();
    sandbox.finish();
}

#[test]
fn a_client_that_gives_tools_no_prefix_finds_them_with_one() {
    let sandbox = sandbox();
    let mut client = McpClient::with(&sandbox, &["mcp", "--prefix"]);
    let listed = client.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[..4], OF_TASKS.map(|name| format!("subagent_{name}")));
    assert!(names.iter().all(|name| name.starts_with("subagent_")), "{names:?}");
    let (text, failed) = client.called("subagent_task", scout("found"));
    assert!(!failed && text.contains("found"), "{text}");
    let unknown = client.ask("tools/call", json!({"name": "task", "arguments": scout("found")}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("there is no tool"), "{unknown}");
    client.end();
    sandbox.finish();
}

#[test]
fn the_end_of_the_client_and_a_canceled_call_cancel_waited_tasks() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let status =
        |name: &str| sandbox.run(&["task", "wait", name, "--timeout-seconds", "30"]).data()["status"].clone();
    let begun = |client: &mut McpClient, name: &str| {
        let gate = sandbox.gate(name);
        let mut arguments = scout(&gate.directive());
        arguments["name"] = name.into();
        let id = client.call("task", arguments);
        wait_until("the task to run", FAR, || {
            let shown = sandbox.run(&["task", "list", "--status", "running"]).data();
            shown["items"].as_array().unwrap().iter().any(|task| task["name"] == name).then_some(())
        });
        id
    };
    let id = begun(&mut client, "one");
    client.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    assert_eq!(status("one"), "cancelled");
    begun(&mut client, "two");
    client.end();
    assert_eq!(status("two"), "cancelled");
    sandbox.finish();
}

#[test]
fn a_daemon_killed_during_a_wait_is_started_again_and_the_task_is_given_once() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let gate = sandbox.gate("kill");
    let id = client.call("task", scout(&format!("!tool read a\n{}\nstill here", gate.directive())));
    wait_until("the task to run", FAR, || {
        let shown = sandbox.run(&["task", "list", "--status", "running"]).data();
        (shown["count"] == 1).then_some(())
    });
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(inside(&client.text(id).0), "still here");
    assert_eq!(sandbox.run(&["task", "list"]).data()["count"], 1);
    client.end();
    sandbox.finish();
}

#[test]
fn what_runs_in_the_background_goes_on_when_the_server_ends_with_all_that_descends_from_it() {
    let sandbox = sandbox();
    assert!(sandbox.find_daemon().is_none(), "the server starts it");
    let mut client = McpClient::new(&sandbox);
    let gate = sandbox.gate("background");
    let mut arguments = scout(&format!("!tool read a\n{}\nstill here", gate.directive()));
    arguments["background"] = true.into();
    let (begun, _) = client.called("task", arguments);
    let task = serde_json::from_str::<Value>(&begun).unwrap()["id"].take();
    let (task, daemon) = (task.as_str().unwrap(), sandbox.daemon());
    let runtime = sandbox.runtime(task);
    let server = i32::try_from(client.child.id()).unwrap();
    let descends = |process: &Process| {
        let parent = |process: &Process| Process::find(process.parent);
        std::iter::successors(Process::find(process.pid), parent).any(|above| above.pid == server)
    };
    wait_until("the daemon to have left its starter", FAR, || (!descends(&daemon)).then_some(()));
    assert!(daemon.lives() && runtime.lives() && !descends(&runtime));
    gate.open();
    assert_eq!(sandbox.run(&["task", "wait", task]).data_of("task.waited")["result"], "still here");
    client.end();
    sandbox.finish();
}

#[test]
fn an_agent_gives_tasks_with_the_token_of_its_server_and_not_without() {
    let sandbox = sandbox();
    sandbox.init();
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--delegate"]);
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    // Its server has the token. A scripted agent starts none, so the test reads it
    // from the daemon's file.
    let token = &sandbox.task_token(&worker);
    let begin = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    });
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    fs::write(sandbox.file("lines"), format!("{begin}\n{list}\n")).unwrap();
    let script = format!(
        "export SUBAGENT_STATE_DIR={} SUBAGENT_TASK_TOKEN=$1\n{} mcp < {}\n{} task run --agent scout --name Kid --text hello\n",
        sandbox.state_dir().display(),
        sandbox.executable("subagent"),
        sandbox.file("lines").display(),
        sandbox.executable("subagent"),
    );
    fs::write(sandbox.file("script"), script).unwrap();
    let shell = |token: &str| format!("!shell sh {} {token} 2>&1", sandbox.file("script").display());
    let said = sandbox.send(&worker, &shell(token))["assistantText"].as_str().unwrap().to_owned();
    assert!(
        said.contains(
            r#""enum":["cleaner","counter","explore","general","plan","scout","summary","teller","title","worker"]"#
        ),
        "{said}"
    );
    assert!(said.contains("hello"), "{said}");
    let tasks = sandbox.run(&["task", "list", "--parent", &worker]).data();
    assert_eq!((&tasks["count"], &tasks["items"][0]["name"]), (&json!(1), &json!("Kid")));
    let tree = sandbox.run(&["tree", &worker]).data_of("tree.shown");
    assert_eq!(tree["items"][0]["tasks"][0]["name"], "Kid");
    let said = sandbox.send(&worker, &shell("wrong"))["assistantText"].as_str().unwrap().to_owned();
    assert!(said.contains("FORBIDDEN_FROM_WORKER") && !said.contains(r#""name":"task""#), "{said}");
    // A client may have this server in its own configuration, also below a worker.
    let said = sandbox.send(&worker, &shell(""))["assistantText"].as_str().unwrap().to_owned();
    assert!(said.contains(r#""name":"get_subagents""#) && !said.contains("start_worker"), "{said}");
    sandbox.finish();
}

#[test]
fn a_caller_reads_why_a_task_that_broke_a_rule_ended() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let prompt = "so far\n!tool execute rm -rf x\n!sleep 600000";
    let task = json!({"agent": "cleaner", "description": "Clean up", "prompt": prompt});
    let (text, is_error) = client.called("task", task);
    assert!(is_error && text.starts_with("<task_error"), "{text}");
    assert!(inside(&text).starts_with("POLICY_VIOLATION: "), "{text}");
    assert!(text.contains("execute(rm *)"), "{text}");
    client.end();
    sandbox.finish();
}

#[test]
fn m11_a_result_is_cut_for_its_caller_and_never_under_a_schema() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let long = format!("!tool read a\n[{}]", vec!["7"; 200].join(", "));
    let ask = |agent: &str| json!({"agent": agent, "description": "Count", "prompt": long, "name": agent});
    let (text, is_error) = client.called("task", ask("teller"));
    assert!(!is_error && text.contains(" tokens total, showing first "), "{text}");
    assert!(text.contains("Rest: subagent task result teller --full]</task_result>"), "{text}");
    let (text, is_error) = client.called("task", ask("counter"));
    assert!(is_error && inside(&text).starts_with("RESULT_TOO_LARGE: "), "{text}");
    client.end();
    let cut = sandbox.command("subagent").args(["task", "result", "teller"]).run();
    assert!(cut.text().contains("[Output truncated: "), "{cut}");
    let whole = sandbox.command("subagent").args(["task", "result", "teller", "--full"]).run();
    assert!(whole.text().trim_end().ends_with(", 7]") && !whole.text().contains("truncated"), "{whole}");
    sandbox.run(&["task", "result", "counter"]).error("RESULT_TOO_LARGE");
    sandbox.run(&["task", "result", "counter", "--full"]).data_of("task.result");
    sandbox.finish();
}

#[test]
fn tasks_are_given_and_looked_at_on_the_command_line() {
    let sandbox = sandbox();
    sandbox.run(&["task", "show", "nothing"]).error("TASK_NOT_FOUND");
    assert_eq!(sandbox.run(&["task", "list"]).data(), json!({"items": [], "count": 0}));
    let ended =
        sandbox.run(&["task", "run", "--agent", "scout", "--name", "One", "--text", "!tool read a\nhello"]);
    let shape = json!({
        "taskId": "w", "name": "=One", "path": ["str"], "agent": "=scout", "description": "str", "prompt": "str",
        "mode": "=foreground", "status": "=completed", "parent": null, "parentTurnId": null, "root": null, "depth": 1,
        "launcher": "=demo", "model": "str?", "steps": "int", "toolCalls": "int", "cost": "any", "tokens": "any",
        "runs": 1, "error": null, "metadata": {}, "createdAt": "ts", "updatedAt": "ts", "startedAt": "ts", "completedAt": "ts",
        "result": "=hello", "resultMaxTokens": 8192,
    });
    assert_shape(&ended.data_of("task.waited"), &shape);
    let text = sandbox.command("subagent").args(["task", "result", "one"]).run();
    assert_eq!(text.text().trim_end(), "hello", "names must ignore case");
    let gate = sandbox.gate("two");
    let args =
        ["task", "run", "--agent", "scout", "--name", "Two", "--background", "--text", &gate.directive()];
    let begun = sandbox.run(&args).data_of("task.spawned");
    assert_eq!((&begun["name"], &begun["mode"]), (&json!("Two"), &json!("background")));
    sandbox.run(&args).error("TASK_NAME_TAKEN");
    let id = begun["taskId"].as_str().unwrap();
    let reported =
        sandbox.run(&["task", "message", id, "--text", "!tool read b\nand more"]).data_of("task.messaged");
    assert!(["appended", "queued"].contains(&reported["message"].as_str().unwrap()), "{reported}");
    let tree = sandbox.command("subagent").args(["tree"]).run();
    assert!(tree.text().lines().any(|line| line.starts_with("Two  ")), "{tree}");
    gate.open();
    assert_eq!(sandbox.run(&["task", "wait", "Two"]).data_of("task.waited")["result"], "and more");
    let shown = sandbox.run(&["tree", "two"]).data_of("tree.shown");
    assert_eq!((&shown["count"], &shown["items"][0]["name"]), (&json!(1), &json!("Two")));
    let gate = sandbox.gate("three");
    let args =
        ["task", "run", "--agent", "scout", "--name", "Three", "--background", "--text", &gate.directive()];
    sandbox.run(&args).data_of("task.spawned");
    sandbox.run(&["task", "wait", "Three", "--timeout-seconds", "0.05"]).error("WAIT_TIMEOUT");
    sandbox.run(&["task", "cancel", "Three", "--reason", "enough"]).data_of("task.cancelled");
    assert_eq!(sandbox.run(&["task", "wait", "Three"]).data()["status"], "cancelled");
    sandbox.finish();
}
