//! Answers to permission requests of agents, and to simulated ones.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestLauncher, TestSandbox, assert_shape, wait_until};

use super::{events_of, pending};
use crate::contract::at_once;
use crate::contract::s09_send::{debug_worker, sent, types_of, with_debug_worker};

fn decided() -> Value {
    json!({
        "workerId": "w", "requestId": "ap", "decision": "str", "optionId": "str", "alias": "str?", "state": "str",
        "eventId": "ev", "delivery": "=delivered",
    })
}

fn approve(sandbox: &TestSandbox, worker: &str, request: &Value, flags: &[&str]) -> Output {
    let of = ["approve", "--worker-id", worker, "--request", request.as_str().unwrap()];
    sandbox.subagent(&of).args(flags).run()
}

#[test]
fn the_answer_ends_a_simulated_turn() {
    let (sandbox, worker) = with_debug_worker();
    for (decision, option, outcome) in [("allow", "allow", "approved"), ("NO", "deny", "rejected")] {
        let asked = sent(&sandbox, &worker, &["--request-approval"]);
        let request = &asked["requestId"];
        let flags = ["--decision", decision, "--note", "because"];
        let data = approve(&sandbox, &worker, request, &flags).data_of("approval.decided");
        assert_shape(&data, &decided());
        assert_eq!(
            (&data["decision"], &data["optionId"], &data["alias"], &data["state"]),
            (&json!(decision), &json!(option), &json!(option), &json!("idle"))
        );
        let events = sandbox.events(&worker);
        let [answer, end] = &events[events.len() - 2..] else { panic!("{events:?}") };
        assert_eq!((&answer["type"], &end["type"]), (&json!("approval.decided"), &json!("turn.completed")));
        assert_eq!(answer["eventId"], data["eventId"]);
        assert_eq!(
            answer["data"],
            json!({"requestId": request, "decision": decision, "optionId": option, "alias": option, "note": "because", "by": "owner"})
        );
        assert_eq!(end["data"], json!({"turnId": asked["turnId"], "outcome": outcome, "state": "idle"}));
        assert_eq!(pending(&sandbox, &worker), Vec::<Value>::new());
    }
    let asked = sent(&sandbox, &worker, &["--request-approval"]);
    let of = ["approve", "--worker-id", &worker, "--request", asked["requestId"].as_str().unwrap()];
    let text = sandbox.command("subagent").args(of).args(["--decision", "yes"]).run();
    let lines: Vec<&str> = text.text().lines().collect();
    let request = format!("requestId: {}", asked["requestId"].as_str().unwrap());
    assert_eq!(lines, [request.as_str(), "decision: yes", "state: idle"]);
    sandbox.finish();
}

#[test]
fn the_decision_cancelled_cancels_a_simulated_turn() {
    let (sandbox, worker) = with_debug_worker();
    let asked = sent(&sandbox, &worker, &["--request-approval"]);
    let data =
        approve(&sandbox, &worker, &asked["requestId"], &["--decision", "cancelled", "--note", "enough"]);
    let data = data.data_of("approval.decided");
    assert_eq!((&data["optionId"], &data["state"]), (&json!("cancelled"), &json!("idle")));
    let types = types_of(&sandbox, &worker, &asked["turnId"]);
    assert_eq!(types[3..], ["approval.decided", "turn.canceled"]);
    let event = &events_of(&sandbox, &worker, "approval.decided")[0]["data"];
    let decision = json!({"requestId": asked["requestId"], "decision": "cancelled", "optionId": "cancelled",
                          "alias": null, "note": "enough", "by": "owner"});
    assert_eq!(*event, decision, "absent values must be null");
    assert_eq!(sandbox.turn_end(&asked)["data"], json!({"turnId": asked["turnId"], "reason": "enough"}));
    sandbox.finish();
}

#[test]
fn option_id_counts_before_alias_before_decision() {
    let (sandbox, worker) = with_debug_worker();
    let all = ["--option-id", "deny", "--alias", "allow", "--decision", "allow"];
    for (flags, option) in [(&all[..], "deny"), (&all[2..], "allow"), (&all[4..], "allow")] {
        let asked = sent(&sandbox, &worker, &["--request-approval"]);
        let data = approve(&sandbox, &worker, &asked["requestId"], flags).data_of("approval.decided");
        assert_eq!((&data["optionId"], &data["decision"]), (&json!(option), &json!("allow")));
    }
    let asked = sent(&sandbox, &worker, &["--request-approval"]);
    let wrong =
        approve(&sandbox, &worker, &asked["requestId"], &["--option-id", "Allow", "--decision", "allow"]);
    let details = &wrong.error("INVALID_APPROVAL_DECISION")["details"];
    let given = ["decision", "optionId", "alias"].map(|key| &details[key]);
    assert_eq!(given, [&json!("allow"), &json!("Allow"), &Value::Null], "{details}");
    assert!(details.as_object().unwrap().contains_key("alias"), "nulls are kept");
    let none = approve(&sandbox, &worker, &asked["requestId"], &[]).error("INVALID_APPROVAL_DECISION");
    assert_eq!(["decision", "optionId", "alias"].map(|key| &none["details"][key]), [&Value::Null; 3]);
    // Only the alias: the output contains the decision.
    let data =
        approve(&sandbox, &worker, &asked["requestId"], &["--alias", "deny"]).data_of("approval.decided");
    assert_eq!((&data["decision"], &data["alias"]), (&json!("deny"), &json!("deny")));
    sandbox.finish();
}

