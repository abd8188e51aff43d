//! Rate limits of a provider: the worker is parked, its queue goes on by itself, and nothing is sent twice.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

const SOON: Duration = Duration::from_secs(20);
/// A reset that does not come while a test runs.
const LONG: &str = "!rate-limit 3600000";

fn of_type(sandbox: &TestSandbox, worker: &str, wanted: &str) -> Vec<Value> {
    let events = sandbox.events(worker).into_iter();
    events.filter(|event| event["type"] == wanted).map(|mut event| event["data"].take()).collect()
}

fn queue(sandbox: &TestSandbox, worker: &str, text: &str) -> Value {
    sandbox.sending(worker, text).args(["--queue", "--no-wait"]).run().data_of("turn.queued")
}

/// The texts that were sent to the agent, in order.
fn sent(sandbox: &TestSandbox, worker: &str) -> Vec<String> {
    let sent = of_type(sandbox, worker, "message.sent").into_iter();
    sent.map(|data| data["text"].as_str().unwrap().to_owned()).collect()
}

/// Until nothing waits and no turn is open.
fn rest(sandbox: &TestSandbox, worker: &str) {
    wait_until("the worker to have nothing to do", SOON, || {
        let shown = sandbox.show(worker);
        (shown["state"] == "idle" && shown["queue"].is_null() && shown["parked"].is_null()).then_some(())
    });
}

#[test]
fn a_limit_with_a_time_parks_the_worker_and_its_queue_goes_on_alone() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let first = sandbox.send_no_wait(&worker, &format!("{}\n!rate-limit 1500", gate.directive()));
    queue(&sandbox, &worker, "second");
    queue(&sandbox, &worker, "third");
    gate.open();
    wait_until("the worker to be parked", SOON, || {
        (!sandbox.show(&worker)["parked"].is_null()).then_some(())
    });
    rest(&sandbox, &worker);
    assert_eq!(sent(&sandbox, &worker)[1..], ["second", "third"]);
    let failed = of_type(&sandbox, &worker, "turn.failed");
    assert_eq!(failed.len(), 1);
    let details = &failed[0]["error"]["details"];
    assert_eq!((&details["reasonCategory"], &details["retryAfterMs"]), (&json!("rate_limit"), &json!(1500)));
    let parked = of_type(&sandbox, &worker, "worker.parked");
    assert_eq!(
        (parked.len(), &parked[0]["reason"], &parked[0]["turnId"], parked[0].get("backoff")),
        (1, &json!("rate_limit"), &first["turnId"], None)
    );
    assert_eq!(of_type(&sandbox, &worker, "worker.unparked"), [json!({"reason": "due"})]);
    assert!(of_type(&sandbox, &worker, "queue.paused").is_empty());
    sandbox.finish();
}

#[test]
fn a_parked_worker_is_shown_takes_messages_and_is_resumed() {
    let (sandbox, worker) = TestSandbox::with_worker();
    sandbox.send_fails(&worker, LONG, "BACKEND_RPC_ERROR");
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], &shown["parked"]["reason"]), (&json!("idle"), &json!("rate_limit")));
    let listed = sandbox.run(&["ls", "--json"]).data_of("workers.overview");
    assert_eq!(listed["items"][0]["parked"], shown["parked"]);
    let refused = sandbox.sending(&worker, "no").run().error("WORKER_BUSY");
    assert_eq!((&refused["details"]["parked"], &refused["retryable"]), (&shown["parked"], &json!(true)));
    queue(&sandbox, &worker, "second");
    let steered = sandbox
        .sending(&worker, "first")
        .args(["--if-busy", "steer", "--no-wait"])
        .run()
        .data_of("turn.queued");
    assert_eq!(steered["position"], 1);
    assert_eq!(sent(&sandbox, &worker).len(), 1, "nothing is sent while it is parked");
    let resumed = sandbox.run(&["worker", "resume", &worker]).data_of("worker.resumed");
    assert_eq!((&resumed["unparked"], &resumed["resumed"]), (&json!(true), &json!(false)));
    rest(&sandbox, &worker);
    assert_eq!(sent(&sandbox, &worker)[1..], ["first", "second"]);
    let again = sandbox.run(&["worker", "resume", &worker]).data_of("worker.resumed");
    assert_eq!((&again["unparked"], &again["turnId"]), (&json!(false), &Value::Null));
    assert_eq!(of_type(&sandbox, &worker, "worker.unparked"), [json!({"reason": "resumed"})]);
    sandbox.finish();
}

#[test]
fn resuming_begins_the_count_of_waits_anew() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for backoff in 1..=2 {
        sandbox.send_fails(&worker, "!rate-limit", "BACKEND_RPC_ERROR");
        let parked = of_type(&sandbox, &worker, "worker.parked").pop().unwrap();
        assert_eq!(parked["backoff"], 1, "resuming begins the count anew, in round {backoff}");
        sandbox.run(&["worker", "resume", &worker]).data_of("worker.resumed");
    }
    sandbox.finish();
}

