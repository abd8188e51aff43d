//! The page at every width, light and dark, with a scene as real agents make it. `UPDATE_SCREENS=1` writes the
//! pictures of the documents, `UPDATE_SCREENS=FOLDER` all of them into an existing folder.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Browser, TestLauncher, TestSandbox, wait_until};

use super::super::worktrees::repository;
use super::browser::{finish, root};
use super::{LIMIT, Panel};

const FIX: &str = "Fix the login: it fails for names with blanks.";
const TEST: &str = "Let a tester run the tests of the login.";
const RUN: &str = "Run the tests of the login. Report each failure with its file.";
const DOCUMENT: &str = "Describe the login in docs/login.md.";
const REVIEW: &str = "Review the last three commits.";
const UPGRADE: &str = "Upgrade all dependencies.";

/// The scripted agent, which gets a script in the place of each of these messages.
fn actor(sandbox: &TestSandbox, scripts: &[(&str, &[&str])]) -> TestLauncher {
    let file = sandbox.file("scripts.sed");
    let line = |(message, script): &(&str, &[&str])| {
        let script = json!(script.join("\n")).to_string();
        let script = script.trim_matches('"').replace('\\', "\\\\").replace('&', "\\&");
        format!("s\u{1}{message}\u{1}{script}\u{1}\n")
    };
    fs::write(&file, scripts.iter().map(line).collect::<String>()).unwrap();
    let agent = format!("exec '{}' demo-agent", sandbox.executable("subagent"));
    TestLauncher::new("sh", ["-c".to_owned(), format!("sed -u -f '{}' | {agent}", file.display())])
}

/// The directive for an update of the session.
fn update(update: &Value) -> String {
    let params = json!({"sessionId": "SESSION", "update": update});
    format!("!raw {}", json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

fn plan(done: usize, steps: &[&str]) -> String {
    let entry = |(at, content): (usize, &&str)| {
        let status = match at {
            at if at < done => "completed",
            at if at == done => "in_progress",
            _ => "pending",
        };
        json!({"content": content, "priority": "medium", "status": status})
    };
    let entries: Vec<Value> = steps.iter().enumerate().map(entry).collect();
    update(&json!({"sessionUpdate": "plan", "entries": entries}))
}

fn call(kind: &str, title: &str) -> String {
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": title, "title": title, "kind": kind, "status": "in_progress"});
    update(&call)
}

fn say(text: &str) -> String {
    let content = json!({"type": "text", "text": text});
    update(&json!({"sessionUpdate": "agent_message_chunk", "content": content}))
}

fn start(sandbox: &TestSandbox, name: &str, flags: &[&str]) -> String {
    let started = sandbox.run(&[&["worker", "start", "demo", "--name", name], flags].concat());
    started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

/// Workers of which one has a task that asks, one works, one is done, and one has failed.
fn scene() -> TestSandbox {
    let mut sandbox = repository();
    fs::create_dir_all(sandbox.workspace().join(".agents/agents")).unwrap();
    let tester = "---\ndescription: Runs tests\npermission: {execute: ask}\n---\nRun tests.\n";
    fs::write(sandbox.workspace().join(".agents/agents/tester.md"), tester).unwrap();
    sandbox.init();
    let steps = ["Read the handler", "Trim the name before the comparison", "Run the tests of the login"];
    let task = sandbox.task_file("tester", "login-tests", "foreground", RUN);
    let (read, tested, written) =
        (plan(0, &steps), plan(2, &steps), plan(1, &["List the steps of a login", "Describe errors"]));
    let (task, gives) = (call("other", "task: tester runs the tests of the login"), sandbox.gives(&task));
    let writes = call("edit", "docs/login.md");
    let said = say("The handler has **two** problems:\n\n1. It compares the name before it trims it.\n\
         2. Its test is never run, because `tests/login.rs` is not in `Cargo.toml`.");
    let scripts: [(&str, &[&str]); 6] = [
        (
            FIX,
            &[
                "!think The handler compares before it trims. Its test has never run.",
                &read,
                "!tool read src/login.rs",
                &said,
                "!edit create src/login.rs /// Returns the name that was typed.\\nfn name(typed: &str) -> &str {\\n    typed\\n}",
                "!edit replace src/login.rs 3     typed.trim()",
                r#"!tokens {"inputTokens": 12000, "outputTokens": 3400, "totalTokens": 15400}"#,
                "!usage 42000 200000",
                "Names with blanks work now. The tests are next.",
            ],
        ),
        (TEST, &[&tested, &task, &gives]),
        (RUN, &["!tool read tests/login.rs", "!ask execute cargo test --test login -- --nocapture"]),
        (DOCUMENT, &[&written, &writes, "!sleep 3600000"]),
        (
            REVIEW,
            &[
                "Nothing to change.",
                r#"!tokens {"inputTokens": 8000, "outputTokens": 900, "totalTokens": 8900}"#,
            ],
        ),
        (UPGRADE, &["!error -32000 the model is overloaded"]),
    ];
    let launcher = actor(&sandbox, &scripts);
    sandbox.launcher("demo", launcher);
    let review = start(&sandbox, "review", &[]);
    let _ = sandbox.send(&review, REVIEW);
    let upgrade = start(&sandbox, "upgrade-all-dependencies-of-the-workspace", &[]);
    let _ = sandbox.send_no_wait(&upgrade, UPGRADE);
    let fix = start(
        &sandbox,
        "fix-login",
        &["--delegate", "--worktree", "--max-tokens", "50000", "--max-turns", "5"],
    );
    let _ = sandbox.send(&fix, FIX);
    let _ = sandbox.send(&fix, TEST);
    let docs = start(&sandbox, "docs", &["--worktree"]);
    let _ = sandbox.send_no_wait(&docs, DOCUMENT);
    wait_until("the end of the failed turn", LIMIT, || {
        (sandbox.show(&upgrade)["state"] != "running").then_some(())
    });
    sandbox
}

#[test]
fn the_page_looks_right_at_every_width() {
    let Some(browser) = Browser::find() else { return };
    let sandbox = scene();
    let panel = Panel::start(&sandbox, &[]);
    let (folder, which) = match std::env::var_os("UPDATE_SCREENS").map(PathBuf::from) {
        Some(folder) if folder.is_dir() => (folder, "all"),
        Some(_) => (root().join("docs/images"), "documents"),
        None => (sandbox.path().to_owned(), "documents"),
    };
    let place = sandbox.path().to_str().unwrap();
    let more = [folder.to_str().unwrap(), which, place];
    let limit = Duration::from_secs(240);
    finish(browser.start(&sandbox, "journey.mjs", &["looks", &panel.link()], &more, limit));
    drop(panel);
    sandbox.finish();
}
