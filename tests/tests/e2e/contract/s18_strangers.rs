//! Untested agents: omitted values are unknown, additional ones are kept, and neither loses data.

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

/// A world with the hostile agent, which answers these methods as given.
fn answering(answers: &[(&str, Value)], more: &[&str]) -> TestSandbox {
    let texts: Vec<(&str, String)> =
        answers.iter().map(|(method, answer)| (*method, answer.to_string())).collect();
    let flags: Vec<&str> = texts
        .iter()
        .flat_map(|(method, text)| ["--answer", method, text])
        .chain(more.iter().copied())
        .collect();
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &flags);
    sandbox.launcher("agent", agent);
    sandbox.init();
    sandbox
}

#[test]
fn options_of_unknown_kinds_and_forms_can_be_chosen_all_the_same() {
    let options = json!([
        {"id": "depth", "type": "slider", "currentValue": 3, "min": 1},
        {"id": "bare"},
        {"type": "select", "options": []},
        7,
        {"id": "way", "category": "mode", "type": "select", "currentValue": 5, "options": [
            {"group": "g", "options": [{"value": "x"}, {"name": "no value"}]}, {"value": "y"}]},
        {"id": "way", "category": "mode", "type": "boolean"},
    ]);
    let session = json!({"sessionId": "hostile-session", "modes": {"availableModes": "none"}, "models": 7, "configOptions": options});
    let sandbox = answering(&[("session/new", session), ("session/set_config_option", Value::Null)], &[]);
    let flags = ["--mode", "y", "--set", "depth=9", "--set", "bare=any"];
    let start = [&["worker", "start", "--launcher", "agent"][..], &flags].concat();
    let worker = sandbox.run(&start).data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let agent = sandbox.show(&worker)["agent"].take();
    // Values in an unknown form stay unknown.
    assert_eq!((&agent["mode"], &agent["model"]), (&json!("y"), &Value::Null), "{agent}");
    let set = |flag: &str, value: &str| sandbox.run(&["worker", "set", "--worker-id", &worker, flag, value]);
    for (flag, value) in [("--mode", "z"), ("--model", "m"), ("--set", "none=1")] {
        set(flag, value).error("OPTION_NOT_AVAILABLE");
    }
    assert_eq!(set("--mode", "x").data_of("worker.set")["applied"], true);
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "after");
    sandbox.finish();
}

#[test]
fn answers_without_any_field_are_answers() {
    let sandbox = answering(&[("initialize", json!({})), ("session/load", json!({"sessionId": null}))], &[]);
    let worker = sandbox.start("agent");
    let agent = sandbox.show(&worker)["agent"].take();
    for unknown in ["name", "version", "mode", "model", "contextUsed", "contextSize", "cost", "tokens"] {
        assert_eq!(agent[unknown], Value::Null, "{agent}");
    }
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "after");
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(sandbox.show(&worker)["sessionId"], "hostile-session");
    sandbox.finish();
    for nothing in [Value::Null, json!({}), json!({"stopReason": null}), json!({"stopReason": "because"})] {
        let sandbox = answering(&[("session/prompt", nothing.clone())], &[]);
        let worker = sandbox.start("agent");
        let end = sandbox.send(&worker, "hello")["matchedEvent"].take();
        assert_eq!(
            (&end["type"], &end["data"]["stopReason"]),
            (&json!("turn.completed"), &nothing["stopReason"])
        );
        assert_eq!(end["data"].get("usage"), None, "an unknown value must not become 0: {end}");
        sandbox.finish();
    }
}

#[test]
fn what_comes_before_the_session_is_kept_and_hinders_no_start() {
    let cases = [
        "early-updates",
        "id-collision",
        "unasked-response",
        "other-session",
        "invalid-utf8",
        "duplicate-keys",
    ];
    for case in cases {
        let sandbox = answering(&[], &["--at-initialize", case, "--at-session-new", case]);
        let worker = sandbox.start("agent");
        let early = sandbox.events(&worker);
        let before = early.iter().position(|event| event["type"] == "worker.started").unwrap();
        assert!(before > 0, "{case} is lost: {early:?}");
        if case == "early-updates" {
            let said = early.iter().filter(|event| event["data"]["text"] == "too early").count();
            assert_eq!(said, 2, "{early:?}");
        }
        let waited = sandbox.send(&worker, "hello");
        assert_eq!(waited["assistantText"], "after", "early updates must not belong to a turn");
        sandbox.finish();
    }
}

#[test]
fn an_agent_that_opens_another_session_than_it_was_asked_for_is_reported() {
    let capabilities = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let initialize = json!({"protocolVersion": 1, "agentCapabilities": capabilities});
    let other = json!({"sessionId": "another"});
    let sandbox = answering(&[("initialize", initialize), ("session/resume", other)], &[]);
    let worker = sandbox.start("agent");
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    let events = sandbox.events(&worker);
    let restarted = &events.iter().find(|event| event["type"] == "worker.restarted").unwrap()["data"];
    assert_eq!(restarted["contextLost"], true);
    assert!(
        restarted["contextLostReason"].as_str().unwrap().contains("session another instead"),
        "{restarted}"
    );
    assert_eq!(sandbox.show(&worker)["sessionId"], "another");
    let start = ["worker", "start", "--launcher", "agent", "--resume", "wanted"];
    let error = sandbox.run(&start).error("SESSION_NOT_FOUND");
    assert_eq!(error["details"]["openedSessionId"], "another");
    sandbox.finish();
}
