//! Workers that can delegate to other agents, from outside: which get the task server, and where
//! its token is visible.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

/// A world with a launcher whose agent reports the servers of its session.
fn reporting(servers: Value) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    let state = sandbox.file_name("sdk-sessions");
    let agent = sandbox.test_agent("sdk-agent", &["--state", &state]).key("mcpServers", servers);
    sandbox.launcher("sdk", agent);
    sandbox.init();
    sandbox
}

fn define(sandbox: &TestSandbox, name: &str, permission: &str) {
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    let text = format!("---\ndescription: d\npermission: {permission}\n---\nDo it.\n");
    fs::write(folder.join(format!("{name}.md")), text).unwrap();
}

/// Starts a worker and returns whether its agent got the task server.
fn is_given(sandbox: &TestSandbox, flags: &[&str]) -> bool {
    let args = [&["worker", "start", "--launcher", "sdk"], flags].concat();
    let started = sandbox.run(&args).data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap();
    let given = has_server(sandbox, worker);
    assert_eq!(started["delegates"] == true, given, "{started}");
    given
}

fn has_server(sandbox: &TestSandbox, worker: &str) -> bool {
    let place = sandbox.send(worker, "place")["assistantText"].as_str().unwrap().to_owned();
    let state = sandbox.state_dir().to_str().unwrap().len();
    let wanted = format!(
        "subagent {} [\"mcp\"] SUBAGENT_TASK_TOKEN:64,SUBAGENT_STATE_DIR:{state}",
        sandbox.executable("subagent")
    );
    assert_eq!(place.contains("SUBAGENT_TASK_TOKEN"), place.contains(&wanted), "{place}");
    place.contains(&wanted)
}

#[test]
fn only_who_may_give_tasks_gets_the_task_server() {
    let mut sandbox = reporting(json!({"docs": {"command": "sh"}}));
    define(&sandbox, "lead", "{task: {explore: allow}}");
    define(&sandbox, "alone", "{read: allow}");
    assert!(!is_given(&sandbox, &[]));
    assert!(is_given(&sandbox, &["--delegate"]));
    assert!(is_given(&sandbox, &["--agent", "lead"]));
    assert!(!is_given(&sandbox, &["--agent", "alone"]));
    let input = sandbox.subagent(&["worker", "start", "--input", "-"]);
    let started = input.stdin(r#"{"launcher": "sdk", "delegate": true}"#).run().data_of("worker.started");
    assert!(has_server(&sandbox, started["workerId"].as_str().unwrap()));
    let state = sandbox.file_name("sdk-sessions");
    let agent = sandbox.test_agent("sdk-agent", &["--state", &state]);
    sandbox.launcher("sdk", agent);
    let config = sandbox.config_file();
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\ndelegation: {{maxDepth: 2}}\n")).unwrap();
    assert!(is_given(&sandbox, &[]));
    let refused = sandbox.subagent(&["worker", "start", "--input", "-"]);
    let refused = refused.stdin(r#"{"launcher": "sdk", "delegate": false}"#).run().data_of("worker.started");
    assert!(
        !has_server(&sandbox, refused["workerId"].as_str().unwrap()),
        "the agent must be informed that it may not"
    );
    sandbox.finish();
}

#[test]
fn a_server_of_that_name_keeps_a_worker_from_delegating() {
    let sandbox = reporting(json!({"subagent": {"command": "sh"}}));
    let error =
        sandbox.run(&["worker", "start", "--launcher", "sdk", "--delegate"]).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["mcpServer"], "subagent");
    assert!(error["message"].as_str().unwrap().contains("gives tasks"), "{error}");
    assert!(!is_given(&sandbox, &[]), "without delegation it must be an ordinary MCP server");
    let error = sandbox.run(&["worker", "start", "--agents", "{}"]).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["flag"], "--agents");
    sandbox.finish();
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files_below(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn the_token_is_where_the_environment_is_and_nowhere_else() {
    let sandbox = reporting(json!({}));
    let started = sandbox.run(&["worker", "start", "--launcher", "sdk", "--delegate"]);
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let token = sandbox.task_token(&worker);
    sandbox.recorder().keep_secret(&token);
    assert!(has_server(&sandbox, &worker));
    for args in
        [&["worker", "inspect", &worker][..], &["worker", "show", &worker], &["worker", "logs", &worker]]
    {
        let shown = sandbox.run(args);
        assert!(!shown.stdout.contains(&token), "{shown}");
    }
    let mut files = Vec::new();
    files_below(sandbox.state_dir(), &mut files);
    assert!(files.iter().any(|path| path.ends_with("state.db")) && files.len() > 3, "{files:?}");
    for file in files {
        let bytes = fs::read(&file).unwrap_or_default();
        let holds = memchr::memmem::find(&bytes, token.as_bytes()).is_some();
        assert!(!holds, "{} holds the token", file.display());
    }
    for process in sandbox.processes() {
        let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(&token), "{process:?}");
    }
    sandbox.finish();
}

#[test]
fn the_server_is_there_again_after_a_restart_and_with_another_token_after_a_reboot() {
    let sandbox = reporting(json!({"docs": {"command": "sh"}}));
    let started = sandbox.run(&["worker", "start", "--launcher", "sdk", "--delegate"]);
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let before = sandbox.task_token(&worker);
    sandbox.kill(&sandbox.runtime(&worker));
    sandbox.kill_daemon();
    assert!(has_server(&sandbox, &worker), "the session must be resumed with it");
    sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert!(has_server(&sandbox, &worker));
    assert_eq!(sandbox.task_token(&worker), before);
    sandbox.kill(&sandbox.runtime(&worker));
    let file = sandbox.file("run/subagent");
    for entry in fs::read_dir(file).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "env") {
            fs::remove_file(path).unwrap();
        }
    }
    assert!(has_server(&sandbox, &worker));
    assert_ne!(sandbox.task_token(&worker), before);
    sandbox.finish();
}

