//! The limits that end a task (M6), the tasks that end with the worker above (M9), and the
//! handling of ended tasks.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use subagent_protocol::bytes64::Bytes64;
use subagent_tests::harness::{TestSandbox, request, wait_until};

const DEADLINE: Duration = Duration::from_secs(30);

/// Returns the response of a daemon, which is started if there is none.
#[track_caller]
fn ask(sandbox: &TestSandbox, line: &str, body: &Value) -> Value {
    let _ = sandbox.run(&["worker", "list"]);
    let socket = sandbox.daemon_info().unwrap().socket;
    let body = if line.starts_with("GET") { String::new() } else { body.to_string() };
    let head = [&format!("{line} HTTP/1.1"), "Content-Type: application/json"];
    let response = request(&socket, &head, &body);
    assert_eq!(response.status, 200, "{line}: {}", response.body);
    response.json()["data"].clone()
}

/// Submits a manager's task with these limits. Returns its id.
fn given(sandbox: &TestSandbox, name: &str, prompt: &str, overrides: &Value) -> String {
    let workspace = sandbox.workspace().canonicalize().unwrap();
    let printed = sandbox.command("env").run();
    let variables = printed.stdout.lines().filter_map(|line| line.split_once('='));
    let env: Vec<_> = variables
        .map(|(name, value)| json!([Bytes64(name.as_bytes().to_vec()), Bytes64(value.as_bytes().to_vec())]))
        .collect();
    let manager = json!({
        "workspaceKey": workspace, "workspace": workspace, "cwd": workspace, "launcher": "demo", "env": env, "umask": 18,
        "config": sandbox.config_file(),
    });
    let body = json!({"prompt": prompt, "name": name, "overrides": overrides, "manager": manager});
    ask(sandbox, "POST /v1/tasks", &body)["taskId"].as_str().unwrap().to_owned()
}

#[track_caller]
fn shown(sandbox: &TestSandbox, task: &str) -> Value {
    ask(sandbox, &format!("GET /v1/tasks/{task}"), &Value::Null)
}

/// Returns the task once it has ended.
#[track_caller]
fn ended(sandbox: &TestSandbox, task: &str) -> Value {
    ask(sandbox, &format!("POST /v1/tasks/{task}/wait"), &json!({"timeoutMs": 25_000}))
}

#[track_caller]
fn until(sandbox: &TestSandbox, task: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, DEADLINE, || Some(shown(sandbox, task)).filter(|shown| is(shown)))
}

fn counts(task: &Value) -> (&str, u64, u64) {
    (task["status"].as_str().unwrap(), task["steps"].as_u64().unwrap(), task["toolCalls"].as_u64().unwrap())
}

fn data_of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    let events = sandbox.events(worker).into_iter().filter(|event| event["type"] == event_type);
    events.map(|event| event["data"].clone()).collect()
}

#[test]
fn m6_a_prompt_that_makes_more_tool_calls_than_it_may_ends_with_what_it_has_said() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let gate = sandbox.gate("never");
    let two = "!tool read one\n!tool read two\nso far";
    let prompt = format!("{two}\n!tool read three\n{}", gate.directive());
    let task = given(&sandbox, "too much", &prompt, &json!({"maxSteps": 2}));
    let end = ended(&sandbox, &task);
    assert_eq!(counts(&end), ("max_iterations_reached", 3, 3));
    assert_eq!(end["result"], "so far");
    assert_eq!(
        (&end["error"]["code"], &end["error"]["message"]),
        (&json!("MAX_ITERATIONS_REACHED"), &json!("the task exceeded its limit of 2 tool calls"))
    );
    let failed = data_of_type(&sandbox, &task, "subagent.failed");
    assert_eq!((failed.len(), &failed[0]["status"]), (1, &json!("max_iterations_reached")));
    let canceled = data_of_type(&sandbox, &task, "turn.canceled");
    assert_eq!(canceled[0]["reason"], "the task exceeded its limit of 2 tool calls");

    let task = given(&sandbox, "enough", two, &json!({"maxSteps": 2}));
    assert_eq!(counts(&ended(&sandbox, &task)), ("completed", 2, 2));
    let message = json!({"message": "!tool read three", "allowFresh": true});
    ask(&sandbox, &format!("POST /v1/tasks/{task}/messages"), &message);
    let end =
        until(&sandbox, &task, "the second run", |task| task["runs"] == 2 && task["status"] == "completed");
    assert_eq!(counts(&end), ("completed", 1, 3), "the count must restart");
    sandbox.finish();
}

