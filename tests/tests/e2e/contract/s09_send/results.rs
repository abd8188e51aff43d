//! The results of a message with and without waiting, and when it is refused.

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::{accepted, waited};

#[test]
fn without_waiting_it_returns_at_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let data = sandbox.send_no_wait(&worker, &gate.directive());
    assert_shape(&data, &accepted());
    assert_eq!((&data["state"], &data["acceptedEventId"]), (&json!("running"), &data["eventId"]));
    let events = sandbox.events(&worker);
    let sent = events.iter().find(|event| event["type"] == "message.sent").unwrap();
    assert_eq!(sent["eventId"], data["acceptedEventId"]);
    let show = sandbox.show(&worker);
    assert_eq!((&show["state"], &show["activeTurnId"]), (&json!("running"), &data["turnId"]));
    gate.open();
    let _ = sandbox.turn_end(&data);
    let text =
        sandbox.command("subagent").args(["send", "--no-wait", "--worker-id", &worker, "--text", "x"]).run();
    let lines: Vec<&str> = text.text().lines().collect();
    assert_eq!((lines[0], lines[2]), (format!("workerId: {worker}").as_str(), "state: running"));
    assert!(lines[1].starts_with("turnId: turn_") && lines.len() == 3, "{text}");
    sandbox.finish();
}

#[test]
fn a_wait_ends_with_the_turn() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let until = "turn.failed, turn.completed";
    let flags =
        ["--wait-until", until, "--wait-timeout-seconds", "30", "--wait-no-progress-timeout-seconds", "20"];
    let data = sandbox.sending(&worker, "!chunks 3 ab\n!say end").args(flags).run().data_of("turn.waited");
    assert_shape(&data, &waited());
    assert_eq!(data["waitUntil"], until, "as given");
    assert_eq!(
        (&data["waitTimeoutSeconds"], &data["waitNoProgressTimeoutSeconds"]),
        (&json!(30.0), &json!(20.0))
    );
    assert_eq!(data["state"], "idle");
    assert_eq!(
        data["matchedEvent"]["data"],
        json!({
            "turnId": data["turnId"], "outcome": "completed", "state": "idle", "stopReason": "end_turn",
        })
    );
    let events = sandbox.events(&worker);
    let said: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "progress.message")
        .map(|event| event["data"]["text"].as_str().unwrap())
        .collect();
    assert!(said.len() > 1, "{said:?}");
    assert_eq!(data["assistantText"], said.concat());
    assert_eq!(
        (&data["lastAssistantMessage"], &data["lastAssistantChunk"]),
        (&json!(said.concat()), &json!("end"))
    );
    let defaults = sandbox.send(&worker, "!usage 1 2");
    assert_shape(&defaults, &waited());
    assert_eq!(
        (&defaults["waitTimeoutSeconds"], &defaults["waitNoProgressTimeoutSeconds"], &defaults["waitUntil"]),
        (&json!(60.0), &json!(0.0), &json!("turn.completed,turn.failed,turn.canceled,approval.requested"))
    );
    for key in ["assistantText", "lastAssistantMessage", "lastAssistantChunk", "requestId"] {
        assert_eq!(defaults[key], Value::Null, "{key}");
    }
    let text = sandbox.command("subagent").args(["send", "--worker-id", &worker, "--text", "x"]).run();
    let lines: Vec<&str> = text.text().lines().collect();
    assert_eq!(lines[2..], ["state: idle", "matchedEvent: turn.completed"]);
    sandbox.finish();
}

#[test]
fn a_wait_ends_with_a_permission_request() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let text = sandbox
        .command("subagent")
        .args(["send", "--worker-id", &worker, "--text", "!ask edit a file"])
        .run();
    let lines: Vec<&str> = text.text().lines().collect();
    assert_eq!(lines[2..4], ["state: waiting_approval", "matchedEvent: approval.requested"]);
    let request = lines[4].strip_prefix("requestId: ").unwrap();
    sandbox.approve(&worker, &json!(request), "allow").data_of("approval.decided");
    let turn = json!({"workerId": worker, "acceptedEventId": sandbox.events(&worker)[0]["eventId"]});
    let _ = sandbox.turn_end(&turn);
    let data = sandbox.send(&worker, "!ask edit a file");
    assert_shape(&data, &waited());
    assert_eq!(data["requestId"], data["matchedEvent"]["data"]["requestId"]);
    sandbox.finish();
}

#[test]
fn history_never_matches_and_a_timeout_leaves_the_turn() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let sending = sandbox.sending(&worker, &gate.directive());
    // The turn.started event of this turn is before the cursor.
    let flags = ["--wait-until", "turn.started,turn.completed", "--wait-timeout-seconds", "0.3"];
    let error = sending.args(flags).run().error("WAIT_TIMEOUT");
    assert_eq!(error["retryable"], true);
    let event = json!({"eventId": "ev", "type": "str", "turnId": "turn?", "ts": "ts"});
    assert_shape(
        &error["details"],
        &json!({
            "workerId": format!("={worker}"), "turnId": "turn", "acceptedEventId": "ev",
            "until": "=turn.started,turn.completed", "timeoutSeconds": 0.3, "noProgressTimeoutSeconds": 0.0,
            "workerState": "=running", "latestEvent": event, "lastMeaningfulEvent": null, "diagnosis": "str",
            "recommendedCommand": "str",
        }),
    );
    let turn = &error["details"]["turnId"];
    assert_eq!(sandbox.show(&worker)["activeTurnId"], *turn, "the turn must continue");
    gate.open();
    assert_eq!(
        sandbox.wait_after(&worker, &error["details"]["acceptedEventId"], "turn_end")["turnId"],
        *turn
    );
    let gate = sandbox.gate("silent");
    let flags = ["--wait-no-progress-timeout-seconds", "0.3"];
    let error = sandbox.sending(&worker, &gate.directive()).args(flags).run().error("WAIT_NO_PROGRESS");
    assert_eq!(error["retryable"], true);
    assert!(
        error["details"]["turnId"].is_string() && error["details"].get("timeoutSeconds").is_none(),
        "{error}"
    );
    gate.open();
    sandbox.finish();
}

