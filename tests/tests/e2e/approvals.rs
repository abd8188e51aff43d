//! Permission requests and cancels from outside.

use serde_json::{Value, json};
use subagent_tests::harness::{On, TestSandbox};

/// Sends `!ask`. Returns the request's id and the data of `turn.waited`.
fn ask(sandbox: &TestSandbox, worker: &str) -> (Value, Value) {
    let waited = sandbox.send(worker, "!ask execute rm -rf build");
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{waited}");
    assert_eq!(waited["state"], "waiting_approval");
    (waited["requestId"].clone(), waited)
}

fn said(sandbox: &TestSandbox, worker: &str) -> Vec<String> {
    let events = sandbox.events(worker);
    let texts = events.iter().filter(|event| event["type"] == "progress.message");
    texts.map(|event| event["data"]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_permission_is_given() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = ask(&sandbox, &worker);
    let asked = &waited["matchedEvent"]["data"];
    assert_eq!(asked["kind"], "tool.call");
    assert!(asked["message"].as_str().unwrap().contains("rm -rf build"), "{asked}");
    let ids: Vec<&Value> = asked["options"].as_array().unwrap().iter().map(|option| &option["id"]).collect();
    assert_eq!(ids, ["allow-once", "allow-always", "reject-once"]);
    let decided = sandbox.approve(&worker, &request, "allow").data_of("approval.decided");
    assert_eq!((&decided["optionId"], &decided["decision"]), (&json!("allow-once"), &json!("allow")));
    assert_eq!(decided["delivery"], "delivered");
    let end = sandbox.turn_end(&waited);
    assert_eq!(end["type"], "turn.completed");
    assert_eq!(said(&sandbox, &worker), ["permission: allow-once"]);
    sandbox.finish();
}

#[test]
fn a_permission_is_denied_and_can_be_named_exactly() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = ask(&sandbox, &worker);
    let decided = sandbox.approve(&worker, &request, "no").data_of("approval.decided");
    assert_eq!(decided["optionId"], "reject-once");
    let _ = sandbox.turn_end(&waited);
    let (request, waited) = ask(&sandbox, &worker);
    let request_id = request.as_str().unwrap();
    let args = ["approve", "--worker-id", &worker, "--request", request_id];
    sandbox.subagent(&args).args(["--decision", "perhaps"]).run().error("INVALID_APPROVAL_DECISION");
    sandbox.subagent(&args).args(["--option-id", "allow"]).run().error("INVALID_APPROVAL_DECISION");
    assert_eq!(sandbox.show(&worker)["state"], "waiting_approval", "this must not decide anything");
    let exact = sandbox.subagent(&args).args(["--option-id", "allow-always", "--note", "why not"]).run();
    assert_eq!(exact.data_of("approval.decided")["optionId"], "allow-always");
    let _ = sandbox.turn_end(&waited);
    assert_eq!(said(&sandbox, &worker), ["permission: reject-once", "permission: allow-always"]);
    let events = sandbox.events(&worker);
    let noted: Vec<&Value> = events.iter().filter(|event| event["data"]["note"] == "why not").collect();
    assert_eq!(noted.len(), 1);
    sandbox.finish();
}

#[test]
fn a_request_is_decided_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = ask(&sandbox, &worker);
    let unknown = sandbox.approve(&worker, &json!("ap_0000000000"), "allow").error("APPROVAL_NOT_FOUND");
    assert_eq!(unknown["details"]["pendingRequestId"], request, "{unknown}");
    // Ten managers at once: one decides, and the others are informed.
    let racing: Vec<_> = (0..10)
        .map(|index| {
            let decision = if index % 2 == 0 { "allow" } else { "deny" };
            let args = ["approve", "--worker-id", &worker, "--request", request.as_str().unwrap()];
            sandbox.subagent(&args).args(["--decision", decision]).spawn()
        })
        .collect();
    let outputs: Vec<_> = racing.into_iter().map(|running| running.output()).collect();
    let winners: Vec<Value> = outputs.iter().filter(|o| o.status.success()).map(|o| o.data()).collect();
    assert_eq!(winners.len(), 1, "{outputs:#?}");
    for output in outputs.iter().filter(|output| !output.status.success()) {
        let code = output.any_error()["code"].clone();
        assert!(code == "APPROVAL_NOT_PENDING" || code == "APPROVAL_NOT_FOUND", "{output}");
    }
    let _ = sandbox.turn_end(&waited);
    assert_eq!(
        said(&sandbox, &worker),
        [format!("permission: {}", winners[0]["optionId"].as_str().unwrap())]
    );
    let late = sandbox.approve(&worker, &request, "allow").any_error();
    assert!(late["code"] == "APPROVAL_NOT_PENDING" || late["code"] == "APPROVAL_NOT_FOUND", "{late}");
    sandbox.finish();
}

#[test]
fn two_requests_are_open_at_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "!ask2 edit two files");
    let first = waited["requestId"].clone();
    let second = sandbox.wait_after(&worker, &waited["matchedEvent"]["eventId"], "approval.requested");
    let second = second["data"]["requestId"].clone();
    assert_ne!(first, second);
    let decided = sandbox.approve(&worker, &second, "deny").data_of("approval.decided");
    assert_eq!(decided["state"], "waiting_approval", "the other one is still open");
    sandbox.approve(&worker, &first, "allow").data_of("approval.decided");
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    assert_eq!(said(&sandbox, &worker), ["permission 2: reject-once", "permission 1: allow-once"]);
    sandbox.finish();
}

