//! The input and execution of hooks: sources of sessions, forms, environment and folder.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, say, wait_until};

use super::{command, define, own_config};

const LIMIT: Duration = Duration::from_secs(30);

/// The variables of an owner's handle.
const HANDLE: [&str; 3] = ["SUBAGENT_CTL_ID", "SUBAGENT_CTL_TOKEN", "SUBAGENT_CTL_EPOCH"];
/// Prints the numbers of the processes above a shell.
const ABOVE: &str =
    r"p=$$; while [ $p -gt 1 ]; do echo ABOVE=$p; p=$(sed 's/.*) . \([0-9]*\) .*/\1/' /proc/$p/stat); done";

fn lines(file: &Path, count: usize) -> Vec<Value> {
    wait_until("hooks", LIMIT, || {
        let text = fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (lines.len() >= count).then_some(lines)
    })
}

fn keeping(sandbox: &TestSandbox, event: &str) {
    let keeps = command(&format!("awk 1 >> {}", sandbox.file_name("read")));
    own_config(sandbox, &format!("hooks: {}\n", json!({event: keeps})));
}

#[test]
fn a_session_starts_anew_or_is_taken_up() {
    let mut sandbox = TestSandbox::new();
    keeping(&sandbox, "SessionStart");
    let dying = sandbox.test_agent("hostile-agent", &["--die", "session/load"]);
    sandbox.launcher("dying", dying);
    sandbox.init();
    let sources = |count: usize| -> Vec<Value> {
        lines(&sandbox.file("read"), count).into_iter().map(|input| input["source"].clone()).collect()
    };
    let worker = sandbox.start("demo");
    assert_eq!(sources(1), ["startup"]);
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(sources(2), ["startup", "resume"]);
    // The third attempt loses its session and begins another one.
    let lost = sandbox.start("dying");
    for _ in 0..2 {
        let _ = sandbox.run(&["worker", "restart", &lost]).error("BACKEND_UNAVAILABLE");
    }
    let _ = sandbox.run(&["worker", "restart", &lost]).data_of("worker.restarted");
    assert_eq!(sources(4), ["startup", "resume", "startup", "startup"]);
    sandbox.finish();
}

#[test]
fn a_form_is_a_notification() {
    let sandbox = TestSandbox::new();
    keeping(&sandbox, "Notification");
    sandbox.init();
    let worker = sandbox.start("demo");
    let form = r#"!elicit {"mode": "form", "message": "Which port?", "requestedSchema": {"type": "object", "properties": {"port": {"type": "integer"}}}}"#;
    let asked = sandbox.send(&worker, form);
    let input = lines(&sandbox.file("read"), 1).remove(0);
    assert_eq!(
        (&input["notification_type"], &input["message"], &input["turnId"]),
        (&json!("elicitation_dialog"), &json!("Which port?"), &asked["turnId"]),
        "{input}"
    );
    sandbox.finish();
}

#[test]
fn a_hook_runs_in_the_main_workspace_without_the_owners_handle() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("XDG_DATA_HOME", sandbox.file("data"));
    sandbox.set_env("OF_THE_OWNER", "kept");
    let file = sandbox.file_name("ran");
    let line = format!("(pwd; env; {ABOVE}) > {file}.new && mv {file}.new {file}");
    own_config(&sandbox, &format!("hooks: {}\n", json!({"Stop": command(&line)})));
    let git = |args: &[&str]| {
        let run = sandbox.command("git").args(args.iter().copied()).cwd(sandbox.workspace()).run();
        assert!(run.status.success(), "{run}");
    };
    git(&["init", "-q", "-b", "main", "."]);
    git(&[
        "-c",
        "user.name=me",
        "-c",
        "user.email=me@example.com",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ]);
    // The handle of an owner in the environment of a daemon.
    for name in HANDLE {
        sandbox.set_env(name, "of-an-owner");
    }
    let daemon = sandbox.command("subagentd").args(["run"]).deadline(2 * LIMIT).spawn();
    wait_until("the daemon", LIMIT, || sandbox.daemon_info());
    HANDLE.iter().for_each(|name| sandbox.remove_env(name));
    sandbox.init();
    for flags in [&[][..], &["--worktree"]] {
        let started = sandbox.run(&[&["worker", "start", "demo"], flags].concat()).data_of("worker.started");
        let worker = started["workerId"].as_str().unwrap();
        let _ = sandbox.send(worker, "hello");
        let ran = wait_until("the hook", LIMIT, || fs::read_to_string(sandbox.file("ran")).ok());
        fs::remove_file(sandbox.file("ran")).unwrap();
        let mut lines = ran.lines();
        let folder = fs::canonicalize(sandbox.workspace()).unwrap();
        assert_eq!(lines.next(), folder.to_str(), "{flags:?}");
        let environment: Vec<&str> = lines.collect();
        assert!(environment.contains(&"OF_THE_OWNER=kept"), "{environment:?}");
        assert!(!environment.iter().any(|line| line.contains("of-an-owner")), "{environment:?}");
        // It runs below the daemon, and not in the worker's group or under its guard.
        let above: Vec<i32> =
            environment.iter().filter_map(|line| line.strip_prefix("ABOVE=")?.parse().ok()).collect();
        assert!(above.contains(&daemon.pid()), "{above:?}");
        let runtime = sandbox.runtime(worker);
        let guard = sandbox.guard(&runtime);
        assert!(!above.contains(&runtime.pid) && !above.contains(&guard.pid), "{above:?}");
    }
    daemon.signal(Signal::SIGTERM);
    let ended = daemon.output();
    assert!(ended.status.success(), "{ended}");
    sandbox.finish();
}

