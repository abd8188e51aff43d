//! Agents with unusual behavior. Invalid wire formats are in `bad_input.rs`.

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

/// A sandbox with one worker of an outdated agent. It reports no capabilities, nests its updates,
/// answers a load with null and a cancel with a response without an id. It names its first session
/// `session-1` in every process.
fn old() -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--no-capabilities"]);
    sandbox.launcher("old", agent);
    sandbox.init();
    let worker = sandbox.start("old");
    (sandbox, worker)
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn an_agent_without_capabilities_is_spoken_to_and_its_nested_updates_are_its_text() {
    let (sandbox, worker) = old();
    assert_eq!(sandbox.show(&worker)["sessionId"], "session-1");
    let waited = sandbox.send(&worker, "!chunks 2");
    assert_eq!(waited["assistantText"], "chunk 0 chunk 1 ");
    assert_eq!(waited["lastAssistantChunk"], "chunk 1 ");
    assert_eq!(waited["matchedEvent"]["data"]["stopReason"], "end_turn");
    sandbox.finish();
}

#[test]
fn two_workers_may_have_the_same_session_id() {
    let (sandbox, first) = old();
    let second = sandbox.start("old");
    assert_eq!(sandbox.show(&first)["sessionId"], sandbox.show(&second)["sessionId"]);
    assert_eq!(sandbox.send(&first, "one")["assistantText"], "one");
    assert_eq!(sandbox.send(&second, "two")["assistantText"], "two");
    sandbox.finish();
}

#[test]
fn a_killed_runtime_is_replaced_by_the_next_send_with_the_same_session() {
    let (sandbox, worker) = old();
    let before = sandbox.show(&worker);
    sandbox.kill(&sandbox.runtime(&worker));
    let waited = sandbox.send(&worker, "again");
    assert_eq!((&waited["assistantText"], &waited["state"]), (&json!("again"), &json!("idle")));
    let after = sandbox.show(&worker);
    assert_eq!(after["sessionId"], before["sessionId"]);
    assert_ne!(after["runtimePid"], before["runtimePid"]);
    assert!(after["runtimePid"].is_i64());
    let restarted: Vec<Value> =
        sandbox.events(&worker).into_iter().filter(|event| event["type"] == "worker.restarted").collect();
    assert_shape(
        &json!(restarted[0]["data"]),
        &json!({"session": "=loaded", "contextLost": false, "sessionId!": "str"}),
    );
    sandbox.finish();
}

#[test]
fn a_cancel_that_is_answered_without_an_id_is_a_cancel() {
    let (sandbox, worker) = old();
    let gate = sandbox.gate("never");
    let accepted = sandbox.send_no_wait(&worker, &format!("begun\n{}", gate.directive()));
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let canceled = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(canceled["turnId"], accepted["turnId"]);
    assert_eq!(sandbox.send(&worker, "on")["assistantText"], "on");
    sandbox.finish();
}

#[test]
fn permissions_with_unknown_kinds_or_a_bare_tool_call_can_be_answered() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]);
    sandbox.launcher("hostile", agent);
    sandbox.init();
    let worker = sandbox.start("hostile");
    for case in ["permission-unknown-kinds", "permission-bare-tool-call", "permission-no-options"] {
        let asked = sandbox.send(&worker, &format!("hostile: {case}"));
        assert_eq!(asked["matchedEvent"]["type"], "approval.requested", "{case}: {asked}");
        let data = &asked["matchedEvent"]["data"];
        let option = json!({"id": "str", "alias": "str", "label": "str", "kind!": "str"});
        assert_shape(
            data,
            &json!({"requestId": "ap", "kind": "=tool.call", "message": "str", "options": [option],
                    "toolCallId!": "str", "title!": "str", "toolKind!": "str", "rawInput!": "any", "command!": "str", "content!": "list", "locations!": "list"}),
        );
        let id = data["options"][0]["id"].as_str().unwrap();
        let request = asked["requestId"].as_str().unwrap();
        let args = ["approve", "--worker-id", &worker, "--request", request, "--option-id", id];
        let _ = sandbox.run(&args).data_of("approval.decided");
        assert_eq!(sandbox.turn_end(&asked)["type"], "turn.completed", "{case}");
    }
    sandbox.finish();
}

#[test]
fn a_permission_request_that_only_names_a_tool_call_has_its_earlier_report() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]);
    sandbox.launcher("hostile", agent);
    sandbox.init();
    let worker = sandbox.start("hostile");
    let asked = sandbox.send(&worker, "hostile: permission-of-a-told-call");
    let data = &asked["matchedEvent"]["data"];
    // The request's own values override earlier ones.
    assert_eq!(data["message"], "Permission requested for execute: mcp.echo", "{data}");
    assert_eq!(data["rawInput"], json!({"text": "told before"}), "{data}");
    sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    assert_eq!(sandbox.turn_end(&asked)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn noise_unknown_methods_and_unknown_kinds_are_kept_and_end_nothing() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "before\n!noise\n!unknown\nafter");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed");
    let text = waited["assistantText"].as_str().unwrap();
    assert!(text.starts_with("before") && text.ends_with("after"), "{text}");
    assert!(text.contains("unknown request: -32601"), "{text}");
    let events = sandbox.events(&worker);
    let updates = types(&events).into_iter().filter(|found| *found == "progress.update").count();
    assert!(updates >= 3, "{:?}", types(&events));
    sandbox.finish();
}

#[test]
fn a_line_of_a_mebibyte_is_text_like_any_other() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "!line 1048576\nafter");
    let text = waited["assistantText"].as_str().unwrap();
    assert!(text.len() > 1_000_000 && text.ends_with("after"), "{} bytes", text.len());
    sandbox.finish();
}
