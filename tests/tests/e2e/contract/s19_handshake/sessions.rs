//! The commands `session list` and `session delete`.

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::{nothing_left, scripted};

const LIST: [&str; 4] = ["session", "list", "--launcher", "agent"];

fn offers(what: &Value) -> String {
    json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": what}}).to_string()
}

#[test]
fn the_sessions_are_the_agents_own_in_one_form() {
    let sessions = json!({"sessions": [
        {"sessionId": "1", "cwd": "/w", "title": "T", "updatedAt": "2026-01-02T03:04:05Z", "_meta": {}},
        {"sessionId": "2"}, {"cwd": "/no/id"}, 7,
    ]});
    let sandbox = scripted(&[
        "--answer",
        "initialize",
        &offers(&json!({"list": {}})),
        "--answer",
        "session/list",
        &sessions.to_string(),
    ]);
    let data = sandbox.run(&LIST).data_of("session.listed");
    let expected = json!({
        "launcher": "agent", "cwd": null, "count": 2, "truncated": false,
        "items": [
            {"sessionId": "1", "cwd": "/w", "title": "T", "updatedAt": "2026-01-02T03:04:05Z"},
            {"sessionId": "2", "cwd": null, "title": null, "updatedAt": null},
        ],
    });
    assert_eq!(data, expected);
    let text = sandbox.command("subagent").args(LIST).run();
    assert_eq!(text.text(), "1\t2026-01-02T03:04:05Z\t/w\tT\n2\t\t\t\n");
    nothing_left(&sandbox);
    sandbox.finish();
}

#[test]
fn only_those_of_a_folder_are_asked_for() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let session = sandbox.show(&worker)["sessionId"].clone();
    let list = |folder: &str| {
        let args = ["session", "list", "--launcher", "demo", "--cwd", folder];
        sandbox.run(&args).data_of("session.listed")["items"].take()
    };
    assert_eq!(list(".")[0]["sessionId"], session);
    assert_eq!(list(&sandbox.file_name("home")), json!([]));
    sandbox.finish();
}

#[test]
fn an_agent_with_no_list_is_reported_clearly() {
    let sandbox = scripted(&[]);
    for args in [&LIST[..], &["session", "delete", "--launcher", "agent", "x"]] {
        let error = sandbox.run(args).error("AGENT_METHOD_UNSUPPORTED");
        assert!(error["details"]["method"].as_str().unwrap().starts_with("session/"), "{error}");
        assert_eq!(error["details"]["launcher"], "agent");
    }
    sandbox.run(&["session", "list", "--launcher", "nope"]).error("LAUNCHER_NOT_FOUND");
    sandbox.run(&["session", "delete", "--launcher", "agent", ""]).error("INVALID_ARGUMENT");
    sandbox.finish();
}

#[test]
fn a_list_may_want_a_login() {
    let sandbox = scripted(&[
        "--answer",
        "initialize",
        &offers(&json!({"list": {}})),
        "--refuse",
        "session/list",
        "-32000",
    ]);
    let error = sandbox.run(&LIST).error("AUTH_REQUIRED");
    assert_eq!(error["details"]["recommendedCommand"], "subagent launcher login agent");
    sandbox.finish();
}

#[test]
fn a_session_is_deleted_where_that_is_offered() {
    let offered = offers(&json!({"delete": {}}));
    let delete = ["session", "delete", "--launcher", "agent", "s-1"];
    let sandbox = scripted(&["--answer", "initialize", &offered, "--answer", "session/delete", "{}"]);
    assert_eq!(
        sandbox.run(&delete).data_of("session.deleted"),
        json!({"launcher": "agent", "sessionId": "s-1"})
    );
    sandbox.finish();
    let sandbox = scripted(&["--answer", "initialize", &offered, "--refuse", "session/delete", "-32002"]);
    sandbox.run(&delete).error("SESSION_NOT_FOUND");
    nothing_left(&sandbox);
    sandbox.finish();
}
