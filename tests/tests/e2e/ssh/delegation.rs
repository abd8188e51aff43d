//! Agents on another machine that give tasks: their task server reaches the daemon over the stream.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_tests::harness::{SshHost, TestSandbox, wait_until};

use crate::mcp::McpClient;

/// Time limit of operations there.
const DEADLINE: Duration = Duration::from_secs(60);

/// A worker there that may give tasks.
struct DelegatingHost {
    sandbox: TestSandbox,
    host: SshHost,
    worker: String,
}

impl DelegatingHost {
    /// Starts it; `None` without an sshd.
    fn start() -> Option<Self> {
        let mut sandbox = TestSandbox::new();
        let demo = sandbox.demo_agent(&[]);
        sandbox.launcher("demo", demo);
        sandbox.define("scout", "");
        sandbox.define("traveller", "placement: there\npermission: {task: allow}\n");
        let host = SshHost::start(&sandbox)?;
        sandbox.init();
        let start = ["worker", "start", "--launcher", "demo", "--on", "there", "--delegate"];
        let started = sandbox.run(&start).data_of("worker.started");
        assert_eq!(started["delegates"], true, "{started}");
        let worker = started["workerId"].as_str().unwrap().to_owned();
        Some(Self { sandbox, host, worker })
    }

    /// The folder there in which the task server finds the daemon.
    fn tasks(&self, worker: &str) -> PathBuf {
        self.host.folder_of(worker).join("tasks")
    }

    /// The socket there, if there is one now.
    fn announced(&self) -> Option<PathBuf> {
        let announced = fs::read(self.tasks(&self.worker).join("daemon.json")).ok()?;
        let announced: Value = serde_json::from_slice(&announced).ok()?;
        Some(announced["socket"].as_str()?.into())
    }

    fn socket(&self) -> PathBuf {
        wait_until("the socket there", DEADLINE, || self.announced())
    }

    /// Returns the directive by which the agent there gives this task with this token, and waits for it.
    fn gives_with(&self, token: &str, agent: &str, name: &str, text: &str) -> String {
        let file = self.sandbox.file(&format!("{name}.sh"));
        let script = format!(
            "export SUBAGENT_STATE_DIR={} SUBAGENT_TASK_TOKEN={token}\n\
             exec {} task run --agent {agent} --name {name} --text-stdin <<'END' 2>&1\n{text}\nEND\n",
            self.tasks(&self.worker).display(),
            self.sandbox.executable("subagent"),
        );
        fs::write(&file, script).unwrap();
        format!("!shell sh {}", file.display())
    }

    fn gives(&self, agent: &str, name: &str, text: &str) -> String {
        self.gives_with(&self.sandbox.task_token(&self.worker), agent, name, text)
    }

    fn tasks_of(&self, worker: &str) -> Vec<Value> {
        let listed = self.sandbox.run(&["task", "list", "--parent", worker]).data();
        listed["items"].as_array().unwrap().clone()
    }

    fn finish(self) {
        let _ = self.sandbox.run(&["worker", "stop", &self.worker]).data_of("worker.stopped");
        self.sandbox.finish();
    }
}