#[test]
fn words_find_the_option_of_an_agent() {
    let (sandbox, worker) = TestSandbox::with_worker();
    // The demo's options are allow-once, allow-always and reject-once: the kinds
    // decide, once before always.
    for (word, option) in [
        ("approve", "allow-once"),
        ("Accepted", "allow-once"),
        ("y", "allow-once"),
        ("grant", "allow-once"),
        ("rejected", "reject-once"),
        ("n", "reject-once"),
        ("block", "reject-once"),
        ("ALLOW-ALWAYS", "allow-always"),
    ] {
        let asked = sandbox.send(&worker, "!ask edit a file");
        let data = sandbox.approve(&worker, &asked["requestId"], word).data_of("approval.decided");
        assert_shape(&data, &decided());
        assert_eq!((&data["optionId"], &data["decision"]), (&json!(option), &json!(word)));
        let end = sandbox.turn_end(&asked);
        assert_eq!((&end["type"], &end["data"]["outcome"]), (&json!("turn.completed"), &json!("completed")));
    }
    sandbox.finish();
}

#[test]
fn what_is_missing_is_named() {
    let (sandbox, worker) = with_debug_worker();
    let asked = sent(&sandbox, &worker, &["--request-approval"]);
    let request = asked["requestId"].as_str().unwrap();
    let missing = |args: &[&str], word: &str| {
        let error = sandbox.subagent(&["approve"]).args(args).run().error("INVALID_INPUT");
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    };
    missing(&["--request", request, "--decision", "allow"], "worker");
    missing(&["--worker-id", &worker, "--decision", "allow"], "permission request");
    let input = json!({"workerId": worker, "requestId": request, "decision": "deny", "note": "n"});
    let by_input = sandbox.subagent(&["approve", "--input", "-"]).stdin(input.to_string()).run();
    assert_eq!(by_input.data_of("approval.decided")["optionId"], "deny");
    let unknown = ["approve", "--worker-id", "w_0000000000", "--request", request, "--decision", "allow"];
    sandbox.run(&unknown).error("WORKER_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn a_worker_without_a_runtime_says_whether_it_waits() {
    let (sandbox, worker) = with_debug_worker();
    let unknown = json!("ap_0000000000");
    let idle = sandbox.approve(&worker, &unknown, "allow").error("WORKER_NOT_WAITING_APPROVAL");
    assert_eq!(idle["details"], json!({"workerId": worker, "state": "idle"}));
    let asked = sent(&sandbox, &worker, &["--request-approval"]);
    let other = sandbox.approve(&worker, &unknown, "allow").error("APPROVAL_NOT_FOUND");
    assert_eq!(
        other["details"],
        json!({"workerId": worker, "requestId": unknown, "pendingRequestId": asked["requestId"]})
    );
    sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    sandbox.approve(&worker, &asked["requestId"], "allow").error("WORKER_NOT_WAITING_APPROVAL");
    let second = sent(&sandbox, &worker, &["--request-approval"]);
    let late = sandbox.approve(&worker, &asked["requestId"], "allow").error("APPROVAL_NOT_PENDING");
    let request = format!("={}", asked["requestId"].as_str().unwrap());
    let owner = json!({"by": "=owner", "at": "ts", "decision": "=allow"});
    assert_shape(
        &late["details"],
        &json!({"requestId": request, "status": "=delivered", "decidedBy": owner}),
    );
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let stopped =
        sandbox.approve(&worker, &second["requestId"], "allow").error("WORKER_NOT_WAITING_APPROVAL");
    assert_eq!(stopped["details"], json!({"workerId": worker, "state": "stopped"}));
    sandbox.finish();
}

#[test]
fn a_worker_with_a_runtime_is_asked_for_the_request_alone() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let unknown = json!("ap_0000000000");
    let idle = sandbox.approve(&worker, &unknown, "allow").error("APPROVAL_NOT_FOUND");
    assert_eq!(idle["details"], json!({"workerId": worker, "requestId": unknown}));
    let asked = sandbox.send(&worker, "!ask edit a file");
    let other = sandbox.approve(&worker, &unknown, "allow").error("APPROVAL_NOT_FOUND");
    assert_eq!(other["details"]["pendingRequestId"], asked["requestId"]);
    sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    let _ = sandbox.turn_end(&asked);
    let late = sandbox.approve(&worker, &asked["requestId"], "allow").error("APPROVAL_NOT_PENDING");
    let request = format!("={}", asked["requestId"].as_str().unwrap());
    let owner = json!({"by": "=owner", "at": "ts", "decision": "=allow"});
    assert_shape(
        &late["details"],
        &json!({"requestId": request, "status": "=delivered", "decidedBy": owner}),
    );
    sandbox.finish();
}