#[test]
fn a_cancel_answers_what_is_open() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = ask(&sandbox, &worker);
    let args = ["cancel", "--worker-id", &worker, "--reason", "wrong branch"];
    let canceled = sandbox.run(&args).data_of("turn.canceled");
    assert_eq!((&canceled["turnId"], &canceled["state"]), (&waited["turnId"], &json!("idle")));
    let events = sandbox.events(&worker);
    let decided: Vec<&Value> = events.iter().filter(|event| event["type"] == "approval.decided").collect();
    assert_eq!(decided.len(), 1);
    let data = &decided[0]["data"];
    assert_eq!((&data["requestId"], &data["optionId"]), (&request, &json!("cancelled")));
    assert_eq!(data["note"], "wrong branch");
    let end = events.iter().find(|event| event["type"] == "turn.canceled").unwrap();
    assert_eq!(end["data"]["reason"], "wrong branch");
    let late = sandbox.approve(&worker, &request, "allow").any_error();
    assert!(late["code"] == "APPROVAL_NOT_PENDING" || late["code"] == "APPROVAL_NOT_FOUND", "{late}");
    sandbox.finish();
}

#[test]
fn a_running_turn_is_canceled() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("never");
    let accepted = sandbox.send_no_wait(
        &worker,
        &format!("!say begun\n{}\n!touch {}", gate.directive(), sandbox.file_name("touched")),
    );
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let sending_waits = sandbox
        .subagent(&[
            "wait",
            "--worker-id",
            &worker,
            "--from-event-id",
            accepted["acceptedEventId"].as_str().unwrap(),
        ])
        .spawn();
    let canceled = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(canceled["turnId"], accepted["turnId"]);
    let matched = sending_waits.output().data_of("event.matched");
    assert_eq!(
        (&matched["type"], &matched["data"]["reason"]),
        (&json!("turn.canceled"), &json!("canceled by manager"))
    );
    gate.open();
    assert_eq!(sandbox.send(&worker, "next")["assistantText"], "next");
    assert_eq!(sandbox.touches("touched"), 0, "the canceled turn went on");
    sandbox.finish();
}

#[test]
fn there_is_nothing_to_cancel_when_nothing_runs() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let error = sandbox.run(&["cancel", "--worker-id", &worker]).error("WORKER_NOT_RUNNING");
    assert_eq!((&error["details"]["workerId"], &error["details"]["state"]), (&json!(worker), &json!("idle")));
    sandbox.finish();
}

#[test]
fn an_agent_that_ignores_a_cancel_is_ended_after_the_grace() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let touched = sandbox.file_name("touched");
    let accepted = sandbox.send_no_wait(&worker, &format!("!touch {touched}\n!say begun\n!hang"));
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let old = sandbox.runtime(&worker);
    let canceled = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(canceled["turnId"], accepted["turnId"]);
    assert_eq!(canceled["forced"], true, "{canceled}");
    let session = sandbox.show(&worker)["sessionId"].clone();
    let waited = sandbox.send(&worker, "alive");
    assert_eq!(waited["assistantText"], "alive");
    assert_eq!(waited["startsAgent"], true, "{waited}");
    assert_eq!(sandbox.send(&worker, "alive").get("startsAgent"), None);
    assert_ne!(sandbox.runtime(&worker).pid, old.pid, "the hanging agent was replaced");
    assert_eq!(sandbox.show(&worker)["sessionId"], session);
    assert_eq!(sandbox.touches("touched"), 1, "the prompt was sent again");
    sandbox.finish();
}

#[test]
fn people_are_shown_that_an_agent_was_ended_by_force_and_is_started_again() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!hang");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let human = |args: &[&str]| {
        let screen = sandbox.command("subagent").args(args).at_terminal(200, On::Both).screen();
        screen.lines().join("\n")
    };
    let canceled = human(&["cancel", "--worker-id", &worker]);
    assert!(canceled.contains("ended by force. The next message starts it again."), "{canceled}");
    let watched = human(&["watch", "--worker-id", &worker]);
    assert!(watched.contains("(the agent did not obey and was ended by force)"), "{watched}");
    let sent = human(&["send", "--worker-id", &worker, "--text", "alive"]);
    assert!(sent.contains("The agent is started again for this message."), "{sent}");
    sandbox.finish();
}

#[test]
fn a_slow_agent_may_use_its_grace() {
    let mut sandbox = TestSandbox::new();
    // The cancel arrives while the agent is deaf. That ends within the grace time, even
    // on a slow machine.
    let patient = sandbox.demo_agent(&[]).cancel_grace_seconds(30.0);
    sandbox.launcher("demo", patient);
    sandbox.init();
    let worker = sandbox.start("demo");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!ignore-cancel 3000");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let old = sandbox.runtime(&worker);
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well");
    assert_eq!(sandbox.runtime(&worker).pid, old.pid, "the same agent continues");
    sandbox.finish();
}

#[test]
fn a_stop_ends_an_open_turn_and_its_request() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (request, waited) = ask(&sandbox, &worker);
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let events = sandbox.events(&worker);
    let ends: Vec<&Value> = events
        .iter()
        .filter(|event| event["turnId"] == waited["turnId"] && event["type"] == "turn.canceled")
        .collect();
    assert_eq!(ends.len(), 1, "{events:#?}");
    assert_eq!(ends[0]["data"]["reason"], "worker stopped by manager");
    let closed = events
        .iter()
        .filter(|event| event["type"] == "approval.canceled" && event["data"]["requestId"] == request);
    assert_eq!(closed.count(), 1, "{events:#?}");
    sandbox.approve(&worker, &request, "allow").any_error();
    sandbox.finish();
}
