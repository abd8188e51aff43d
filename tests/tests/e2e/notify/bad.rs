//! Bad input: invalid config, and targets that cannot be used.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::server::{SinkServer, WebhookResponse};
use super::{configure, fails_test, settled, world};

#[test]
fn a_mistake_in_the_file_is_named_with_its_place_and_the_sinks_from_before_stay() {
    let (sandbox, _) = world("  - {name: one, to: command, command: 'true'}");
    for (notify, place, problem) in [
        ("  - {to: pigeon}", "notify[0].to", "desktop, bell, command or webhook"),
        ("  - {on: [question]}", "notify[0].to", "is missing"),
        ("  - {to: webhook}", "notify[0].url", "is missing"),
        ("  - {to: bell, on: [questions]}", "notify[0].on", "known: question, done"),
        ("  - {to: bell, url: 'https://x'}", "notify[0].url", "has no meaning with `to: bell`"),
        ("  - {to: webhook, url: 'http://example.com/x'}", "notify[0].url", "insecure: true"),
        ("  - {to: webhook, url: 'no url at all'}", "notify[0].url", "is not a valid URL"),
        ("  - {to: bell, were: 1}", "notify[0]", "unknown key `were`"),
        ("  - {to: bell, where: {tag: '='}}", "notify[0].where.tag", ""),
        ("  - {to: bell, where: {role: x}}", "notify[0].where", "known: tag"),
        ("  - {to: webhook, url: 'https://x', format: xml}", "notify[0].format", "json, text or slack"),
        ("  - {to: webhook, url: 'https://x', insecure: 1}", "notify[0].insecure", "true or false"),
        ("  - {to: bell, name: a}\n  - {to: desktop, name: a}", "notify[1].name", "earlier entry"),
        ("  - bell", "notify[0]", "must be"),
    ] {
        configure(&sandbox, notify);
        let listed = sandbox.run(&["notify", "list"]).data_of("notify.listed");
        let error = listed["error"].as_str().unwrap_or_else(|| panic!("{notify}: {listed}"));
        assert!(error.contains(place) && error.contains(problem), "{notify}: {error}");
        assert_eq!(listed["items"][0]["name"], "one", "{notify}");
    }
    configure(&sandbox, "  []");
    assert_eq!(sandbox.run(&["notify", "list"]).data_of("notify.listed")["count"], 0);
    sandbox.finish();
}

#[test]
fn a_target_that_is_not_allowed_is_not_contacted() {
    let (sandbox, worker) = world("  []");
    let cases = [
        ("${NOT_SET:-http://example.com/hook}", "insecure: true"),
        ("${NOT_SET:-ftp://localhost/hook}", "not supported"),
        ("${NOT_SET:-no url at all}", "not a valid URL"),
        ("${NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE is not set"),
    ];
    for (url, problem) in cases {
        configure(&sandbox, &format!("  - {{name: hook, to: webhook, on: [done], url: '{url}'}}"));
        let listed = sandbox.run(&["notify", "list"]).data_of("notify.listed");
        let error = listed["items"][0]["error"].as_str().unwrap_or_else(|| panic!("{url}: {listed}"));
        assert!(error.contains(problem) && !error.contains("example.com"), "{url}: {error}");
        let tested = fails_test(&sandbox);
        assert_eq!(tested["items"][0]["delivered"], json!(false), "{tested}");
    }
    let _ = sandbox.send(&worker, "the daemon goes on");
    sandbox.finish();
}

#[test]
fn a_server_that_is_not_trusted_or_gone_is_an_error_without_its_url() {
    let server = SinkServer::https();
    let mut sandbox = TestSandbox::new();
    // Without a certificate of the server's CA.
    fs::write(sandbox.file("home/empty.pem"), "").unwrap();
    let empty = sandbox.file("home/empty.pem");
    sandbox.set_env("SSL_CERT_FILE", empty);
    configure(&sandbox, &format!("  - {{to: webhook, url: '{}'}}", server.url()));
    let tested = fails_test(&sandbox);
    let error = tested["items"][0]["error"].as_str().unwrap();
    assert!(error.contains("certificate") && !error.contains("hush"), "{error}");
    assert!(server.requests().is_empty());
    configure(&sandbox, "  - {to: webhook, url: 'http://127.0.0.1:9/hush'}");
    let tested = fails_test(&sandbox);
    let error = tested["items"][0]["error"].as_str().unwrap();
    assert!(error.contains("connection failed") && !error.contains("hush"), "{error}");
    let unknown = sandbox.run(&["notify", "test", "other"]).error("INVALID_ARGUMENT");
    assert!(unknown["message"].as_str().unwrap().contains("it has: webhook-"), "{unknown}");
    sandbox.finish();
}