#[test]
fn m6_a_daemon_that_is_started_anew_counts_on() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let (gate, never) = (sandbox.gate("turn"), sandbox.gate("never"));
    let prompt = format!(
        "!tool read one\n!ask read two\n{}\n!tool read three\n{}",
        gate.directive(),
        never.directive()
    );
    let task = given(&sandbox, "steady", &prompt, &json!({"maxSteps": 2, "timeoutMs": 0}));
    let asks = until(&sandbox, &task, "the question", |task| task["status"] == "waiting_approval");
    assert_eq!(counts(&asks), ("waiting_approval", 2, 2), "a question must count as a step");
    sandbox.kill_daemon();
    let request = data_of_type(&sandbox, &task, "approval.requested").remove(0)["requestId"].take();
    let _ = sandbox.approve(&task, &request, "allow");
    sandbox.kill_daemon();
    assert_eq!(counts(&shown(&sandbox, &task)), ("running", 2, 2));
    gate.open();
    assert_eq!(counts(&ended(&sandbox, &task)), ("max_iterations_reached", 3, 3));
    sandbox.finish();
}

#[test]
fn m6_a_prompt_that_runs_for_longer_than_it_may_is_timed_out_also_by_the_next_daemon() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let prompt = format!("so far\n!touch {}\n!sleep 600000", sandbox.file_name("began"));
    let task = given(&sandbox, "slow", &prompt, &json!({"timeoutMs": 1500}));
    wait_until("the turn", DEADLINE, || (sandbox.touches("began") > 0).then_some(()));
    sandbox.kill_daemon();
    let end = ended(&sandbox, &task);
    assert_eq!((&end["status"], &end["result"]), (&json!("timed_out"), &json!("so far")));
    assert_eq!(end["error"]["code"], "TIMED_OUT", "{end}");
    let database = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    let ran = "SELECT completed_at - started_at FROM tasks";
    let ran: i64 = database.query_row(ran, [], |row| row.get(0)).unwrap();
    assert!(ran >= 1500, "after {ran} ms");
    let canceled = data_of_type(&sandbox, &task, "turn.canceled");
    assert_eq!(canceled[0]["reason"], "the task reached its time limit of 1.5 s");
    sandbox.finish();
}

/// Returns the directive by which a worker's agent submits a task.
fn gives(sandbox: &TestSandbox, worker: &str, name: &str, mode: &str, prompt: &str) -> String {
    let socket = sandbox.daemon_info().unwrap().socket;
    let token = sandbox.task_token(worker);
    let body = json!({"prompt": prompt, "name": name, "mode": mode}).to_string();
    let length = body.len();
    let text = format!(
        "POST /v1/tasks HTTP/1.1\\nHost: x\\nx-subagent-task-token: {token}\\nContent-Type: application/json\\n\
         Content-Length: {length}\\nConnection: close\\n\\n{body}"
    );
    let stranger = sandbox.executable("stranger");
    format!("!shell '{stranger}' ask '{}' '{text}'", socket.display())
}

/// A worker during a turn that has submitted a task of each mode, both of which run. Returns the
/// worker, the tasks, and the gate that lets the turn continue.
fn parent(sandbox: &TestSandbox) -> (String, [String; 2], subagent_tests::harness::Gate) {
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--delegate"]);
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let (gate, never) = (sandbox.gate("parent"), sandbox.gate("never"));
    let prompt: Vec<String> = ["foreground", "background"]
        .map(|mode| gives(sandbox, &worker, mode, mode, &never.directive()))
        .into_iter()
        .chain([gate.directive()])
        .collect();
    let _ = sandbox.send_no_wait(&worker, &prompt.join("\n"));
    let tasks = wait_until("both tasks to run", DEADLINE, || {
        let listed = ask(sandbox, &format!("GET /v1/tasks?parent={worker}"), &Value::Null);
        let items = listed["items"].as_array().unwrap();
        let run = items.len() == 2 && items.iter().all(|task| task["status"] == "running");
        run.then(|| [0, 1].map(|index: usize| items[index]["taskId"].as_str().unwrap().to_owned()))
    });
    (worker, tasks, gate)
}

