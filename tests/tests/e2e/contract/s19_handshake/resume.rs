//! `worker start --resume`, and sessions that cannot be restored because the agent does not answer.

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::{hurried, scripted};

/// Returns the `initialize` response of an agent with these capabilities.
fn offers(capabilities: &Value) -> String {
    json!({"protocolVersion": 1, "agentCapabilities": capabilities}).to_string()
}

/// Returns the data of all events of a type.
fn of_type(sandbox: &TestSandbox, worker: &str, kind: &str) -> Vec<Value> {
    let events = sandbox.events(worker).into_iter().filter(|event| event["type"] == kind);
    events.map(|mut event| event["data"].take()).collect()
}

#[test]
fn a_worker_takes_up_a_session_that_the_agent_has_kept() {
    let (sandbox, first) = TestSandbox::with_worker();
    let session = sandbox.show(&first)["sessionId"].as_str().unwrap().to_owned();
    let _ = sandbox.send(&first, "hello");
    let _ = sandbox.run(&["worker", "stop", &first]).data_of("worker.stopped");
    let args = ["worker", "start", "--launcher", "demo", "--resume", &session];
    let started = sandbox.run(&args).data_of("worker.started");
    assert_eq!((&started["sessionId"], &started["state"]), (&json!(session), &json!("idle")));
    let worker = started["workerId"].as_str().unwrap();
    // Its first session is its start, however it was opened.
    assert_eq!(
        of_type(&sandbox, worker, "worker.started"),
        [json!({"session": "resumed", "contextLost": false})]
    );
    let _ = sandbox.send(worker, "go on");
    let _ = sandbox.run(&["worker", "restart", worker]).data_of("worker.restarted");
    assert_eq!(sandbox.show(worker)["sessionId"], session);
    let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    let input = json!({"resume": session}).to_string();
    let again =
        sandbox.subagent(&["worker", "start", "--input", "-"]).stdin(input).run().data_of("worker.started");
    assert_eq!(again["sessionId"], session);
    sandbox.finish();
}

#[test]
fn a_session_is_loaded_where_it_cannot_be_resumed() {
    let mut sandbox = TestSandbox::new();
    sandbox.init();
    let folder = sandbox.file_name("sdk");
    let agent = sandbox.test_agent("sdk-agent", &["--state", &folder]);
    sandbox.launcher("agent", agent);
    let first = sandbox.start("agent");
    let session = sandbox.show(&first)["sessionId"].as_str().unwrap().to_owned();
    let _ = sandbox.send(&first, "hello");
    let _ = sandbox.run(&["worker", "stop", &first]).data_of("worker.stopped");
    let args = ["worker", "start", "--launcher", "agent", "--resume", &session];
    let worker = sandbox.run(&args).data_of("worker.started");
    let worker = worker["workerId"].as_str().unwrap();
    assert_eq!(of_type(&sandbox, worker, "worker.started")[0]["session"], "loaded");
    let error = sandbox
        .run(&["worker", "start", "--launcher", "agent", "--resume", "sdk-99"])
        .error("SESSION_NOT_FOUND");
    assert_eq!(error["details"]["sessionId"], "sdk-99");
    sandbox.finish();
}

#[test]
fn a_session_that_the_agent_does_not_know_is_never_silently_another_one() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let start = ["worker", "start", "--launcher", "demo", "--resume"];
    let error = sandbox.run(&[&start[..], &["demo-0000"]].concat()).error("SESSION_NOT_FOUND");
    assert_eq!(error["details"]["sessionId"], "demo-0000");
    let worker = error["details"]["workerId"].as_str().unwrap();
    assert_eq!(sandbox.show(worker)["state"], "error");
    // A retry does the same again.
    sandbox.run(&["worker", "restart", worker]).error("SESSION_NOT_FOUND");
    sandbox.sending(worker, "hello").run().error("SESSION_NOT_FOUND");
    assert!(of_type(&sandbox, worker, "worker.started").is_empty());
    // An empty id counts as absent, as everywhere.
    assert!(sandbox.run(&[&start[..], &[""]].concat()).data_of("worker.started")["sessionId"].is_string());
    for wrong in
        [&[&start[..], &["s", "--debug-mode"]].concat(), &[&start[..], &[&*"x".repeat(5000)]].concat()]
    {
        sandbox.run(wrong).error("INVALID_ARGUMENT");
    }
    sandbox.finish();
}

