//! Sessions: how a browser gets one, and the rights that it gives.

use serde_json::json;
use subagent_tests::harness::TestSandbox;

use super::{Panel, error, get, post, request};

/// What every answer has.
const HEADERS: [&str; 8] = [
    "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "cross-origin-opener-policy: same-origin",
    "cross-origin-resource-policy: same-origin",
    "x-content-type-options: nosniff",
    "referrer-policy: no-referrer",
    "x-frame-options: deny",
    "cache-control: no-store",
    "permissions-policy: ",
];

#[test]
fn every_answer_has_all_headers_and_no_cookie() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let port = panel.port;
    for response in [
        get(port, "/", &[]),
        get(port, "/app.js", &[]),
        get(port, "/nothing", &[]),
        get(port, "/api/live", &[]),
        get(port, "/", &["Origin: http://evil.example"]),
        get(port, &format!("/api/{}/usage", page.place()), &[&page.bearer()]),
        post(port, "/api/session", &[], &json!({"token": "wrong"})),
        request(
            port,
            "OPTIONS /api/session",
            &[&format!("Host: 127.0.0.1:{port}"), "Origin: http://evil.example"],
            "",
        ),
    ] {
        for header in HEADERS {
            assert!(response.head.contains(header), "{header} is not in {response:?}");
        }
        for header in ["set-cookie", "access-control", "unsafe-inline", "server:"] {
            assert!(!response.head.contains(header), "{header} is in {response:?}");
        }
    }
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_link_is_good_for_one_session_and_nothing_is_shown_without() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let port = panel.port;
    for wrong in
        [json!({"token": ""}), json!({"token": format!("{}x", panel.token)}), json!({}), json!({"token": 7})]
    {
        let response = post(port, "/api/session", &[], &wrong);
        assert_eq!((response.status, error(&response).as_str()), (401, "UNAUTHORIZED"), "{wrong}");
    }
    let page = panel.enter();
    let again = post(port, "/api/session", &[], &json!({"token": panel.token}));
    assert_eq!((again.status, error(&again).as_str()), (401, "UNAUTHORIZED"), "it was used");
    let path = format!("/api/{}/workers/{worker}", page.place());
    for given in [
        "",
        "Authorization: Bearer ",
        "Authorization: Bearer x",
        &format!("Authorization: Bearer {}", panel.token),
        &format!("Authorization: {}", page.session),
        &format!("Cookie: session={}", page.session),
    ] {
        let headers: Vec<&str> = [given].into_iter().filter(|given| !given.is_empty()).collect();
        let response = get(port, &path, &headers);
        assert_eq!((response.status, error(&response).as_str()), (401, "UNAUTHORIZED"), "{given}");
        assert!(!response.body.contains(&worker), "{response:?}");
    }
    // Neither in a query.
    let response = get(port, &format!("{path}?session={}&t={}", page.session, page.session), &[]);
    assert_eq!(response.status, 401);
    assert_eq!(page.get(&path)["workerId"], worker.as_str());
    // Nor is a secret anywhere where it could be read later.
    let log = std::fs::read_to_string(sandbox.state_dir().join("logs/subagentd.log")).unwrap();
    assert!(!log.contains(&panel.token) && !log.contains(&page.session));
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_code_lets_one_other_browser_in() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &["--pair"]);
    let right = panel.code();
    let wrong = post(panel.port, "/api/session", &[], &json!({"code": "aaaa-aaaa"}));
    assert_eq!(error(&wrong), "UNAUTHORIZED");
    let typed = right.to_uppercase().replace('-', " ");
    assert_eq!(post(panel.port, "/api/session", &[], &json!({"code": typed})).status, 200);
    assert_eq!(error(&post(panel.port, "/api/session", &[], &json!({"code": right}))), "UNAUTHORIZED");
    drop(panel);

    let panel = Panel::start(&sandbox, &["--pair"]);
    for _ in 0..5 {
        post(panel.port, "/api/session", &[], &json!({"code": "aaaa-aaaa"}));
    }
    let late = post(panel.port, "/api/session", &[], &json!({"code": panel.code()}));
    assert_eq!(error(&late), "UNAUTHORIZED", "five tries");
    drop(panel);
    sandbox.finish();
}