#[test]
fn m9_a_turn_that_ends_ends_the_tasks_that_it_waited_for_and_a_cancel_all_of_them() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let (worker, [foreground, background], gate) = parent(&sandbox);
    gate.open();
    let end = ended(&sandbox, &foreground);
    assert_eq!(end["status"], "cancelled");
    let canceled = data_of_type(&sandbox, &foreground, "turn.canceled");
    assert_eq!(canceled[0]["reason"], "the turn that waited for it has ended");
    assert_eq!(shown(&sandbox, &background)["status"], "running");
    let _ = sandbox.send_no_wait(&worker, "!sleep 600000");
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(ended(&sandbox, &background)["status"], "cancelled");
    // A canceled worker is not woken by the end that this caused.
    let _ = sandbox.send(&worker, "still there");
    let sent = data_of_type(&sandbox, &worker, "message.sent");
    assert!(sent.iter().all(|data| data["subagent"].is_null()), "{sent:?}");
    sandbox.finish();
}

#[test]
fn m9_an_end_goes_down_although_the_daemon_is_killed_before_anything_below_has_heard_of_it() {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("once");
    sandbox.set_env("SUBAGENT_FAILPOINTS", "cancel.before_commit=abort");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    sandbox.init();
    let (_, [foreground, background], gate) = parent(&sandbox);
    gate.open();
    wait_until("the daemon to abort", DEADLINE, || once.exists().then_some(()));
    assert_eq!(ended(&sandbox, &foreground)["status"], "cancelled");
    assert_eq!(data_of_type(&sandbox, &foreground, "turn.canceled").len(), 1);
    assert_eq!(shown(&sandbox, &background)["status"], "running");
    sandbox.finish();
}

#[test]
fn m9_a_stop_leaves_nothing_of_the_tasks_below_and_they_can_be_read_when_the_worker_is_removed() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let (worker, tasks, _gate) = parent(&sandbox);
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    for task in &tasks {
        assert_eq!(ended(&sandbox, task)["status"], "cancelled");
    }
    wait_until("the agents to end", DEADLINE, || {
        let agents =
            sandbox.processes().into_iter().filter(|process| process.command_line().contains("demo-agent"));
        (agents.count() == 0).then_some(())
    });
    sandbox.run(&["worker", "rm", &worker]).data_of("worker.removed");
    for task in &tasks {
        assert_eq!(shown(&sandbox, task)["parent"], worker.as_str());
    }
    sandbox.finish();
}

fn listed(sandbox: &TestSandbox, query: &str) -> Vec<String> {
    let listed = ask(sandbox, &format!("GET /v1/tasks{query}"), &Value::Null);
    let ids =
        listed["items"].as_array().unwrap().iter().map(|task| task["taskId"].as_str().unwrap().to_owned());
    ids.collect()
}

#[test]
fn an_unused_task_is_archived_and_its_name_is_free() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let old = given(&sandbox, "Scout", "done", &json!({}));
    assert_eq!(ended(&sandbox, &old)["status"], "completed");
    sandbox.kill_daemon();
    let database = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    database.execute("UPDATE tasks SET completed_at = completed_at - 25 * 3600000", []).unwrap();
    drop(database);
    wait_until("the archive", DEADLINE, || {
        (listed(&sandbox, "?archived=true") == [old.clone()]).then_some(())
    });
    assert_eq!(listed(&sandbox, ""), Vec::<String>::new());
    let end = shown(&sandbox, &old);
    assert_eq!(
        (&end["status"], &end["result"], end["archivedAt"].is_null()),
        (&json!("completed"), &json!("done"), false)
    );
    let new = given(&sandbox, "Scout", "done", &json!({}));
    assert_eq!(ended(&sandbox, &new)["status"], "completed");
    assert_eq!(listed(&sandbox, ""), [new]);
    wait_until("its worker to be stopped", DEADLINE, || {
        (sandbox.show(&old)["state"] == "stopped").then_some(())
    });
    sandbox.run(&["worker", "rm", &old]).data_of("worker.removed");
    assert_eq!(listed(&sandbox, "?archived=true"), Vec::<String>::new());
    sandbox.finish();
}
