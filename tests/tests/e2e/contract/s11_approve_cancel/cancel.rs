//! Cancels of agents' turns, and of simulated ones.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

use super::{events_of, pending};
use crate::contract::at_once;
use crate::contract::s09_send::{debug_worker, sent, types_of, with_debug_worker};

/// Time limit for an expected observation.
const PATIENCE: Duration = Duration::from_secs(10);

fn cancel(sandbox: &TestSandbox, worker: &str, reason: &[&str]) -> Value {
    let data = sandbox.subagent(&["cancel", "--worker-id", worker]).args(reason).run();
    let data = data.data_of("turn.canceled");
    assert_shape(&data, &json!({"workerId": "w", "state": "=idle", "eventId": "ev", "turnId": "turn"}));
    data
}

#[test]
fn a_cancel_answers_what_was_asked_and_ends_the_turn() {
    let (sandbox, strict) = TestSandbox::with_worker();
    let debug = debug_worker(&sandbox);
    let asked = [
        (&strict, sandbox.send(&strict, "!ask edit a file")),
        (&debug, sent(&sandbox, &debug, &["--request-approval"])),
        // On a worker with a runtime, which is not involved.
        (&strict, Value::Null),
    ];
    for (worker, asked) in asked {
        let asked = if asked.is_null() { sent(&sandbox, worker, &["--request-approval"]) } else { asked };
        let data = cancel(&sandbox, worker, &["--reason", "wrong branch"]);
        assert_eq!(data["turnId"], asked["turnId"]);
        let mut types = types_of(&sandbox, worker, &asked["turnId"]);
        types.retain(|kind| !kind.starts_with("progress."));
        assert_eq!(types[2..], ["approval.requested", "approval.decided", "turn.canceled"]);
        let decided = events_of(&sandbox, worker, "approval.decided").pop().unwrap();
        assert_eq!(
            decided["data"],
            json!({
                "requestId": asked["requestId"], "decision": "cancelled", "optionId": "cancelled",
                "alias": "cancelled", "note": "wrong branch", "by": "cancel",
            })
        );
        let end = sandbox.turn_end(&asked);
        assert_eq!(end["eventId"], data["eventId"]);
        assert_eq!(end["data"], json!({"turnId": asked["turnId"], "reason": "wrong branch"}));
        assert_eq!(pending(&sandbox, worker), Vec::<Value>::new());
    }
    assert_eq!(sandbox.send(&strict, "next")["assistantText"], "next");
    sandbox.finish();
}

#[test]
fn a_running_turn_is_canceled_for_a_reason() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("never");
    let sent = sandbox.send_no_wait(&worker, &gate.directive());
    let data = cancel(&sandbox, &worker, &[]);
    let end = sandbox.turn_end(&sent);
    assert_eq!((&end["type"], &end["eventId"]), (&json!("turn.canceled"), &data["eventId"]));
    assert_eq!(end["data"], json!({"turnId": sent["turnId"], "reason": "canceled by manager"}));
    let _ = sandbox.send_no_wait(&worker, &gate.directive());
    let text = sandbox.command("subagent").args(["cancel", "--worker-id", &worker]).run();
    assert_eq!(text.text(), format!("workerId: {worker}\nstate: idle\n"));
    sandbox.finish();
}

#[test]
fn without_a_turn_there_is_nothing_to_cancel() {
    let (sandbox, worker) = with_debug_worker();
    let not_running = |state: &str, latest: Value| {
        let error = sandbox.run(&["cancel", "--worker-id", &worker]).error("WORKER_NOT_RUNNING");
        let state = format!("={state}");
        assert_shape(
            &error["details"],
            &json!({"workerId": format!("={worker}"), "state": state, "latestEvent": latest}),
        );
    };
    not_running("idle", Value::Null);
    sent(&sandbox, &worker, &["--debug-mode"]);
    not_running("idle", json!({"eventId": "ev", "type": "=turn.completed", "turnId": "turn", "ts": "ts"}));
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    for _ in 0..2 {
        not_running(
            "stopped",
            json!({"eventId": "ev", "type": "=worker.stopped", "turnId": null, "ts": "ts"}),
        );
        sandbox.kill_daemon();
    }
    sandbox.run(&["cancel", "--worker-id", "w_0000000000"]).error("WORKER_NOT_FOUND");
    let usage = sandbox.run(&["cancel"]);
    assert_eq!(usage.status.code(), Some(2), "{usage}");
    sandbox.finish();
}

