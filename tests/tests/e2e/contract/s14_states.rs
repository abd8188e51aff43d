//! The states of workers and their transitions.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use crate::contract::s09_send::{sent, with_debug_worker};

/// Returns state and open turn from `worker show`.
fn shown(sandbox: &TestSandbox, worker: &str) -> (Value, Value) {
    let shown = sandbox.show(worker);
    (shown["state"].clone(), shown["activeTurnId"].clone())
}

fn is(state: &str, turn: &Value) -> (Value, Value) {
    (json!(state), turn.clone())
}

/// Returns a worker during its start, as another command sees it.
fn starting(sandbox: &TestSandbox) -> Value {
    wait_until("the worker", Duration::from_secs(20), || {
        let list = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        list["items"].as_array().unwrap().first().cloned()
    })
}

#[test]
fn a_worker_is_starting_until_its_agent_has_a_session() {
    let mut sandbox = TestSandbox::new();
    let slow = sandbox.demo_agent(&["--slow-start", "3000"]);
    sandbox.launcher("slow", slow);
    sandbox.init();
    let start = sandbox.subagent(&["worker", "start", "--launcher", "slow"]).spawn();
    let item = starting(&sandbox);
    assert_eq!(item["state"], "starting", "{item}");
    let worker = item["workerId"].as_str().unwrap();
    let busy = sandbox.sending(worker, "x").run().error("WORKER_BUSY");
    assert_eq!(busy["details"]["state"], "starting");
    let busy = sandbox.run(&["worker", "set", "--worker-id", worker, "--mode", "bold"]).error("WORKER_BUSY");
    assert!(busy["details"]["recommendedAction"].as_str().unwrap().starts_with("wait until"), "{busy}");
    sandbox.run(&["cancel", "--worker-id", worker]).error("WORKER_NOT_RUNNING");
    assert_eq!(start.output().data_of("worker.started")["state"], "idle");
    sandbox.finish();
}

#[test]
fn a_turn_runs_waits_and_leaves_the_worker_idle() {
    let (sandbox, worker) = TestSandbox::with_worker();
    assert_eq!(shown(&sandbox, &worker), is("idle", &Value::Null));
    let (first, last) = (sandbox.gate("first"), sandbox.gate("last"));
    let text = format!("{}\n!ask edit x\n{}", first.directive(), last.directive());
    let turn = sandbox.send_no_wait(&worker, &text);
    let id = &turn["turnId"];
    assert_eq!(shown(&sandbox, &worker), is("running", id));
    first.open();
    let asked = sandbox.wait_after(&worker, &turn["acceptedEventId"], "approval.requested");
    assert_eq!(shown(&sandbox, &worker), is("waiting_approval", id));
    sandbox.approve(&worker, &asked["data"]["requestId"], "allow").data_of("approval.decided");
    assert_eq!(shown(&sandbox, &worker), is("running", id));
    last.open();
    let _ = sandbox.turn_end(&turn);
    assert_eq!(shown(&sandbox, &worker), is("idle", &Value::Null));
    sandbox.finish();
}

#[test]
fn a_turn_is_canceling_until_its_agent_has_ended_it() {
    let mut sandbox = TestSandbox::new();
    let patient = sandbox.demo_agent(&[]).cancel_grace_seconds(20.0);
    sandbox.launcher("patient", patient);
    sandbox.init();
    let worker = sandbox.start("patient");
    let turn = sandbox.send_no_wait(&worker, "!say begun\n!ignore-cancel 3000");
    let begun = sandbox.wait_after(&worker, &turn["acceptedEventId"], "progress.message");
    let cancel = sandbox.subagent(&["cancel", "--worker-id", &worker]).spawn();
    wait_until("canceling", Duration::from_secs(10), || {
        (shown(&sandbox, &worker) == is("canceling", &turn["turnId"])).then_some(())
    });
    sandbox.sending(&worker, "x").run().error("WORKER_BUSY");
    cancel.output().data_of("turn.canceled");
    let end = sandbox.wait_after(&worker, &begun["eventId"], "turn_end");
    assert_eq!(end["type"], "turn.canceled");
    assert_eq!(shown(&sandbox, &worker), is("idle", &Value::Null));
    sandbox.finish();
}

#[test]
fn a_worker_in_error_can_be_sent_to_again() {
    let mut sandbox = TestSandbox::new();
    let broken = sandbox.demo_agent(&["--exit", "3"]);
    sandbox.launcher("broken", broken);
    sandbox.init();
    let failed = sandbox.run(&["worker", "start", "--launcher", "broken"]).any_error();
    let worker = failed["details"]["workerId"].as_str().unwrap();
    let show = sandbox.show(worker);
    assert_eq!((&show["state"], &show["activeTurnId"]), (&json!("error"), &Value::Null));
    assert!(show["lastError"].as_str().unwrap().starts_with(failed["code"].as_str().unwrap()), "{show}");
    sandbox.run(&["cancel", "--worker-id", worker]).error("WORKER_NOT_RUNNING");
    // It still cannot start: the message fails, but the worker remains usable.
    sandbox.sending(worker, "x").run().error(failed["code"].as_str().unwrap());
    assert_eq!(shown(&sandbox, worker), is("idle", &Value::Null));
    sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn stopped_is_the_end() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("never");
    let _ = sandbox.send_no_wait(&worker, &gate.directive());
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let show = sandbox.show(&worker);
    assert_eq!(
        (&show["state"], &show["stoppedAt"], &show["activeTurnId"]),
        (&json!("stopped"), &stopped["stoppedAt"], &Value::Null)
    );
    sandbox.sending(&worker, "x").run().error("WORKER_STOPPED");
    sandbox.run(&["cancel", "--worker-id", &worker]).error("WORKER_NOT_RUNNING");
    let again = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(again, stopped, "the same success, unchanged");
    assert_eq!(sandbox.show(&worker), show);
    sandbox.finish();
}

#[test]
fn a_worker_without_an_agent_has_the_same_states() {
    let (sandbox, worker) = with_debug_worker();
    assert_eq!(shown(&sandbox, &worker), is("idle", &Value::Null));
    sent(&sandbox, &worker, &["--debug-mode"]);
    assert_eq!(shown(&sandbox, &worker), is("idle", &Value::Null));
    let asked = sent(&sandbox, &worker, &["--request-approval"]);
    assert_eq!(shown(&sandbox, &worker), is("waiting_approval", &asked["turnId"]));
    sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    assert_eq!(shown(&sandbox, &worker), is("idle", &Value::Null));
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(shown(&sandbox, &worker), is("stopped", &Value::Null));
    sandbox.finish();
}