#[test]
fn read_only_refuses_every_change_and_shows_all() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let asked = sandbox.send(&worker, "!ask execute make");
    let request = asked["requestId"].as_str().unwrap();
    let panel = Panel::start(&sandbox, &["--read-only"]);
    let page = panel.enter();
    let place = page.place();
    for (path, body) in [
        (format!("workers/{worker}/approvals/{request}"), json!({"decision": "allow"})),
        (format!("workers/{worker}/turns"), json!({"text": "hello", "ifBusy": "queue"})),
        (format!("workers/{worker}/stop"), json!({})),
        (format!("workers/{worker}/cancel"), json!({})),
        (format!("workers/{worker}/land"), json!({})),
        ("workers".to_owned(), json!({"launcher": "demo"})),
    ] {
        let response = page.post(&format!("/api/{place}/{path}"), &body);
        assert_eq!((response.status, error(&response).as_str()), (403, "READ_ONLY"), "{path}");
    }
    assert_eq!(page.get(&format!("/api/{place}/approvals/{request}"))["status"], "pending");
    assert_eq!(page.get(&format!("/api/{place}/workers/{worker}"))["state"], "waiting_approval");
    drop(panel);
    sandbox.finish();
}

/// What the agent of a worker hears when it asks the panel.
pub(super) fn from_below(sandbox: &TestSandbox, worker: &str, port: u16, text: &str) -> String {
    let address = format!("127.0.0.1:{port}");
    let words = [&sandbox.executable("stranger"), "tcp", &address, text];
    let command = words.map(|word| format!("'{}'", word.replace('\n', "\\n"))).join(" ");
    let waited = sandbox.send(worker, &format!("!shell {command}"));
    waited["assistantText"].as_str().unwrap().to_owned()
}

#[test]
fn an_agent_sees_only_itself_with_any_secret() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let other = sandbox.start("demo");
    let asked = sandbox.send(&other, "!ask execute make");
    let request = asked["requestId"].as_str().unwrap();
    let panel = Panel::start(&sandbox, &["--pair"]);
    let page = panel.enter();
    let (place, port) = (page.place(), panel.port);
    let head = format!("HTTP/1.1\\nHost: 127.0.0.1:{port}\\n{}\\nConnection: close\\n", page.bearer());
    let change = |path: &str, body: &str| {
        format!(
            "POST {path} {head}Content-Type: application/json\\nContent-Length: {}\\n\\n{body}",
            body.len()
        )
    };
    let ask = |text: &str| from_below(&sandbox, &worker, port, text);
    // It has read the link in the terminal, and even the secret of the page.
    for text in [
        change("/api/session", &format!(r#"{{"token":"{}"}}"#, panel.token)),
        change(&format!("/api/{place}/workers/{other}/approvals/{request}"), r#"{"decision":"allow"}"#),
        change(&format!("/api/{place}/workers/{worker}/turns"), r#"{"text":"x","ifBusy":"queue"}"#),
        change(&format!("/api/{place}/workers/{other}/stop"), "{}"),
        change(&format!("/api/{place}/workers"), r#"{"launcher":"demo"}"#),
        format!("GET /api/live {head}\\n"),
        format!("GET /api/{place}/usage {head}\\n"),
        format!("GET /api/{place}/workers/{other} {head}\\n"),
        format!("GET /api/{place}/workers/{other}/page {head}\\n"),
        format!("GET /api/{place}/workers/{other}/diff {head}\\n"),
        format!("GET /api/{place}/choices {head}\\n"),
    ] {
        let said = ask(&text);
        assert!(said.contains("403 Forbidden") && said.contains("FORBIDDEN_FROM_WORKER"), "{text}: {said}");
    }
    for path in ["", "/page", "/logs", "/diff"].map(|part| format!("workers/{worker}{part}")) {
        let said = ask(&format!("GET /api/{place}/{path} {head}\\n"));
        assert!(said.contains("200 OK") && said.contains(&worker), "{path}: {said}");
    }
    let noted = |what: &str| {
        let events = sandbox.events(&worker).into_iter();
        events.filter(|event| event["type"] == "worker.forbidden" && event["data"]["request"] == what).count()
    };
    assert!(noted("POST /v1/panel/sessions") >= 3, "{:?}", sandbox.events(&worker));
    assert_eq!(noted(&format!("POST /v1/workers/{other}/approvals/{request}")), 1);
    assert_eq!(sandbox.show(&other)["state"], "waiting_approval");
    drop(panel);
    sandbox.finish();
}

#[test]
fn an_agent_cannot_start_a_panel() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let command = format!("'{}' panel", sandbox.executable("subagent"));
    let waited = sandbox.send(&worker, &format!("!shell {command}"));
    assert!(waited["assistantText"].as_str().unwrap().contains("FORBIDDEN_FROM_WORKER"), "{waited}");
    sandbox.finish();
}