#[test]
fn a_webhook_that_is_gone_is_given_up_with_an_event() {
    let server = SinkServer::https();
    let (sandbox, worker) =
        world(&format!("  - {{name: hook, to: webhook, on: [done], url: '{}'}}", server.url()));
    server.answers([WebhookResponse::Status(410)]);
    let _ = sandbox.send(&worker, "first");
    let failed = settled(&sandbox, "failed");
    assert_eq!(failed["error"], "the server answered 410");
    let report = sandbox.run(&["doctor"]).document()["data"].take();
    let about = |finding: &&Value| finding["id"] == "config.notify";
    let finding = report["findings"].as_array().unwrap().iter().find(about).unwrap().clone();
    assert_eq!(finding["seen"], "the sink hook did not take 1 notifications", "{finding}");
    let event: Value =
        sandbox.events(&worker).into_iter().find(|event| event["type"] == "notification.failed").unwrap();
    let cursor = ["--until", "notification.failed", "--include-history", "--timeout-seconds", "5"];
    let waited = sandbox.run(&[&["wait", "--worker-id", &worker], &cursor[..]].concat());
    assert_eq!(waited.data_of("event.matched")["eventId"], event["eventId"]);
    assert_eq!(
        (&event["data"]["sink"], &event["data"]["attempts"], &event["data"]["eventId"]),
        (&json!("hook"), &json!(1), &failed["eventId"]),
        "{event}"
    );
    sandbox.finish();
}

#[test]
fn a_projects_file_sends_no_notification() {
    let server = SinkServer::http();
    let sandbox = TestSandbox::new();
    let file = sandbox.config_file();
    let config = fs::read_to_string(&file).unwrap();
    let notify = format!("\nnotify: [{{to: webhook, on: [done], url: '{}'}}]\n", server.url());
    fs::write(&file, config + &notify).unwrap();
    assert_eq!(sandbox.run(&["notify", "list"]).data_of("notify.listed")["count"], 0);
    sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "first");
    sandbox.run(&["daemon", "stop"]).data();
    assert!(server.requests().is_empty());
    sandbox.finish();
}

/// Returns the arguments of all processes.
fn arguments() -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

#[test]
fn secrets_are_in_no_argument_log_database_or_output() {
    let server = SinkServer::https();
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SSL_CERT_FILE", SinkServer::ca());
    sandbox.set_env("HOOK_URL", server.url());
    sandbox.set_env("SUBAGENT_WEBHOOK_SECRET", "very-secret-word");
    let secret = "secret: '${SUBAGENT_WEBHOOK_SECRET}'";
    configure(&sandbox, &format!("  - {{to: webhook, on: [done], url: '${{HOOK_URL}}', {secret}}}"));
    sandbox.init();
    let worker = sandbox.start("demo");
    server.answers([WebhookResponse::Status(500), WebhookResponse::Late]);
    let _ = sandbox.send(&worker, "first");
    server.wait_for(2).iter().for_each(|request| request.is_signed_with("very-secret-word"));
    // No process of the worker has it.
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    for process in [&runtime, &guard, &sandbox.agent(&guard)] {
        let variables = fs::read(format!("/proc/{}/environ", process.pid)).unwrap();
        assert!(!String::from_utf8_lossy(&variables).contains("very-secret-word"), "{process:?}");
    }
    // While it waits for the response, every user can see the arguments.
    let arguments = arguments();
    assert!(arguments.iter().any(|line| line.contains("subagent-webhook")), "{arguments:?}");
    let secret = |line: &&String| line.contains("very-secret-word") || line.contains(&server.url());
    assert_eq!(arguments.iter().find(secret), None);
    let sending = sandbox.processes().into_iter().find(|process| {
        let path = fs::read_link(format!("/proc/{}/exe", process.pid)).unwrap_or_default();
        path.to_string_lossy().contains("subagent-webhook")
    });
    let limits = fs::read_to_string(format!("/proc/{}/limits", sending.unwrap().pid)).unwrap();
    let memory = limits.lines().find(|line| line.starts_with("Max address space")).unwrap();
    assert_eq!(memory.split_whitespace().nth(3), Some("1073741824"), "{memory}");
    server.let_go();
    settled(&sandbox, "delivered");
    let outputs = ["list", "log", "test"].map(|command| {
        let output = sandbox.run(&["notify", command]);
        output.data_of(match command {
            "list" => "notify.listed",
            "log" => "notify.log",
            _ => "notify.tested",
        })
    });
    sandbox.run(&["daemon", "stop"]).data();
    let mut found = outputs.map(|output| output.to_string()).to_vec();
    for file in ["state.db", "state.db-wal", "logs/subagentd.log"] {
        let bytes = fs::read(sandbox.state_dir().join(file)).unwrap_or_default();
        found.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    assert!(!found.iter().any(|text| text.contains("very-secret-word") || text.contains("hush")));
    sandbox.finish();
}
