//! Habits of real agents, each reduced to a few lines: rules hold, and an obedient
//! agent is not blamed.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox};

const RULES: &[&str] = &["--allow", "*", "--deny", "edit(*.env)", "--deny", "execute(touch *)"];

fn with(flags: &[&str], rules: &[&str]) -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", flags);
    sandbox.launcher("hostile", agent);
    sandbox.init();
    let started = sandbox.subagent(&["worker", "start", "--launcher", "hostile"]).args(rules).run();
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    (sandbox, worker)
}

fn of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    sandbox.events(worker).into_iter().filter(|event| event["type"] == event_type).collect()
}

#[test]
fn a_request_that_leaves_out_what_its_call_said_is_denied_as_the_call_is() {
    let (sandbox, worker) = with(&[], RULES);
    for quirk in [
        "request-without-kind a.env",
        "command-without-kind touch x",
        "request-of-another-kind a.env",
        "request-of-another-id a.env",
        "input-without-kind a.env",
    ] {
        let waited = sandbox.send(&worker, &format!("quirk: {quirk}"));
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{quirk}: {waited}");
        let text = waited["assistantText"].as_str().unwrap();
        assert!(text.contains("\"no\""), "{quirk}: {text}");
    }
    for quirk in ["request-without-kind a.txt", "command-without-kind ls", "request-of-another-id a.txt"] {
        let text = sandbox.send(&worker, &format!("quirk: {quirk}"))["assistantText"].clone();
        assert!(text.as_str().unwrap().contains("\"yes\""), "{quirk}: {text}");
    }
    assert_eq!(of_type(&sandbox, &worker, "policy.violated"), [] as [Value; 0]);
    sandbox.finish();
}

#[test]
fn a_request_that_says_too_little_is_asked_where_something_is_denied() {
    let (sandbox, worker) = with(&[], RULES);
    for quirk in [
        "request-of-a-title",
        "request-of-a-title other",
        "request-of-one-of-two a.env",
        "request-of-one-of-two a.env other",
    ] {
        let waited = sandbox.send(&worker, &format!("quirk: {quirk}"));
        assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{quirk}: {waited}");
        sandbox.approve(&worker, &waited["requestId"], "deny").data_of("approval.decided");
        assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed", "{quirk}");
    }
    assert_eq!(of_type(&sandbox, &worker, "policy.violated"), [] as [Value; 0], "it obeyed");
    let started = sandbox.subagent(&["worker", "start", "--launcher", "hostile", "--allow", "*"]).run();
    let free = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    for quirk in ["request-of-a-title", "request-of-a-title other"] {
        let waited = sandbox.send(&free, &format!("quirk: {quirk}"));
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "nothing is denied: {waited}");
    }
    sandbox.finish();
}

#[test]
fn history_that_is_replayed_in_a_resume_is_no_news_and_no_violation() {
    let (sandbox, worker) = with(&["--history"], RULES);
    let _ = sandbox.send(&worker, "hello");
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    let _ = sandbox.send(&worker, "hello again");
    // The same when the session is resumed after a loss.
    sandbox.kill(&sandbox.runtime(&worker));
    let _ = sandbox.send(&worker, "hello after a loss");
    let events = sandbox.events(&worker);
    let kinds: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "progress.update" && event["data"]["kind"] == "replayed")
        .map(|event| &event["data"]["update"]["kind"])
        .collect();
    assert_eq!(kinds, ["message", "tool_call", "message", "tool_call"]);
    assert!(!events.iter().any(|event| event["data"]["text"] == "said long ago"), "{events:?}");
    assert_eq!(of_type(&sandbox, &worker, "policy.violated"), [] as [Value; 0]);
    sandbox.finish();
}

