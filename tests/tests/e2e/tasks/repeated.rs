//! A repeated request about an ended task does not affect its next run.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, request, wait_until};

/// Time limit for a task of the scripted agent.
const SOON: Duration = Duration::from_secs(30);

/// Cancels a task under a key. Returns its status.
fn cancel(sandbox: &TestSandbox, task: &str, key: &str) -> Value {
    let socket = sandbox.daemon_info().unwrap().socket;
    let line = format!("POST /v1/tasks/{task}/cancel HTTP/1.1");
    let canceled = request(&socket, &[&line, &format!("idempotency-key: {key}")], "{}").json();
    canceled["data"]["status"].clone()
}

#[test]
fn a_repeated_cancel_of_an_ended_task_does_not_cancel_its_next_run() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let given = sandbox.run(&["task", "run", "--launcher", "demo", "--text", "!say done"]);
    let task = given.data_of("task.waited")["taskId"].as_str().unwrap().to_owned();
    assert_eq!(cancel(&sandbox, &task, "once"), "completed");
    let gate = sandbox.gate("next");
    let message = format!("{}\n!say again", gate.directive());
    sandbox.run(&["task", "message", &task, "--text", &message]).data_of("task.messaged");
    let status = || sandbox.run(&["task", "show", &task]).data_of("task.shown")["status"].clone();
    wait_until("the next run", SOON, || (status() == "running").then_some(()));
    assert_eq!(cancel(&sandbox, &task, "once"), "running", "the same daemon");
    sandbox.kill_daemon();
    sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    assert_eq!(cancel(&sandbox, &task, "once"), "running", "the next daemon");
    gate.open();
    let ended = sandbox.run(&["task", "wait", &task]).data_of("task.waited");
    let found = (&ended["status"], &ended["result"], &ended["runs"]);
    assert_eq!(found, (&json!("completed"), &json!("again"), &json!(2)), "{ended}");
    // Another key is another request.
    let never = sandbox.gate("never").directive();
    sandbox.run(&["task", "message", &task, "--text", &never]).data_of("task.messaged");
    wait_until("the last run", SOON, || (status() == "running").then_some(()));
    let _ = cancel(&sandbox, &task, "twice");
    wait_until("its end", SOON, || (status() == "cancelled").then_some(()));
    sandbox.finish();
}
