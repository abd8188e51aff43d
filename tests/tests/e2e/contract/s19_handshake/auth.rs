//! Workers whose agent requires a login: at its start, later, and with a login
//! method in the launcher.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox};

const LOGIN: [&str; 3] = ["launcher", "login", "agent"];
const COMMAND: &str = "subagent launcher login agent";

/// A world with the demo agent, which requires a login.
fn guest(more: impl FnOnce(TestLauncher) -> TestLauncher) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--needs-auth"]);
    sandbox.launcher("agent", more(agent));
    sandbox.init();
    sandbox
}

/// Makes the login invalid.
fn expire(sandbox: &TestSandbox) {
    fs::remove_file(sandbox.file("sessions").join("logged-in")).unwrap();
}

/// Returns the data of the last event of a type.
fn last(sandbox: &TestSandbox, worker: &str, kind: &str) -> Value {
    let mut events = sandbox.events(worker).into_iter().rev();
    events.find(|event| event["type"] == kind).map(|mut event| event["data"].take()).unwrap_or_default()
}

#[test]
fn a_worker_goes_on_after_a_login() {
    let sandbox = guest(|agent| agent);
    let error = sandbox.run(&["worker", "start", "--launcher", "agent"]).error("BACKEND_RPC_ERROR");
    assert_eq!(error["details"]["recommendedCommand"], COMMAND);
    let worker = error["details"]["workerId"].as_str().unwrap();
    // The message is not lost: the error stays the same until the login.
    assert_eq!(sandbox.send_fails(worker, "hello", "BACKEND_RPC_ERROR")["recommendedCommand"], COMMAND);
    let _ = sandbox.run(&LOGIN).data_of("launcher.login");
    assert_eq!(sandbox.send(worker, "hello")["assistantText"], "hello");
    sandbox.finish();
}

#[test]
fn a_login_that_has_expired_in_the_middle_loses_neither_session_nor_context() {
    let sandbox = guest(|agent| agent);
    let _ = sandbox.run(&LOGIN).data_of("launcher.login");
    let worker = sandbox.start("agent");
    let _ = sandbox.send(&worker, "hello");
    let session = sandbox.show(&worker)["sessionId"].clone();
    expire(&sandbox);
    let details = sandbox.send_fails(&worker, "!error -32000 Login expired", "BACKEND_RPC_ERROR");
    assert_eq!(
        (&details["recommendedCommand"], &details["method"]),
        (&json!(COMMAND), &json!("session/prompt"))
    );
    assert!(details["recommendedAction"].as_str().unwrap().contains("send the message again"), "{details}");
    // Without the login the newly started agent opens no session, and the old one is not replaced.
    let details = sandbox.send_fails(&worker, "again", "BACKEND_RPC_ERROR");
    assert_eq!(
        (&details["recommendedCommand"], &details["method"]),
        (&json!(COMMAND), &json!("session/resume"))
    );
    // The same for every repetition.
    for _ in 0..2 {
        let _ = sandbox.send_fails(&worker, "again", "BACKEND_RPC_ERROR");
    }
    let _ = sandbox.run(&LOGIN).data_of("launcher.login");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert_eq!(
        last(&sandbox, &worker, "worker.restarted"),
        json!({"session": "resumed", "contextLost": false})
    );
    assert_eq!(sandbox.show(&worker)["sessionId"], session);
    sandbox.finish();
}

#[test]
fn the_way_that_the_launcher_names_is_gone_by_the_agent_itself() {
    let sandbox = guest(|agent| agent.key("authMethod", json!("demo-login")));
    let worker = sandbox.start("agent");
    let runtime = sandbox.runtime(&worker);
    // In a turn too, but the message is not sent twice.
    let output = sandbox.sending(&worker, "!error -32000 Login expired").run();
    let error = output.error("BACKEND_RPC_ERROR");
    assert_eq!((&error["retryable"], &error["details"]["loggedIn"]), (&json!(true), &json!(true)), "{error}");
    assert_eq!(error["details"]["recommendedCommand"], Value::Null);
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid, "it must not be restarted");
    assert!(sandbox.run(&LOGIN).data_of("launcher.login")["loggedIn"] == true);
    sandbox.finish();
}

#[test]
fn a_way_that_the_agent_cannot_go_by_itself_is_reported() {
    let sandbox = guest(|agent| agent.key("authMethod", json!("telepathy")));
    let error = sandbox.run(&["worker", "start", "--launcher", "agent"]).error("BACKEND_RPC_ERROR");
    assert_eq!(error["details"]["authMethod"], "telepathy");
    assert!(
        error["details"]["recommendedAction"].as_str().unwrap().contains("authMethod telepathy"),
        "{error}"
    );
    // `launcher login` uses the same method unless another one is named.
    let error = sandbox.run(&LOGIN).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["authMethods"][0]["id"], "demo-login");
    let login = [&LOGIN[..], &["--method", "demo-login"]].concat();
    let _ = sandbox.run(&login).data_of("launcher.login");
    sandbox.finish();
}