#[test]
fn an_agent_that_says_on_stdout_why_it_ends_is_quoted() {
    let mut sandbox = TestSandbox::new();
    for (name, method) in [("first", "initialize"), ("later", "session/new"), ("turn", "session/prompt")] {
        let agent = sandbox.test_agent("hostile-agent", &["--complain", method]);
        sandbox.launcher(name, agent);
    }
    let loud = sandbox.test_agent("hostile-agent", &["--no-such-flag"]);
    sandbox.launcher("loud", loud);
    sandbox.launcher("silent", TestLauncher::new("/bin/sh", ["-c", "exit 3"]));
    sandbox.init();
    let words = "the licence of this agent has expired";
    for name in ["first", "later"] {
        let error = sandbox.run(&["worker", "start", "--launcher", name]).error("BACKEND_UNAVAILABLE");
        let tail = error["details"]["logTail"].as_str().unwrap();
        assert!(tail.starts_with("stdout: ") && tail.contains(words), "{tail}");
        let worker = error["details"]["workerId"].as_str().unwrap();
        let logs = sandbox.run(&["worker", "logs", worker]).data_of("worker.logs");
        assert!(logs.to_string().contains(words), "{logs}");
        let probe = ["launcher", "probe", name, "--handshake"];
        let error = sandbox.run(&probe).error("BACKEND_UNAVAILABLE");
        assert!(error["details"]["logTail"].as_str().unwrap().contains(words), "{error}");
        let text = sandbox.command("subagent").args(["worker", "start", "--launcher", name]).run();
        assert!(text.stderr.contains(words), "{}", text.stderr);
    }
    let worker = sandbox.start("turn");
    let args = ["send", "--worker-id", &worker, "--text", "hello"];
    let failed = sandbox.run(&args).error("BACKEND_UNAVAILABLE");
    assert!(failed["details"]["stderrTail"].to_string().contains(words), "{failed}");
    for name in ["loud", "silent"] {
        let error = sandbox.run(&["worker", "start", "--launcher", name]).error("BACKEND_UNAVAILABLE");
        let tail = error["details"]["logTail"].as_str().unwrap();
        let expected = if name == "loud" { "unknown flag" } else { "(the agent wrote nothing" };
        assert!(tail.contains(expected), "{tail}");
    }
    sandbox.finish();
}

#[test]
fn a_question_shows_what_is_known_of_its_call() {
    let (sandbox, worker) = with(&[], &[]);
    for (quirk, message, subject) in [
        ("command-without-kind touch x", "Permission requested for execute: Bash: touch x", "touch x"),
        (
            "request-of-a-short-command cargo test --workspace",
            "Permission requested for execute: Bash: cargo test --workspace",
            "cargo test --workspace",
        ),
        ("request-of-another-kind src/a.txt", "Permission requested for edit: Write: src/a.txt", "src/a.txt"),
        (
            "request-of-another-id src/b.txt",
            "Permission requested for edit: write_file: src/b.txt",
            "src/b.txt",
        ),
        ("request-without-diff src/c.txt", "Permission requested for edit: Write: src/c.txt", "src/c.txt"),
        (
            "request-without-address https://example.com/x",
            "Permission requested for fetch: Fetch: https://example.com/x",
            "https://example.com/x",
        ),
    ] {
        let asked = sandbox.send(&worker, &format!("quirk: {quirk}"));
        assert_eq!(asked["matchedEvent"]["data"]["message"], message, "{asked}");
        let listed = sandbox.run(&["approval", "list"]).data_of("inbox.listed");
        assert_eq!(listed["items"][0]["subject"], subject, "{listed}");
        if quirk.starts_with("request-without-diff") {
            let content = &asked["matchedEvent"]["data"]["content"];
            assert_eq!(content[0]["newText"], "two\n", "{asked}");
        }
        sandbox.approve(&worker, &asked["requestId"], "deny").data_of("approval.decided");
        let _ = sandbox.turn_end(&asked);
    }
    sandbox.finish();
}

#[test]
fn an_agent_with_a_task_tool_of_its_own_gives_tasks_with_a_prefix() {
    let mut sandbox = TestSandbox::new();
    let demo = sandbox.demo_agent(&[]);
    sandbox.launcher("demo", demo);
    for (name, prefix) in [("plain", false), ("prefixed", true)] {
        let agent = sandbox.test_agent("hostile-agent", &[]).key("prefixTools", json!(prefix));
        sandbox.launcher(name, agent);
    }
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("scout.md"), "---\ndescription: Finds things\nlauncher: demo\n---\n").unwrap();
    sandbox.init();
    for (launcher, expected) in [("plain", "its own tool task was called"), ("prefixed", "subagent_task: ")] {
        let args = ["worker", "start", "--launcher", launcher, "--delegate"];
        let started = sandbox.run(&args).data_of("worker.started");
        let worker = started["workerId"].as_str().unwrap();
        let sent = sandbox.send(worker, "quirk: task-of-its-own scout found");
        let text = sent["assistantText"].as_str().unwrap();
        assert!(text.starts_with(expected), "{launcher}: {text}");
        assert_eq!(text.contains("found"), launcher == "prefixed", "{text}");
    }
    sandbox.finish();
}
