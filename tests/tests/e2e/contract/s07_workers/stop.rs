//! Tests of `worker stop` and its output.

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::text;

#[test]
fn a_stop_is_reported_with_its_keys_and_again_unchanged() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let shape = json!({"workerId": "w", "controllerId": "ctl", "state": "=stopped", "stoppedAt": "ts", "updatedAt": "ts"});
    assert_shape(&stopped, &shape);
    let again = sandbox.run(&["worker", "stop", &worker, "--force"]).data_of("worker.stopped");
    assert_eq!(again, stopped);
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["runtimePid"], &shown["runtimeSocket"]), (&Value::Null, &Value::Null));
    let output = sandbox.command("subagent").args(["worker", "stop", &worker]).run();
    assert_eq!(output.text(), format!("workerId: {worker}\nstate: stopped\n"));
    sandbox.finish();
}

#[test]
fn a_stop_cancels_the_turn_and_its_open_question() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let asked = sandbox.send(&worker, "!ask edit x");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let look = ["worker", "inspect", &worker, "--tail", "1000"];
    let look = sandbox.run(&look).data_of("worker.inspected");
    assert_eq!(look["pendingApprovals"], json!([]));
    let events = look["events"].as_array().unwrap();
    let of = |kind: &str| {
        events.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("{kind}: {look}"))
    };
    assert_eq!(of("turn.canceled")["data"]["reason"], "worker stopped by manager");
    assert_eq!(of("approval.canceled")["data"]["requestId"], asked["requestId"]);
    sandbox.finish();
}

#[test]
fn fifty_stops_at_once_all_report_the_same() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let stops: Vec<_> = (0..50).map(|_| sandbox.subagent(&["worker", "stop", &worker]).spawn()).collect();
    let results: Vec<Value> = stops.into_iter().map(|stop| stop.output().data_of("worker.stopped")).collect();
    assert!(results.iter().all(|result| result == &results[0]), "{results:?}");
    assert_eq!(text(&results[0]["workerId"]), worker);
    sandbox.finish();
}
