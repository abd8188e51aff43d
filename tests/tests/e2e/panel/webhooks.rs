//! Webhooks of triggers: only the own token fires, once a delivery, and nothing else is opened.

use serde_json::{Value, json};
use subagent_tests::harness::{Response, TestSandbox};

use super::{Panel, error, post, request};
use crate::schedules::{firings, wait_for_firings, world};

const BODY: &str = "{\"job\": 7, \"status\": \"failed\"}";

/// Adds a trigger with a webhook. Returns its token.
fn add(sandbox: &TestSandbox, name: &str) -> String {
    let work = ["demo", "!say looked\n{{payload}}"];
    let args = [&["trigger", "add", name, "--webhook"][..], &work].concat();
    let added = sandbox.run(&args).data_of("trigger.added");
    assert_eq!(added["webhookPath"], format!("/api/triggers/{name}"), "{added}");
    assert_eq!(added["source"], json!({"webhook": {}}), "the hash of the token is not shown");
    added["token"].as_str().unwrap().to_owned()
}

/// A request as a script would send it.
fn deliver(panel: &Panel, name: &str, token: &str, more: &[&str], body: &str) -> Response {
    let host = format!("Host: 127.0.0.1:{}", panel.port);
    let bearer = format!("Authorization: Bearer {token}");
    let headers = [&[host.as_str(), &bearer, "Content-Type: application/json"], more].concat();
    request(panel.port, &format!("POST /api/triggers/{name}"), &headers, body)
}

fn log(sandbox: &TestSandbox, name: &str) -> Vec<Value> {
    firings(sandbox, "trigger", name)
}

#[test]
fn a_post_with_the_token_fires_once_a_delivery() {
    let sandbox = world();
    let token = add(&sandbox, "ci");
    let files = ["state.db", "state.db-wal"].map(|name| std::fs::read(sandbox.state_dir().join(name)));
    let stored = files.into_iter().flatten().collect::<Vec<_>>().concat();
    assert!(!stored.windows(token.len()).any(|bytes| bytes == token.as_bytes()), "only a hash is stored");
    assert!(sandbox.run(&["trigger", "show", "ci"]).data()["token"].is_null());
    let panel = Panel::start(&sandbox, &[]);
    let fired = deliver(&panel, "ci", &token, &["X-GitHub-Delivery: d-1"], BODY);
    assert_eq!(fired.status, 200, "{fired:?}");
    let data = fired.json()["data"].take();
    assert_eq!(data["occurrence"], "d-1", "{data}");
    assert!(data.get("workerId").is_none(), "a sender learns nothing about the worker: {data}");
    let again = deliver(&panel, "ci", &token, &["X-GitHub-Delivery: d-1"], BODY).json();
    assert_eq!(again["data"]["at"], data["at"], "{again}");
    assert_eq!(deliver(&panel, "ci", &token, &["webhook-id: d-2"], BODY).status, 200);
    let all = wait_for_firings(&sandbox, "trigger", "ci", "completed", 2);
    assert_eq!(all.len(), 2, "{all:?}");
    let events = sandbox.events(all[0]["workerId"].as_str().unwrap());
    let sent = events.iter().find(|event| event["type"] == "message.sent").unwrap();
    assert!(sent["data"]["text"].as_str().unwrap().contains(&format!("| {BODY}\n")), "{sent}");
    // A daemon that was stopped is started.
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    assert_eq!(deliver(&panel, "ci", &token, &[], BODY).status, 200);
    let _ = wait_for_firings(&sandbox, "trigger", "ci", "completed", 3);
    sandbox.run(&["trigger", "pause", "ci"]).data_of("trigger.paused");
    assert_eq!(error(&deliver(&panel, "ci", &token, &[], BODY)), "TRIGGER_PAUSED");
    drop(panel);
    sandbox.finish();
}

#[test]
fn what_is_not_the_own_token_fires_nothing() {
    let sandbox = world();
    let (token, other) = (add(&sandbox, "ci"), add(&sandbox, "other"));
    let plain = ["trigger", "add", "plain", "demo", "x"];
    sandbox.run(&plain).data_of("trigger.added");
    let panel = Panel::start(&sandbox, &[]);
    let session = panel.enter().session;
    for (name, token) in [
        ("ci", "wrong"),
        ("ci", ""),
        ("ci", other.as_str()),
        ("ci", session.as_str()),
        ("plain", token.as_str()),
        ("missing", token.as_str()),
    ] {
        let refused = deliver(&panel, name, token, &[], BODY);
        assert_eq!((refused.status, error(&refused)), (401, "UNAUTHORIZED".to_owned()), "{name} {token}");
    }
    // The token opens nothing else.
    let bearer = format!("Authorization: Bearer {token}");
    for path in ["/api/live", "/api/triggers/ci/run", "/api/triggers"] {
        let response = post(panel.port, path, &[&bearer], &json!({}));
        assert!(response.status >= 400, "{path}: {response:?}");
    }
    let foreign = ["Origin: http://evil.example"];
    assert_eq!(error(&deliver(&panel, "ci", &token, &foreign, BODY)), "FORBIDDEN_ORIGIN");
    let bearer = format!("Authorization: Bearer {token}");
    let host = ["Host: evil.example", bearer.as_str(), "Content-Type: application/json"];
    let rebound = request(panel.port, "POST /api/triggers/ci", &host, BODY);
    assert_eq!(error(&rebound), "FORBIDDEN_ORIGIN");
    let good = deliver(&panel, "ci", &token, &[], BODY);
    assert!(good.status == 200 && !format!("{good:?}").to_lowercase().contains("access-control"), "{good:?}");
    assert_eq!((log(&sandbox, "ci").len(), log(&sandbox, "plain").len()), (1, 0));
    let _ = wait_for_firings(&sandbox, "trigger", "ci", "completed", 1);
    drop(panel);
    sandbox.finish();
}

#[test]
fn bodies_and_requests_have_limits() {
    let sandbox = world();
    let token = add(&sandbox, "ci");
    let panel = Panel::start(&sandbox, &[]);
    let large = "x".repeat(64 * 1024 + 1);
    let refused = deliver(&panel, "ci", &token, &[], &large);
    assert_eq!((refused.status, error(&refused)), (413, "PAYLOAD_TOO_LARGE".to_owned()));
    assert_eq!(error(&deliver(&panel, "ci", &token, &[], "a\0b")), "INVALID_ARGUMENT");
    for _ in 0..10 {
        assert_eq!(error(&deliver(&panel, "ci", "wrong", &[], BODY)), "UNAUTHORIZED");
    }
    let refused = deliver(&panel, "ci", &token, &[], BODY);
    assert_eq!((refused.status, error(&refused)), (429, "TOO_MANY_REQUESTS".to_owned()));
    drop(panel);
    let shows = Panel::start(&sandbox, &["--read-only"]);
    assert_eq!(error(&deliver(&shows, "ci", &token, &[], BODY)), "READ_ONLY");
    assert_eq!(log(&sandbox, "ci").len(), 0);
    drop(shows);
    sandbox.finish();
}