#[test]
fn a_stop_ends_a_simulated_turn_and_decides_nothing() {
    let (sandbox, worker) = with_debug_worker();
    let asked = sent(&sandbox, &worker, &["--request-approval"]);
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let events = sandbox.events(&worker);
    let after: Vec<Value> = events[3..].iter().map(|event| json!([event["type"], event["data"]])).collect();
    assert_eq!(
        after,
        [
            json!(["approval.canceled", {"requestId": asked["requestId"], "reason": "stopped"}]),
            json!(["turn.canceled", {"turnId": asked["turnId"], "reason": "worker stopped by manager"}]),
            json!(["worker.stopped", {}]),
        ]
    );
    assert_eq!(pending(&sandbox, &worker), Vec::<Value>::new());
    sandbox.finish();
}

#[test]
fn fifty_cancels_end_a_turn_once() {
    let (sandbox, strict) = TestSandbox::with_worker();
    let debug = debug_worker(&sandbox);
    let gate = sandbox.gate("never");
    let turns = [
        (&strict, sandbox.send_no_wait(&strict, &gate.directive())),
        (&debug, sent(&sandbox, &debug, &["--request-approval"])),
    ];
    for (worker, turn) in turns {
        let outputs = at_once(&sandbox, (0..50).map(|_| ["cancel", "--worker-id", worker]));
        let won = outputs.iter().filter(|output| output.status.success());
        let reported: Vec<Value> = won.map(|output| output.data_of("turn.canceled")).collect();
        assert!(!reported.is_empty());
        assert!(
            reported.iter().all(|data| *data == reported[0]),
            "all must report the same end: {reported:#?}"
        );
        assert_eq!(reported[0]["turnId"], turn["turnId"]);
        for output in outputs.iter().filter(|output| !output.status.success()) {
            output.error("WORKER_NOT_RUNNING");
        }
        assert_eq!(events_of(&sandbox, worker, "turn.canceled").len(), 1);
    }
    sandbox.finish();
}

#[test]
fn a_cancel_that_comes_too_late_says_how_the_turn_had_ended() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for round in 0..4 {
        let (gate, touched) = (sandbox.gate(&round.to_string()), format!("touched-{round}"));
        let text = format!("{}\n!touch {}", gate.directive(), sandbox.file_name(&touched));
        let sent = sandbox.send_no_wait(&worker, &text);
        let runtime = sandbox.runtime(&worker);
        // The agent ends its turn while its runtime is stopped.
        runtime.signal(Signal::SIGSTOP);
        gate.open();
        wait_until("the end of the agent's work", PATIENCE, || {
            (sandbox.touches(&touched) == 1).then_some(())
        });
        let canceling = sandbox.subagent(&["cancel", "--worker-id", &worker]).spawn();
        wait_until("the cancel", PATIENCE, || (sandbox.show(&worker)["state"] == "canceling").then_some(()));
        runtime.signal(Signal::SIGCONT);
        let data = canceling.output().data_of("turn.canceled");
        let end = sandbox.turn_end(&sent);
        assert_eq!((&data["eventId"], &data["turnId"]), (&end["eventId"], &sent["turnId"]));
        // The runtime may process either first; both must be reported as they happened.
        let shape = match end["type"].as_str().unwrap() {
            "turn.completed" => json!({
                "workerId": "w", "state": "=idle", "eventId": "ev", "turnId": "turn", "alreadyTerminal": true,
                "terminalEventType": "=turn.completed",
            }),
            _ => json!({"workerId": "w", "state": "=idle", "eventId": "ev", "turnId": "turn"}),
        };
        assert_shape(&data, &shape);
    }
    sandbox.finish();
}