#[test]
fn a_session_that_another_worker_has_is_not_taken_up() {
    let (mut sandbox, first) = TestSandbox::with_worker();
    let session = sandbox.show(&first)["sessionId"].as_str().unwrap().to_owned();
    let resume =
        |launcher: &str| ["worker", "start", "--launcher", launcher, "--resume", &session].map(str::to_owned);
    let run = |sandbox: &TestSandbox, launcher: &str| {
        sandbox.run(&resume(launcher).iter().map(String::as_str).collect::<Vec<_>>())
    };
    let error = run(&sandbox, "demo").error("SESSION_IN_USE");
    let details = &error["details"];
    assert_eq!((&details["workerId"], &details["sessionId"]), (&json!(first), &json!(session)), "{error}");
    assert!(error["message"].as_str().unwrap().contains(&first), "{error}");
    // Nor while its agent is gone: the agent resumes the session with the next message.
    let runtime = sandbox.runtime(&first);
    sandbox.kill(&runtime);
    run(&sandbox, "demo").error("SESSION_IN_USE");
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(listed["count"], 1, "no process of the attempts may be left");
    // Another agent may have a session with the same id.
    let other = sandbox.demo_agent(&["--slow-start", "0"]);
    sandbox.launcher("other", other);
    let _ = run(&sandbox, "other").data_of("worker.started");
    let _ = sandbox.run(&["worker", "stop", &first]).data_of("worker.stopped");
    let _ = run(&sandbox, "demo").data_of("worker.started");
    sandbox.finish();
}

#[test]
fn an_agent_that_keeps_no_sessions_says_so() {
    let sandbox = scripted(&["--no-load"]);
    sandbox.init();
    let error = sandbox
        .run(&["worker", "start", "--launcher", "agent", "--resume", "s"])
        .error("AGENT_METHOD_UNSUPPORTED");
    assert_eq!(error["details"]["method"], "session/resume");
    sandbox.finish();
}

#[test]
fn a_session_whose_agent_hangs_is_given_up_at_the_next_start() {
    let mut sandbox = TestSandbox::new();
    sandbox.init();
    let initialize = offers(&json!({"loadSession": true}));
    let flags = ["--answer", "initialize", &initialize, "--hang", "session/load"];
    let agent = sandbox.test_agent("hostile-agent", &flags).startup_seconds(3.0);
    sandbox.launcher("agent", agent);
    let worker = sandbox.start("agent");
    let error = sandbox.run(&["worker", "restart", &worker]).error("BACKEND_TIMEOUT");
    assert_eq!(error["details"]["phase"], "session/load");
    // It still has its session; the next start works without it.
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    let expected = json!({
        "session": "new", "contextLost": true, "contextLostReason": "session/load: no answer within 1 s",
    });
    assert_eq!(of_type(&sandbox, &worker, "worker.restarted"), [expected]);
    // The start after that is not affected.
    sandbox.run(&["worker", "restart", &worker]).error("BACKEND_TIMEOUT");
    sandbox.finish();
}

#[test]
fn a_session_whose_agent_dies_twice_is_given_up_then() {
    let mut sandbox = TestSandbox::new();
    sandbox.init();
    let agent = sandbox.test_agent("hostile-agent", &["--die", "session/load"]);
    sandbox.launcher("agent", agent);
    let worker = sandbox.start("agent");
    for _ in 0..2 {
        let error = sandbox.run(&["worker", "restart", &worker]).error("BACKEND_UNAVAILABLE");
        assert_eq!(error["details"]["phase"], "session/load");
    }
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    let restarted = of_type(&sandbox, &worker, "worker.restarted").pop().unwrap();
    assert_eq!((&restarted["session"], &restarted["contextLost"]), (&json!("new"), &json!(true)));
    let reason = restarted["contextLostReason"].as_str().unwrap();
    assert_eq!(reason.matches("exit status 3").count(), 2, "{reason}");
    sandbox.finish();
}

#[test]
fn each_phase_of_a_start_may_have_a_deadline_of_its_own() {
    let mut sandbox = TestSandbox::new();
    sandbox.init();
    for (method, phase) in [("initialize", "initialize"), ("session/new", "session/new")] {
        let agent = sandbox.test_agent("hostile-agent", &["--hang", method]).phase_seconds(1.0);
        sandbox.launcher("agent", agent);
        let error = sandbox.run(&["worker", "start", "--launcher", "agent"]).error("BACKEND_TIMEOUT");
        assert_eq!(
            (&error["details"]["phase"], &error["details"]["timeoutSeconds"]),
            (&json!(phase), &json!(1.0))
        );
        let worker = error["details"]["workerId"].as_str().unwrap();
        let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    }
    // A limit that suits the whole start also suits one phase.
    let agent = hurried(sandbox.test_agent("hostile-agent", &["--hang", "initialize"])).phase_seconds(20.0);
    sandbox.launcher("agent", agent);
    sandbox.run(&["worker", "start", "--launcher", "agent"]).error("BACKEND_TIMEOUT");
    sandbox.finish();
}

#[test]
fn an_agent_that_wants_a_login_names_the_command_that_logs_in() {
    let mut sandbox = TestSandbox::new();
    sandbox.init();
    let agent = sandbox.demo_agent(&["--needs-auth"]);
    sandbox.launcher("agent", agent);
    let error = sandbox.run(&["worker", "start", "--launcher", "agent"]).error("BACKEND_RPC_ERROR");
    assert_eq!(error["details"]["recommendedCommand"], "subagent launcher login agent");
    sandbox.finish();
}