#[test]
fn what_the_agent_refuses_is_an_error_and_is_remembered_until_a_turn_goes_well() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let details = sandbox.send_fails(&worker, "begun\n!error -32603 broken inside", "BACKEND_RPC_ERROR");
    assert_shape(
        &details,
        &json!({
            "workerId": format!("={worker}"), "turnId": "turn", "eventId": "ev", "acceptedEventId": "ev",
            "assistantText": "=begun", "method": "=session/prompt",
            "error": {"code": -32603, "message": "=broken inside"},
        }),
    );
    let end = sandbox.turn_end(&details);
    assert_eq!((&end["type"], &end["eventId"]), (&json!("turn.failed"), &details["eventId"]));
    assert_eq!(end["data"]["error"]["code"], "BACKEND_RPC_ERROR");
    let failed = |worker: &str| {
        let last = sandbox.show(worker)["lastError"].clone();
        assert!(last.as_str().is_some_and(|last| last.starts_with("BACKEND_RPC_ERROR")), "{last}");
    };
    failed(&worker);
    let gate = sandbox.gate("next");
    let next = sandbox.send_no_wait(&worker, &gate.directive());
    failed(&worker);
    gate.open();
    let _ = sandbox.turn_end(&next);
    assert_eq!(sandbox.show(&worker)["lastError"], Value::Null);
    sandbox.finish();
}

#[test]
fn a_busy_worker_and_a_stopped_one_are_distinguished() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let busy = |state: &str| {
        let error = sandbox.sending(&worker, "x").run().error("WORKER_BUSY");
        assert_eq!((&error["details"], &error["retryable"]), (&json!({"state": state}), &json!(false)));
    };
    let gate = sandbox.gate("turn");
    let data = sandbox.send_no_wait(&worker, &format!("{}\n!ask edit x", gate.directive()));
    busy("running");
    gate.open();
    let _ = sandbox.wait_after(&worker, &data["acceptedEventId"], "approval.requested");
    let asked =
        sandbox.run(&["worker", "inspect", &worker]).data()["pendingApprovals"][0]["requestId"].clone();
    let error = sandbox.sending(&worker, "x").run().error("WORKER_BUSY");
    assert_eq!(error["details"], json!({"state": "waiting_approval", "pendingRequestId": asked}));
    assert!(error["message"].as_str().unwrap().contains("asks for a permission"), "{error}");
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    for _ in 0..2 {
        for flags in [&[] as &[&str], &["--debug-mode"]] {
            let error = sandbox.sending(&worker, "x").args(flags).run().error("WORKER_STOPPED");
            assert_eq!(error["details"], json!({"workerId": worker, "state": "stopped"}));
        }
        // A daemon that never had an actor for it returns the same.
        sandbox.kill_daemon();
    }
    sandbox.finish();
}

#[test]
fn the_key_of_a_turn_means_one_message_for_ever() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let send = |text: &str, flags: &[&str]| {
        sandbox.sending(&worker, text).args(["--turn-id", "job-7", "--no-wait"]).args(flags).run()
    };
    let first = send("one", &[]).data_of("turn.accepted");
    let _ = sandbox.turn_end(&first);
    assert_eq!(send("one", &[]).data_of("turn.accepted"), first);
    send("two", &[]).error("IDEMPOTENCY_CONFLICT");
    send("one", &["--blocks", "[{\"type\": \"text\", \"text\": \"x\"}]"]).error("IDEMPOTENCY_CONFLICT");
    send("one", &["--debug-mode"]).error("IDEMPOTENCY_CONFLICT");
    send("one", &["--request-approval"]).error("IDEMPOTENCY_CONFLICT");
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(send("one", &[]).data_of("turn.accepted"), first);
    sandbox.kill_daemon();
    assert_eq!(send("one", &[]).data_of("turn.accepted"), first, "also where its actor was never started");
    let sent = sandbox.events(&worker).iter().filter(|event| event["type"] == "message.sent").count();
    assert_eq!(sent, 1);
    sandbox.finish();
}

#[test]
fn a_handle_that_is_not_the_owners_is_refused_also_for_a_stopped_worker() {
    let (mut sandbox, worker) = TestSandbox::with_worker();
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let controller = sandbox.show(&worker)["controllerId"].as_str().unwrap().to_owned();
    sandbox.set_env("SUBAGENT_CTL_ID", controller);
    sandbox.set_env("SUBAGENT_CTL_EPOCH", "99");
    sandbox.set_env("SUBAGENT_CTL_TOKEN", "x".repeat(32));
    sandbox.sending(&worker, "x").run().error("INVALID_CONTROLLER_HANDLE");
    sandbox.run(&["cancel", "--worker-id", &worker]).error("INVALID_CONTROLLER_HANDLE");
    for name in ["SUBAGENT_CTL_ID", "SUBAGENT_CTL_EPOCH", "SUBAGENT_CTL_TOKEN"] {
        sandbox.remove_env(name);
    }
    sandbox.finish();
}