#[test]
fn with_fail_the_queue_is_paused_as_after_any_failure() {
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("careful", sandbox.demo_agent(&[]).key("onRateLimit", json!("fail")));
    sandbox.init();
    let worker = sandbox.start("careful");
    assert_eq!(sandbox.show(&worker)["onRateLimit"], "fail");
    let gate = sandbox.gate("turn");
    let _ = sandbox.send_no_wait(&worker, &format!("{}\n{LONG}", gate.directive()));
    queue(&sandbox, &worker, "second");
    gate.open();
    wait_until("the queue to be paused", SOON, || {
        (sandbox.show(&worker)["queue"]["reason"] == "turn_failed").then_some(())
    });
    assert!(sandbox.show(&worker)["parked"].is_null());
    let set = sandbox.run(&["worker", "set", &worker, "--on-rate-limit", "park"]).data_of("worker.set");
    assert_eq!(set["onRateLimit"], "park");
    sandbox.run(&["worker", "resume", &worker]).data_of("worker.resumed");
    rest(&sandbox, &worker);
    sandbox.send_fails(&worker, LONG, "BACKEND_RPC_ERROR");
    assert!(!sandbox.show(&worker)["parked"].is_null());
    let wrong = sandbox.run(&["worker", "start", "--launcher", "careful", "--on-rate-limit", "never"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong}");
    sandbox.finish();
}

#[test]
fn a_turn_whose_start_is_limited_is_sent_once_when_the_limit_is_over() {
    let mut sandbox = TestSandbox::new();
    let limited = sandbox.file("limited");
    let agent = sandbox.demo_agent(&["--limited-while", limited.to_str().unwrap()]);
    sandbox.launcher("limited", agent);
    sandbox.init();
    let worker = sandbox.start("limited");
    fs::write(&limited, "").unwrap();
    sandbox.runtime(&worker).signal(nix::sys::signal::Signal::SIGKILL);
    wait_until("the runtime to be gone", SOON, || {
        sandbox.show(&worker)["runtimePid"].is_null().then_some(())
    });
    let accepted = sandbox.send_no_wait(&worker, &format!("!touch {}", sandbox.file_name("done")));
    wait_until("the worker to be parked twice", SOON, || {
        (of_type(&sandbox, &worker, "worker.parked").len() >= 2).then_some(())
    });
    let refused = sandbox.sending(&worker, "another").run().error("WORKER_BUSY");
    assert_eq!(refused["details"]["parked"], sandbox.show(&worker)["parked"], "{refused}");
    fs::remove_file(&limited).unwrap();
    wait_until("the runtime of the failed start to be gone", SOON, || {
        sandbox.show(&worker)["runtimePid"].is_null().then_some(())
    });
    // The second limit of 300 ms in a row is not believed any more.
    sandbox.run(&["worker", "resume", &worker]).data_of("worker.resumed");
    let end = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "turn.completed,turn.failed");
    assert_eq!((&end["type"], &end["turnId"]), (&json!("turn.completed"), &accepted["turnId"]));
    assert_eq!(sandbox.touches("done"), 1);
    assert_eq!(of_type(&sandbox, &worker, "turn.started").len(), 1);
    sandbox.finish();
}

#[test]
fn a_parked_worker_outlives_the_daemon() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let _ = sandbox.send_no_wait(&worker, &format!("{}\n!rate-limit 3000", gate.directive()));
    queue(&sandbox, &worker, &format!("!touch {}", sandbox.file_name("done")));
    gate.open();
    wait_until("the worker to be parked", SOON, || {
        (!sandbox.show(&worker)["parked"].is_null()).then_some(())
    });
    sandbox.kill_daemon();
    rest(&sandbox, &worker);
    assert_eq!(sandbox.touches("done"), 1);
    sandbox.finish();
}

#[test]
fn a_message_after_the_reset_is_taken_by_a_daemon_that_was_not_there() {
    let (sandbox, worker) = TestSandbox::with_worker();
    sandbox.send_fails(&worker, "!rate-limit 1500", "BACKEND_RPC_ERROR");
    let until = sandbox.show(&worker)["parked"]["until"].clone();
    assert!(until.is_string(), "it is parked");
    sandbox.runtime(&worker).signal(nix::sys::signal::Signal::SIGKILL);
    wait_until("the runtime to be gone", SOON, || {
        sandbox.show(&worker)["runtimePid"].is_null().then_some(())
    });
    sandbox.kill_daemon();
    let reset = subagent_protocol::time::Timestamp::parse(until.as_str().unwrap()).unwrap();
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    // A time is printed in whole seconds, rounded down.
    wait_until("the reset", SOON, || (now() > u128::try_from(reset.0 + 1000).unwrap()).then_some(()));
    let sent = sandbox.send(&worker, "after the reset");
    assert_eq!(sent["assistantText"], "after the reset");
    sandbox.finish();
}
