//! Errors of agents: the details of a failed start and of a failed turn.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::script;

/// The details of every failed start, as a pattern.
pub(super) fn failed_start() -> Value {
    json!({
        "workerId": "w", "command": ["str"], "socketPath": "str", "logPath": "str", "error": "str",
        "reasonCategory": "str", "recommendedAction": "str", "logTail": "str", "exitCode!": "int", "errno!": "int",
    })
}

#[test]
fn a_start_that_fails_reports_the_last_words_of_this_run_and_may_be_tried_again() {
    let mut sandbox = TestSandbox::new();
    // Each run prints something else.
    let count = sandbox.file_name("count");
    sandbox.launcher("broken", script(&format!("echo run >> {count}; wc -l < {count} >&2; exit 3")));
    sandbox.launcher("gone", script("exit 127"));
    sandbox.init();
    let error = sandbox.run(&["worker", "start", "--launcher", "broken"]).error("BACKEND_UNAVAILABLE");
    assert_eq!((&error["retryable"], &error["details"]["exitCode"]), (&json!(true), &json!(3)), "{error}");
    assert_shape(&error["details"], &failed_start());
    assert_eq!(error["details"]["logTail"].as_str().unwrap().trim(), "1");
    let worker = error["details"]["workerId"].as_str().unwrap();
    let again = sandbox.run(&["worker", "restart", worker]).error("BACKEND_UNAVAILABLE");
    assert_eq!(again["details"]["logTail"].as_str().unwrap().trim(), "2", "not the output of an earlier run");
    let log = fs::read_to_string(error["details"]["logPath"].as_str().unwrap()).unwrap();
    assert!(log.contains("1\n") && log.contains("2\n"), "{log}");
    let error = sandbox.run(&["worker", "start", "--launcher", "gone"]).error("BACKEND_LAUNCHER");
    assert_shape(&error["details"], &failed_start());
    assert_eq!(error["details"]["reasonCategory"], "launcher");
    let gone = error["details"]["workerId"].as_str().unwrap();
    let remove = format!("subagent worker rm --force {gone}");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains(&remove), "{error}");
    sandbox.run(&["worker", "rm", "--force", gone]).data_of("worker.removed");
    assert_eq!((&error["retryable"], &error["details"]["exitCode"]), (&json!(false), &json!(127)));
    sandbox.finish();
}

#[test]
fn a_runtime_that_cannot_begin_reports_why() {
    for (errno, code, said) in
        [(13, "BACKEND_RUNTIME_ERROR", "Permission denied"), (28, "STORAGE_FULL", "No space left")]
    {
        let mut sandbox = TestSandbox::new();
        sandbox.set_env("SUBAGENT_FAILPOINTS", format!("runtime_socket.before_bind=error({errno})"));
        sandbox.init();
        let error = sandbox.run(&["worker", "start", "--launcher", "demo"]).error(code);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(".sock") && message.contains(said), "{message}");
        sandbox.finish();
    }
}

#[test]
fn an_agent_that_is_not_logged_in_says_so_like_every_failed_start() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--needs-auth"]);
    sandbox.launcher("guest", agent);
    sandbox.init();
    let error = sandbox.run(&["worker", "start", "--launcher", "guest"]).error("BACKEND_RPC_ERROR");
    let mut shape = failed_start();
    shape["method"] = "=session/new".into();
    shape["authMethods"] = json!(["str"]);
    shape["error"] = "object".into();
    shape["reasonCategory"] = "=auth".into();
    shape["recommendedCommand"] = "=subagent launcher login guest".into();
    assert_shape(&error["details"], &shape);
    sandbox.finish();
}

#[test]
fn an_agent_that_dies_in_a_turn_may_have_worked_on_it() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let details = sandbox.send_fails(&worker, "!stderr one\n!stderr two\n!kill-self", "BACKEND_UNAVAILABLE");
    assert_shape(
        &details,
        &json!({
            "workerId": "w", "turnId": "turn", "eventId": "ev", "acceptedEventId": "ev", "method": "=session/prompt",
            "signal": 9, "stderrTail": ["str"], "dispatched": "=maybe", "recommendedAction": "str",
        }),
    );
    assert_eq!(details["stderrTail"], json!(["one", "two"]));
    assert!(details["recommendedAction"].as_str().unwrap().starts_with("Look at what was done"), "{details}");
    let end = sandbox.turn_end(&details);
    assert_eq!(end["data"]["error"]["retryable"], false, "{end}");
    sandbox.finish();
}

#[test]
fn an_answer_whose_agent_died_before_it_was_undelivered() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let asked = sandbox.send(&worker, "!ask edit x");
    let runtime = sandbox.runtime(&worker);
    runtime.signal(Signal::SIGSTOP);
    let decided = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    assert_eq!(decided["delivery"], "pending");
    sandbox.kill(&runtime);
    assert_eq!(sandbox.turn_end(&asked)["data"]["error"]["code"], "RUNTIME_LOST");
    let late = sandbox.approve(&worker, &asked["requestId"], "allow").error("APPROVAL_NOT_PENDING");
    assert_eq!(late["details"]["status"], "undelivered", "{late}");
    sandbox.finish();
}

#[test]
fn an_agent_that_says_it_cannot_load_is_not_asked_to() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &["--no-load"]);
    sandbox.launcher("forgetful", agent);
    sandbox.init();
    let worker = sandbox.start("forgetful");
    let _ = sandbox.run(&["worker", "restart", &worker]).data();
    let events = sandbox.events(&worker);
    let again = events.iter().find(|event| event["type"] == "worker.restarted").unwrap();
    assert_eq!((&again["data"]["session"], &again["data"]["contextLost"]), (&json!("new"), &json!(true)));
    assert!(events.iter().all(|event| event["data"]["method"] != "session.load"), "{events:?}");
    sandbox.finish();
}

#[test]
fn the_launchers_limit_ends_a_turn() {
    let mut sandbox = TestSandbox::new();
    let launcher = sandbox.demo_agent(&[]).turn_seconds(0.3);
    sandbox.launcher("hasty", launcher);
    sandbox.init();
    let worker = sandbox.start("hasty");
    let gate = sandbox.gate("never");
    let details = sandbox.send_fails(&worker, &gate.directive(), "BACKEND_TIMEOUT");
    assert_eq!(
        (&details["timeoutSeconds"], &details["method"], &details["dispatched"]),
        (&json!(0.3), &json!("session/prompt"), &json!("maybe"))
    );
    gate.open();
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    sandbox.finish();
}