/// Returns the daemon's response to a process of a worker that has the worker's token.
fn asks(sandbox: &TestSandbox, worker: &str, line: &str, body: &Value) -> Value {
    let (body, token) =
        (if body.is_null() { String::new() } else { body.to_string() }, sandbox.task_token(worker));
    let head = format!(
        "{line} HTTP/1.1\\nHost: localhost\\nsubagent-protocol: 1\\nContent-Type: application/json\\n\
         x-subagent-task-token: {token}\\nContent-Length: {}\\nConnection: close\\n\\n{body}",
        body.len()
    );
    let (file, socket) = (sandbox.file("request"), sandbox.daemon_info().unwrap().socket);
    fs::write(&file, head).unwrap();
    let stranger = sandbox.executable("stranger");
    let command = format!("'{stranger}' ask '{}' \"$(cat '{}')\"", socket.display(), file.display());
    let said =
        sandbox.send(worker, &format!("!shell {command}"))["assistantText"].as_str().unwrap().to_owned();
    let (_, answer) = said.split_once('{').unwrap_or_else(|| panic!("{said}"));
    let mut answers = serde_json::Deserializer::from_str(&said[said.len() - answer.len() - 1..]).into_iter();
    answers.next().unwrap().unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn m4_a_worker_gives_tasks_to_those_that_its_rules_let_it_call() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    define(&sandbox, "reviewer", "{read: allow}");
    let file = sandbox.workspace().join(".agents/agents/boss.md");
    fs::write(file, "---\ndescription: d\nmode: primary\n---\n").unwrap();
    let started = sandbox.run(&["worker", "start", "--delegate", "--deny", "task(plan)"]);
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let callable = asks(&sandbox, &worker, "GET /v1/tasks/agents", &Value::Null);
    let names: Vec<&str> = callable["data"]["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["explore", "general", "reviewer", "summary", "title", "worker"]);
    let spawn = |agent: &str| {
        asks(&sandbox, &worker, "POST /v1/tasks", &json!({"agent": agent, "prompt": "!say done"}))
    };
    let refused = spawn("plan");
    assert_eq!(refused["error"]["code"], "TASK_NOT_PERMITTED", "{refused}");
    assert_eq!(refused["error"]["details"], json!({"agent": "plan", "rule": "task(plan): deny"}));
    let refused = spawn("boss");
    assert_eq!(refused["error"]["code"], "AGENT_NOT_A_SUBAGENT", "{refused}");
    let spawned = spawn("reviewer");
    assert_eq!(
        (&spawned["type"], &spawned["data"]["agent"]),
        (&json!("task.spawned"), &json!("reviewer")),
        "{spawned}"
    );
    let task = spawned["data"]["taskId"].as_str().unwrap();
    let inspected = sandbox.run(&["worker", "inspect", task]).data_of("worker.inspected");
    let above = &inspected["policy"]["ancestors"][0];
    assert_eq!((&above["workerId"], &above["name"]), (&json!(worker), &json!("worker")), "{inspected}");
    assert_eq!(inspected["worker"]["agentDefinition"], "reviewer");
    sandbox.finish();
}
