//! `worker restart` concurrent with messages, stops, repetitions and the death of a daemon.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, request, wait_until};

use super::text;

/// Sends a request with an idempotency key to the running daemon.
fn post(sandbox: &TestSandbox, path: &str, key: &str) -> Value {
    let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let socket = sandbox.daemon_info().unwrap().socket;
    let head = [&format!("POST {path} HTTP/1.1") as &str, &format!("Idempotency-Key: {key}")];
    request(socket.as_ref(), &head, "{}").json()
}

#[test]
fn a_message_in_between_is_answered_by_the_new_runtime_and_an_old_error_is_not_the_restarts() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send_fails(&worker, "!error -32603 old", "BACKEND_RPC_ERROR");
    assert!(text(&sandbox.show(&worker)["lastError"]).starts_with("BACKEND_RPC_ERROR"));
    let runtime = sandbox.runtime(&worker);
    runtime.signal(Signal::SIGSTOP);
    let restart = sandbox.subagent(&["worker", "restart", &worker]).spawn();
    // It was asked to end, and gets some more seconds before it is killed.
    wait_until("a runtime that does not answer", Duration::from_secs(20), || {
        (sandbox.show(&worker)["unresponsive"] == true).then_some(())
    });
    let accepted = sandbox.send_no_wait(&worker, "in between");
    let after = restart.output().data_of("worker.restarted");
    assert_ne!(after["runtimePid"], runtime.pid);
    assert_eq!(after["lastError"], json!(null));
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_stop_in_between_is_no_success() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--slow-start", "4000"]);
    sandbox.launcher("slow", agent);
    sandbox.init();
    let worker = sandbox.start("slow");
    let before = sandbox.show(&worker)["runtimePid"].take();
    let restart = sandbox.subagent(&["worker", "restart", &worker]).spawn();
    wait_until("the new runtime", Duration::from_secs(20), || {
        let now = sandbox.show(&worker)["runtimePid"].take();
        (now.is_i64() && now != before).then_some(())
    });
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let error = restart.output().error("WORKER_STOPPED");
    assert_eq!(error["details"]["workerId"], json!(worker));
    sandbox.finish();
}

#[test]
fn a_repetition_has_the_first_result_also_when_the_worker_is_stopped() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (restart, cancel) = (format!("/v1/workers/{worker}/restart"), format!("/v1/workers/{worker}/cancel"));
    let first = post(&sandbox, &restart, "restart");
    assert_eq!(first["ok"], true, "{first}");
    let _ = sandbox.send_no_wait(&worker, "!sleep 60000");
    let canceled = post(&sandbox, &cancel, "cancel");
    assert_eq!(canceled["type"], "turn.canceled", "{canceled}");
    // Later failures are not caused by the restart.
    let _ = sandbox.send_fails(&worker, "!crash 7", "BACKEND_UNAVAILABLE");
    let again = post(&sandbox, &restart, "restart");
    assert_eq!(again["type"], "worker.restarted", "{again}");
    assert_eq!(post(&sandbox, &cancel, "cancel")["data"]["eventId"], canceled["data"]["eventId"]);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    for _ in 0..2 {
        let again = post(&sandbox, &restart, "restart");
        assert_eq!(
            (&again["type"], &again["data"]["state"]),
            (&json!("worker.restarted"), &json!("stopped"))
        );
        let again = post(&sandbox, &cancel, "cancel");
        assert_eq!(
            (&again["data"]["turnId"], &again["data"]["eventId"]),
            (&canceled["data"]["turnId"], &canceled["data"]["eventId"]),
            "{again}"
        );
        assert_eq!(post(&sandbox, &restart, "another")["error"]["code"], "WORKER_STOPPED");
        assert_eq!(post(&sandbox, &restart, "cancel")["error"]["code"], "IDEMPOTENCY_CONFLICT");
        sandbox.kill_daemon();
    }
    sandbox.finish();
}

#[test]
fn a_daemon_that_dies_before_the_new_runtime_is_there_leaves_it_to_the_next() {
    let (mut sandbox, worker) = TestSandbox::with_worker();
    let before = sandbox.show(&worker)["runtimePid"].take();
    sandbox.kill_daemon();
    sandbox.set_env("SUBAGENT_FAILPOINTS", "spawn.before=abort");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", sandbox.file("aborted"));
    let after = sandbox.persist(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert!(sandbox.file("aborted").exists());
    assert!(after["runtimePid"].is_i64() && after["runtimePid"] != before, "{after}");
    assert_eq!((&after["state"], &after["lastError"]), (&json!("idle"), &json!(null)));
    sandbox.finish();
}

#[test]
fn a_forced_one_decides_what_is_asked() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let restart = || sandbox.run(&["worker", "restart", &worker, "--force"]).data_of("worker.restarted");
    let asked = sandbox.send(&worker, "!ask edit x");
    let _ = restart();
    let simulate = ["send", "--worker-id", &worker, "--text", "x", "--request-approval", "--no-wait"];
    let simulated = sandbox.run(&simulate).data_of("turn.accepted");
    let _ = restart();
    let events = sandbox.events(&worker);
    assert!(!events.iter().any(|event| event["type"] == "approval.canceled"), "{events:?}");
    let decided: Vec<Value> = events
        .into_iter()
        .filter(|event| event["type"] == "approval.decided")
        .map(|mut event| event["data"].take())
        .collect();
    let by_restart = |asked: &Value| {
        json!({
            "requestId": asked["requestId"], "decision": "cancelled", "optionId": "cancelled", "alias": "cancelled", "by": "cancel",
            "note": "worker restarted by manager",
        })
    };
    assert_eq!(decided, [by_restart(&asked), by_restart(&simulated)]);
    sandbox.finish();
}
