//! An agent on the official SDK through the whole product: a foreign codec checks ours.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

fn with_sdk_agent() -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    let state = sandbox.file_name("sdk-sessions");
    let agent = sandbox.test_agent("sdk-agent", &["--state", &state]);
    sandbox.launcher("sdk", agent);
    sandbox.init();
    let worker = sandbox.start("sdk");
    (sandbox, worker)
}

#[test]
fn words_permissions_and_cancels_pass_through() {
    let (sandbox, worker) = with_sdk_agent();
    assert_eq!(sandbox.show(&worker)["sessionId"], "sdk-1");
    assert_eq!(sandbox.send(&worker, "hello out there")["assistantText"], "hello out there ");
    for (decision, option) in [("allow", "allow"), ("deny", "reject")] {
        let waited = sandbox.send(&worker, "ask first");
        assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{waited}");
        let decided = sandbox.approve(&worker, &waited["requestId"], decision).data_of("approval.decided");
        assert_eq!(decided["optionId"], option);
        assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
        let events = sandbox.events(&worker);
        let texts: Vec<&Value> = events.iter().map(|event| &event["data"]["text"]).collect();
        assert!(texts.contains(&&json!(format!("permission: {option} "))), "{texts:?}");
    }
    let waited = sandbox.send(&worker, "ask and be canceled");
    let canceled = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(canceled["turnId"], waited["turnId"]);
    let accepted = sandbox.send_no_wait(&worker, "wait");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let canceled = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(canceled["turnId"], accepted["turnId"]);
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well ");
    sandbox.finish();
}

#[test]
fn a_session_is_loaded_into_a_new_process_and_its_replay_is_not_taken_for_output() {
    let (sandbox, worker) = with_sdk_agent();
    let _ = sandbox.send(&worker, "remember this");
    sandbox.kill(&sandbox.runtime(&worker));
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again ");
    assert_eq!(sandbox.show(&worker)["sessionId"], "sdk-1");
    let events = sandbox.events(&worker);
    let restarted = events.iter().find(|event| event["type"] == "worker.restarted").unwrap();
    assert_eq!(
        (&restarted["data"]["session"], &restarted["data"]["contextLost"]),
        (&json!("loaded"), &json!(false))
    );
    let texts: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "progress.message")
        .map(|event| &event["data"]["text"])
        .collect();
    assert_eq!(texts, ["remember ", "this ", "again "]);
    sandbox.finish();
}