fn said(waited: &Value) -> String {
    waited["assistantText"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_agent_there_has_a_task_server_with_the_socket_there() {
    let mut sandbox = TestSandbox::new();
    let state = sandbox.file_name("sdk-sessions");
    let agent = sandbox.test_agent("sdk-agent", &["--state", &state]);
    sandbox.launcher("demo", agent);
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let start = ["worker", "start", "--launcher", "demo", "--on", "there", "--delegate"];
    let worker = sandbox.run(&start).data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let expected = format!(
        "subagent {} [\"mcp\"] SUBAGENT_TASK_TOKEN:64,SUBAGENT_STATE_DIR:{}",
        sandbox.executable("subagent"),
        host.folder_of(&worker).join("tasks").to_str().unwrap().len(),
    );
    let place = said(&sandbox.send(&worker, "place"));
    assert!(place.contains(&expected), "{place}, not {expected}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    // Without the program beside the runtime, the start says so.
    let lonely = host.home().join("lonely");
    fs::create_dir_all(&lonely).unwrap();
    let program = lonely.join("subagent-runtime");
    fs::copy(sandbox.executable("subagent-runtime"), &program).unwrap();
    host.place(&sandbox, json!({"program": program}));
    let error = sandbox.run(&start).error("PLACEMENT_NOT_PREPARED");
    assert!(error["message"].as_str().unwrap().contains("lonely/subagent"), "{error}");
    let failed = error["details"]["workerId"].as_str().unwrap().to_owned();
    let _ = sandbox.run(&["worker", "rm", "--force", &failed]).data_of("worker.removed");
    sandbox.finish();
}

#[test]
fn an_agent_there_gives_a_task_that_runs_here_and_one_that_runs_there() {
    let Some(world) = DelegatingHost::start() else { return };
    let sandbox = &world.sandbox;
    let result = said(&sandbox.send(&world.worker, &world.gives("scout", "Kid", "!shell pwd; echo $HOME")));
    let workspace = sandbox.workspace().canonicalize().unwrap();
    for expected in [workspace.to_str().unwrap(), sandbox.file("home").to_str().unwrap()] {
        assert!(result.contains(expected), "{expected}: {result}");
    }
    let far = said(&sandbox.send(&world.worker, &world.gives("traveller", "Far", "!shell pwd; echo $HOME")));
    for expected in [world.host.work(), world.host.home().to_owned()] {
        assert!(far.contains(expected.to_str().unwrap()), "{expected:?}: {far}");
    }
    let tasks = world.tasks_of(&world.worker);
    assert_eq!(tasks.len(), 2, "{tasks:?}");
    world.finish();
}

#[test]
fn an_mcp_client_there_lists_tools_and_gets_the_result_of_its_task_through_cuts() {
    let mut sandbox = TestSandbox::new();
    let caller = sandbox.test_agent("hostile-agent", &[]).key("prefixTools", json!(true));
    sandbox.launcher("caller", caller);
    sandbox.define("scout", "launcher: demo\n");
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let start = ["worker", "start", "--launcher", "caller", "--on", "there", "--delegate"];
    let worker = sandbox.run(&start).data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let world = DelegatingHost { sandbox, host, worker };
    let sandbox = &world.sandbox;
    let tools = said(&sandbox.send(&world.worker, "quirk: tools"));
    for tool in ["task", "spawn_subagent", "get_subagents", "message_subagent"] {
        assert!(tools.split(' ').any(|name| name == format!("subagent_{tool}")), "{tool}: {tools}");
    }
    let gives = "quirk: task-of-its-own scout !ask edit notes.md\\n!shell pwd";
    let asked = sandbox.send(&world.worker, gives);
    let event = &asked["matchedEvent"];
    assert_eq!(event["type"], "approval.requested", "{asked}");
    let child = event["workerId"].as_str().unwrap();
    assert_ne!(child, world.worker, "{asked}");
    // Its client waits meanwhile, and sees nothing of that.
    for kills_daemon in [false, true] {
        let before = world.socket();
        match kills_daemon {
            true => sandbox.kill_daemon(),
            false => world.host.cut(),
        }
        let _ = world.tasks_of(&world.worker);
        wait_until("the next socket there", DEADLINE, || (world.announced()? != before).then_some(()));
    }
    let _ = sandbox.approve(child, &event["data"]["requestId"], "allow").data_of("approval.decided");
    let end = sandbox.turn_end(&asked);
    assert_eq!(end["type"], "turn.completed", "{end}");
    let result = sandbox.run(&["result", &world.worker]).document().to_string();
    assert_eq!(result.matches("subagent_task: ").count(), 1, "{result}");
    let workspace = sandbox.workspace().canonicalize().unwrap();
    for expected in ["<task_result agent=", "permission: allow-once", workspace.to_str().unwrap()] {
        assert!(result.contains(expected), "{expected}: {result}");
    }
    let tasks = world.tasks_of(&world.worker);
    assert_eq!((tasks.len(), &tasks[0]["status"]), (1, &json!("completed")), "{tasks:?}");
    world.finish();
}

#[test]
fn the_question_of_a_task_is_answered_here_and_the_agent_there_gets_the_result() {
    let Some(world) = DelegatingHost::start() else { return };
    let sandbox = &world.sandbox;
    let asks = world.gives("scout", "Asking", "!ask edit notes.md\n!say edited it");
    let asked = sandbox.send(&world.worker, &asks);
    let event = &asked["matchedEvent"];
    assert_eq!(event["type"], "approval.requested", "{asked}");
    let child = event["workerId"].as_str().unwrap();
    assert_ne!(child, world.worker, "{asked}");
    let _ = sandbox.approve(child, &event["data"]["requestId"], "allow").data_of("approval.decided");
    let end = sandbox.wait_after(&world.worker, &asked["acceptedEventId"], "turn.completed");
    assert_eq!(end["type"], "turn.completed", "{end}");
    let transcript = sandbox.run(&["result", &world.worker]).document().to_string();
    assert!(transcript.contains("edited it"), "{transcript}");
    world.finish();
}

#[test]
fn a_grandchild_here_of_a_child_there_asks_here() {
    let mut sandbox = TestSandbox::new();
    sandbox.define("scout", "");
    sandbox.define("traveller", "placement: there\npermission: {task: allow}\n");
    let Some(host) = SshHost::start(&sandbox) else { return };
    let root = sandbox.delegating(&json!({}), &[]);
    // The id and the token of the child are known only to the child.
    let file = sandbox.file("below.sh");
    let script = format!(
        "worker=${{SUBAGENT_MARKER%%.*}}\n\
         export SUBAGENT_STATE_DIR=$HOME/.local/state/subagent/placed/$worker/tasks\n\
         export SUBAGENT_TASK_TOKEN=$(sed 's/.*\"taskToken\":\"\\([0-9a-f]*\\)\".*/\\1/' {}/*-$worker.env)\n\
         exec {} task run --agent scout --name Near --text-stdin <<'END' 2>&1\n\
         !ask edit notes.md\n!shell pwd\nEND\n",
        sandbox.file("run/subagent").display(),
        sandbox.executable("subagent"),
    );
    fs::write(&file, script).unwrap();
    let prompt = format!("!shell pwd; sh {}", file.display());
    let asked =
        sandbox.send(&root, &sandbox.gives(&sandbox.task_file("traveller", "Far", "foreground", &prompt)));
    let event = &asked["matchedEvent"];
    assert_eq!(event["type"], "approval.requested", "{asked}");
    let inbox = sandbox.run(&["approval", "list"]).data_of("inbox.listed");
    let path = inbox["items"][0]["path"].to_string();
    assert!(path.contains("Far") && path.contains("Near"), "{inbox}");
    let near = event["workerId"].as_str().unwrap();
    let _ = sandbox.approve(near, &event["data"]["requestId"], "allow").data_of("approval.decided");
    let end = sandbox.wait_after(&root, &asked["acceptedEventId"], "turn.completed");
    assert_eq!(end["type"], "turn.completed", "{end}");
    let result = sandbox.run(&["result", &root]).document().to_string();
    let workspace = sandbox.workspace().canonicalize().unwrap();
    for folder in [host.work(), workspace] {
        assert!(result.contains(&format!("{}", folder.display())), "{folder:?}: {result}");
    }
    let _ = sandbox.run(&["worker", "stop", &root]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn the_environment_of_tasks_is_sent_again_with_that_of_the_agent() {
    let Some(world) = DelegatingHost::start() else { return };
    let sandbox = &world.sandbox;
    let old = world.gives("scout", "Old", "hello");
    // As after a reboot of this machine.
    sandbox.kill(&sandbox.runtime(&world.worker));
    wait_until("the proof of its end", DEADLINE, || {
        sandbox.show(&world.worker)["runtimePid"].is_null().then_some(())
    });
    for entry in fs::read_dir(sandbox.file("run/subagent")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "env") {
            fs::remove_file(path).unwrap();
        }
    }
    let refused = said(&sandbox.send(&world.worker, &old));
    assert!(refused.contains("FORBIDDEN_FROM_WORKER"), "{refused}");
    let result = said(&sandbox.send(&world.worker, &world.gives("scout", "New", "!shell echo $HOME")));
    assert!(result.contains(sandbox.file("home").to_str().unwrap()), "{result}");
    world.finish();
}

#[test]
fn a_call_that_waits_ends_once_although_connections_and_the_daemon_are_killed() {
    let Some(world) = DelegatingHost::start() else { return };
    let sandbox = &world.sandbox;
    let gate = sandbox.gate("task");
    let gives = world.gives("scout", "Long", &format!("{}\n!say found it", gate.directive()));
    let accepted = sandbox.send_no_wait(&world.worker, &gives);
    let one = || {
        wait_until("the task", DEADLINE, || {
            let tasks = world.tasks_of(&world.worker);
            (tasks.first()?["status"] == "running").then_some(tasks)
        })
    };
    let task = one()[0]["taskId"].clone();
    // More than a request that does not wait may lose in a row.
    for round in 0..8 {
        let before = world.socket();
        match round {
            1 => sandbox.kill_daemon(),
            2 => drop(sandbox.command("subagentd").args(["stop", "--json"]).run().data()),
            _ => world.host.cut(),
        }
        assert_eq!(one()[0]["taskId"], task);
        wait_until("the next socket there", DEADLINE, || (world.announced()? != before).then_some(()));
    }
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let transcript = sandbox.run(&["result", &world.worker]).document().to_string();
    let tasks = world.tasks_of(&world.worker);
    assert_eq!((tasks.len(), &tasks[0]["status"]), (1, &json!("completed")), "{tasks:?} {transcript}");
    assert_eq!(transcript.matches("found it").count(), 1, "{transcript}");
    world.finish();
}

#[test]
fn a_call_that_waits_goes_on_after_a_connection_that_hangs() {
    let Some(world) = DelegatingHost::start() else { return };
    let sandbox = &world.sandbox;
    let gate = sandbox.gate("task");
    let gives = world.gives("scout", "Long", &format!("{}\n!say found it", gate.directive()));
    let accepted = sandbox.send_no_wait(&world.worker, &gives);
    wait_until("the task", DEADLINE, || {
        (world.tasks_of(&world.worker).first()?["status"] == "running").then_some(())
    });
    let before = world.socket();
    world.host.hang();
    world.host.configure_client("other", "host");
    // The client asks after 15 s whether its daemon lives, and gets no answer for 10 s.
    let hung = Instant::now();
    wait_until("a worker that is long unreachable", DEADLINE, || {
        let is_noticed = !sandbox.show(&world.worker)["unreachable"].is_null();
        (is_noticed && hung.elapsed() > Duration::from_secs(28)).then_some(())
    });
    assert_eq!(world.announced(), Some(before.clone()), "the old `dial` lives");
    world.host.configure_client("user", "host");
    wait_until("the next socket there", DEADLINE, || (world.announced()? != before).then_some(()));
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(world.tasks_of(&world.worker).len(), 1);
    let result = sandbox.run(&["result", &world.worker]).document().to_string();
    assert!(result.contains("found it"), "{result}");
    world.host.cut();
    world.finish();
}

#[test]
fn other_processes_there_and_other_requests_are_refused() {
    let Some(world) = DelegatingHost::start() else { return };
    let sandbox = &world.sandbox;
    // This process is not below the worker: its connection is closed without an answer.
    let mut stranger = UnixStream::connect(world.socket()).unwrap();
    stranger.set_read_timeout(Some(DEADLINE)).unwrap();
    // The other side may have closed it already.
    let _ = stranger.write_all(b"GET /v1/daemon HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stranger.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    let refused = said(&sandbox.send(&world.worker, &world.gives_with("wrong", "scout", "No", "hello")));
    assert!(refused.contains("FORBIDDEN_FROM_WORKER"), "{refused}");
    // The token of another worker.
    let start = ["worker", "start", "--launcher", "demo", "--on", "there", "--delegate"];
    let other = sandbox.run(&start).data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let token = sandbox.task_token(&other);
    let refused = said(&sandbox.send(&world.worker, &world.gives_with(&token, "scout", "No", "hello")));
    assert!(refused.contains("FORBIDDEN_FROM_WORKER"), "{refused}");
    for (request, expected) in [
        ("GET /v1/daemon", "daemon.shown"),
        ("GET /v1/workers", "FORBIDDEN_FROM_WORKER"),
        ("GET /v1/approvals", "FORBIDDEN_FROM_WORKER"),
        ("GET /v1/tasks", "FORBIDDEN_FROM_WORKER"),
        ("POST /v1/daemon/stop", "FORBIDDEN_FROM_WORKER"),
    ] {
        let head = format!(
            "{request} HTTP/1.1\\nHost: localhost\\nContent-Length: 2\\nContent-Type: application/json\\n\\n{{}}"
        );
        let ask =
            format!("!shell {} ask {} '{head}'", sandbox.executable("stranger"), world.socket().display());
        let answer = said(&sandbox.send(&world.worker, &ask));
        assert!(answer.contains(expected), "{request}: {answer}");
    }
    assert!(world.tasks_of(&world.worker).is_empty() && world.tasks_of(&other).is_empty());
    let _ = sandbox.run(&["worker", "stop", &other]).data_of("worker.stopped");
    world.finish();
}

#[test]
fn many_bytes_of_a_channel_do_not_delay_a_cancel() {
    let Some(world) = DelegatingHost::start() else { return };
    let sandbox = &world.sandbox;
    let flooded = sandbox.file("flooded");
    let flood = format!(
        "!shell {} flood {} {}",
        sandbox.executable("stranger"),
        world.socket().display(),
        flooded.display()
    );
    let accepted = sandbox.send_no_wait(&world.worker, &flood);
    wait_until("the flood", DEADLINE, || flooded.exists().then_some(()));
    let cancel = sandbox.subagent(&["cancel", "--worker-id", &world.worker]);
    let _ = cancel.deadline(Duration::from_secs(20)).run().data();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    assert_eq!(said(&sandbox.send(&world.worker, "and on")), "and on");
    world.finish();
}

#[test]
fn a_task_there_is_marked_wherever_it_is_shown_while_its_host_is_down() {
    let sandbox = TestSandbox::new();
    let Some(mut host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let gate = sandbox.gate("task");
    let text = format!("{}\n!say done", gate.directive());
    let run = ["task", "run", "--background", "--launcher", "demo", "--on", "there", "--text", &text];
    let task = sandbox.run(&run).data()["taskId"].as_str().unwrap().to_owned();
    sandbox.wait_for_prompt(1);
    let show = || sandbox.run(&["task", "show", &task]).data_of("task.shown");
    assert!(show().get("unreachable").is_none());
    host.end_server();
    wait_until("the mark", DEADLINE, || show()["unreachable"]["since"].is_string().then_some(()));
    let listed = sandbox.run(&["task", "list"]).data();
    assert!(listed["items"][0]["unreachable"].is_object(), "{listed}");
    let human = |words: &[&str]| sandbox.command("subagent").args(words).run().stdout;
    for words in [&["task", "list"][..], &["tree"], &["worker", "list"], &["ls"], &["show", &task]] {
        let said = human(words);
        assert!(said.contains("running") && said.contains("unreachable"), "{words:?}: {said}");
    }
    let wait = ["wait", "--worker-id", &task, "--until", "turn.completed", "--timeout-seconds", "1"];
    let error = sandbox.run(&wait).error("WAIT_TIMEOUT");
    assert!(error["details"]["unreachable"].is_object(), "{error}");
    assert!(!error["message"].as_str().unwrap().contains("goes on"), "{error}");
    // An agent that manages it sees the same.
    let mut client = McpClient::new(&sandbox);
    for (tool, arguments) in [
        ("get_subagents", json!({})),
        ("get_subagents", json!({"name_or_id": task})),
        ("list_workers", json!({})),
        ("wait_for", json!({"worker_ids": [task], "timeout_seconds": 1})),
    ] {
        let (said, is_error) = client.called(tool, arguments);
        assert!(!is_error && said.contains("\"unreachable_since\":\""), "{tool}: {said}");
    }
    drop(client);
    gate.open();
    host.restart_server(&sandbox);
    let ended = sandbox.run(&["task", "wait", &task]).data();
    assert_eq!((&ended["status"], ended.get("unreachable")), (&json!("completed"), None), "{ended}");
    sandbox.finish();
}