#[test]
fn approve_returns_after_the_decision_and_not_at_the_end_of_the_turn() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("end");
    let asked = sandbox.send(&worker, &format!("!ask edit one\n!ask edit two\n{}", gate.directive()));
    let data = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    let events = events_of(&sandbox, &worker, "approval.decided");
    assert_eq!((events.len(), &events[0]["eventId"]), (1, &data["eventId"]));
    let next = sandbox.wait_after(&worker, &data["eventId"], "approval.requested");
    let data = sandbox.approve(&worker, &next["data"]["requestId"], "deny").data_of("approval.decided");
    assert_eq!(data["state"], "running");
    assert_eq!(pending(&sandbox, &worker), Vec::<Value>::new());
    gate.open();
    assert_eq!(sandbox.turn_end(&asked)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn of_fifty_answers_one_counts() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let debug = debug_worker(&sandbox);
    let strict = sandbox.send(&worker, "!ask edit a file");
    let simulated = sent(&sandbox, &debug, &["--request-approval"]);
    for (worker, asked) in [(&worker, strict), (&debug, simulated)] {
        let request = asked["requestId"].as_str().unwrap();
        let words = ["allow", "deny"];
        let commands = (0..50).map(|index| {
            ["approve", "--worker-id", worker, "--request", request, "--decision", words[index % 2]]
        });
        let outputs = at_once(&sandbox, commands);
        let (won, lost): (Vec<_>, Vec<_>) = outputs.iter().partition(|output| output.status.success());
        assert_eq!(won.len(), 1, "{won:#?}");
        for output in lost {
            let code = output.any_error()["code"].clone();
            // Without a runtime, the state is checked first.
            let over = worker == &debug && code == "WORKER_NOT_WAITING_APPROVAL";
            assert!(code == "APPROVAL_NOT_PENDING" || over, "{output}");
        }
        assert_eq!(sandbox.turn_end(&asked)["type"], "turn.completed");
        let decided = events_of(&sandbox, worker, "approval.decided");
        assert_eq!(decided.len(), 1);
        assert_eq!(decided[0]["data"]["optionId"], won[0].data()["optionId"]);
    }
    sandbox.finish();
}

/// Requests a permission as soon as it has a session, before any prompt, and reports the answer.
const ASKS_TOO_EARLY: &str = r#"
while read -r line; do
    id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1}}' ;;
    *'"session/new"'*)
        echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s"}}'
        echo '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"kind":"edit"}}}' ;;
    *'"session/prompt"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"stopReason":"end_turn"}}' ;;
    *'"selected"'*) echo answered > answered ;;
    esac
done
"#;

#[test]
fn what_is_asked_outside_of_a_turn_can_be_answered_after_the_next_one() {
    let mut sandbox = TestSandbox::new();
    std::fs::write(sandbox.file("agent.sh"), ASKS_TOO_EARLY).unwrap();
    sandbox.launcher("early", TestLauncher::new("sh", [sandbox.file_name("agent.sh")]));
    sandbox.init();
    let worker = sandbox.start("early");
    let wait = ["wait", "--worker-id", &worker, "--include-history", "--until", "approval.requested"];
    let asked = sandbox.run(&wait).data_of("event.matched");
    assert_eq!(asked.get("turnId"), None, "{asked}");
    let request = &asked["data"]["requestId"];
    for _ in 0..2 {
        assert_eq!(sandbox.send(&worker, "x")["matchedEvent"]["type"], "turn.completed");
        assert_eq!(pending(&sandbox, &worker)[0]["requestId"], *request);
    }
    // A restarted daemon knows it too.
    sandbox.kill_daemon();
    let decided = sandbox.approve(&worker, request, "allow").data_of("approval.decided");
    assert_shape(&decided, &self::decided());
    let events = events_of(&sandbox, &worker, "approval.decided");
    assert_eq!(events[0].get("turnId"), None, "{events:?}");
    wait_until("the answer", Duration::from_secs(10), || {
        sandbox.workspace().join("answered").exists().then_some(())
    });
    sandbox.finish();
}