/// Returns the text that the page writes to this file.
fn documented(file: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/hooks.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once(&format!("$ cat > {file} <<'END'\n")).unwrap();
    let lines = rest.lines().map_while(|line| line.strip_prefix("> ")).take_while(|line| *line != "END");
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_validator_of_claude_codes_documentation_lets_an_agent_only_read() {
    let sandbox = TestSandbox::new();
    for file in ["scripts/validate-readonly-query.sh", ".agents/agents/db-reader.md"] {
        let path = sandbox.workspace().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, documented(file)).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    sandbox.init();
    let _ = sandbox.run(&["hook", "trust", ".agents/agents/db-reader.md", "--yes"]).data_of("hook.trusted");
    let started = sandbox.run(&["worker", "start", "--agent", "db-reader"]).data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap();
    let denied = sandbox.send(worker, "!ask execute DELETE FROM users");
    assert!(denied["assistantText"].as_str().unwrap().ends_with("permission: reject-once"), "{denied}");
    let events = sandbox.events(worker);
    let decided = events.iter().find(|event| event["type"] == "approval.decided").unwrap();
    assert_eq!(decided["data"]["note"], "Blocked: only SELECT queries are allowed", "{decided}");
    let asked = sandbox.send(worker, "!ask execute SELECT name FROM users");
    assert_eq!(asked["matchedEvent"]["type"], "approval.requested", "{asked}");
    sandbox.finish();
}

#[test]
fn a_task_is_under_the_hooks_of_its_parents_definition() {
    let mut sandbox = TestSandbox::new();
    let line = format!("awk 1 >> {}; echo not below me >&2; exit 2", sandbox.file_name("read"));
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": line}]}]});
    let file = define(&sandbox, "guarded", &format!("permission: {{task: allow}}\nhooks: {hooks}\n"));
    let root = sandbox.delegating(&json!(true), &["--agent", "guarded"]);
    let _ = sandbox.run(&["hook", "trust", file.to_str().unwrap(), "--yes"]).data_of("hook.trusted");
    let kid = sandbox.task_file("nested", "Kid", "foreground", "!ask execute make");
    let _ = sandbox.send(&root, &sandbox.gives(&kid));
    let shown = sandbox.run(&["task", "show", "Kid"]).data_of("task.shown");
    assert_eq!(
        (&shown["status"], &shown["result"]),
        (&json!("completed"), &json!("permission: reject-once"))
    );
    let input = lines(&sandbox.file("read"), 1).remove(0);
    assert_eq!((&input["worker"], &input["path"]), (&shown["taskId"], &json!(["Root", "Kid"])), "{input}");
    sandbox.finish();
}

/// Claude Code's documentation shows a hook of this form.
const BLOCK_RM: &str = r#"#!/bin/bash
COMMAND=$(jq -r '.tool_input.command')
if echo "$COMMAND" | grep -q 'rm -rf'; then
  jq -n '{hookSpecificOutput: {hookEventName: "PreToolUse", permissionDecision: "deny",
    permissionDecisionReason: "Destructive command blocked by hook"}}'
else
  exit 0
fi
"#;

#[test]
fn a_hook_of_claude_codes_documentation_reads_its_input_with_jq() {
    let sandbox = TestSandbox::new();
    if !sandbox.command("sh").args(["-c", "command -v jq"]).run().status.success() {
        return say("SKIPPED, NOTHING WAS TESTED: the hook needs jq");
    }
    let script = sandbox.file("block-rm.sh");
    fs::write(&script, BLOCK_RM).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let hook = json!({"type": "command", "command": script});
    let hooks = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]});
    own_config(&sandbox, &format!("hooks: {hooks}\n"));
    sandbox.init();
    let worker = sandbox.start("demo");
    let denied = sandbox.send(&worker, "!ask execute rm -rf build");
    assert!(denied["assistantText"].as_str().unwrap().ends_with("permission: reject-once"), "{denied}");
    let events = sandbox.events(&worker);
    let decided = events.iter().find(|event| event["type"] == "approval.decided").unwrap();
    assert_eq!(
        (&decided["data"]["by"], &decided["data"]["note"]),
        (&json!("hook"), &json!("Destructive command blocked by hook")),
        "{decided}"
    );
    let asked = sandbox.send(&worker, "!ask execute make");
    assert_eq!(asked["matchedEvent"]["type"], "approval.requested", "{asked}");
    sandbox.finish();
}
