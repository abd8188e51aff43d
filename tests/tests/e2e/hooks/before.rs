//! Hooks that decide before the owner: what they deny is not done, what they allow is not asked,
//! and no failure allows.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

use super::{define, fits_the_schema, own_config, project_hooks};

/// Upper limit of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// A hook of one event for commands, as the config has it.
fn hook(event: &str, line: &str) -> Value {
    let hook = json!({"type": "command", "command": line, "timeout": 20});
    json!({event: [{"matcher": "Bash", "hooks": [hook]}]})
}

/// A worker whose owner has these hooks.
fn with_hooks(hooks: &Value, flags: &[&str]) -> (TestSandbox, String) {
    let sandbox = TestSandbox::new();
    own_config(&sandbox, &format!("hooks: {hooks}\n"));
    sandbox.init();
    let worker = start(&sandbox, flags);
    (sandbox, worker)
}

fn start(sandbox: &TestSandbox, flags: &[&str]) -> String {
    let started = sandbox.subagent(&["worker", "start", "--launcher", "demo"]).args(flags).run();
    started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

fn of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    let events = sandbox.events(worker).into_iter().filter(|event| event["type"] == event_type);
    events.map(|event| event["data"].clone()).collect()
}

/// Sends a call that needs permission. Returns the result of the wait.
fn ask(sandbox: &TestSandbox, worker: &str) -> Value {
    sandbox.send(worker, "!ask execute make")
}

/// The owner is asked, and denies.
fn assert_asked(sandbox: &TestSandbox, worker: &str, waited: &Value) {
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{waited}");
    let _ = sandbox.approve(worker, &waited["requestId"], "deny").data_of("approval.decided");
    assert_eq!(sandbox.turn_end(waited)["type"], "turn.completed");
    assert_eq!(of_type(sandbox, worker, "approval.requested").len(), 1, "it must be asked once");
    assert_eq!(of_type(sandbox, worker, "approval.decided").len(), 1, "it must be decided once");
}

/// Returns a decision of a hook as JSON.
fn says(word: &str) -> String {
    let said = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": word, "permissionDecisionReason": "because",
    }});
    format!("echo '{said}'")
}

#[test]
fn exit_2_denies_what_a_rule_allows_and_says_why() {
    let sandbox = TestSandbox::new();
    let input = sandbox.file_name("input");
    let line = format!("cat > {input}; echo 'not on Fridays' >&2; exit 2");
    own_config(&sandbox, &format!("hooks: {}\n", hook("PreToolUse", &line)));
    sandbox.init();
    let worker = start(&sandbox, &["--allow", "execute(make)"]);
    let waited = ask(&sandbox, &worker);
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    assert_eq!(waited["assistantText"], "permission: reject-once");
    let decided = of_type(&sandbox, &worker, "approval.decided").remove(0);
    assert_shape(
        &decided,
        &json!({
            "requestId": "ap", "decision": "=deny", "optionId": "=reject-once", "alias": "str",
            "note": "=not on Fridays", "by": "=hook",
            "hook": {"event": "=PreToolUse", "command": "str", "file": "str", "origin": "=user"},
        }),
    );
    let read: Value = serde_json::from_str(&fs::read_to_string(sandbox.file("input")).unwrap()).unwrap();
    assert_eq!(
        (&read["hook_event_name"], &read["tool_name"], &read["tool_input"]["command"]),
        (&json!("PreToolUse"), &json!("Bash"), &json!("make")),
        "{read}"
    );
    assert_eq!((&read["worker"], &read["turnId"]), (&json!(worker), &waited["turnId"]));
    assert_eq!(read["requestId"], decided["requestId"]);
    let workspace = sandbox.workspace();
    assert_eq!(read["cwd"].as_str(), workspace.to_str(), "{read}");
    assert_eq!(read["session_id"], sandbox.show(&worker)["sessionId"], "{read}");
    let asked = of_type(&sandbox, &worker, "approval.requested").remove(0);
    assert_eq!(read["tool_use_id"], asked["toolCallId"], "{read} {asked}");
    fits_the_schema(&read);
    assert_eq!(of_type(&sandbox, &worker, "approval.requested").len(), 1);
    sandbox.finish();
}

#[test]
fn json_denies_allows_and_asks() {
    for (word, flags, text) in [
        ("deny", &["--allow", "execute(make)"][..], Some("permission: reject-once")),
        ("allow", &[][..], Some("permission: allow-once")),
        ("ask", &["--allow", "execute(make)"][..], None),
    ] {
        let (sandbox, worker) = with_hooks(&hook("PreToolUse", &says(word)), flags);
        let waited = ask(&sandbox, &worker);
        match text {
            Some(text) => assert_eq!(waited["assistantText"], text, "{word}: {waited}"),
            None => assert_asked(&sandbox, &worker, &waited),
        }
        sandbox.finish();
    }
}

#[test]
fn a_hook_without_opinion_leaves_the_answer_to_the_rules() {
    let (sandbox, worker) = with_hooks(&hook("PreToolUse", "true"), &["--allow", "execute(make)"]);
    let waited = ask(&sandbox, &worker);
    assert_eq!(waited["assistantText"], "permission: allow-once", "{waited}");
    assert_eq!(of_type(&sandbox, &worker, "approval.decided")[0]["by"], "rule");
    sandbox.finish();
}

#[test]
fn what_a_rule_denies_runs_no_hook() {
    let sandbox = TestSandbox::new();
    let line = format!("touch {}; {}", sandbox.file_name("ran"), says("allow"));
    own_config(&sandbox, &format!("hooks: {}\n", hook("PreToolUse", &line)));
    sandbox.init();
    let worker = start(&sandbox, &["--deny", "execute(make)"]);
    assert_eq!(ask(&sandbox, &worker)["assistantText"], "permission: reject-once");
    assert!(!sandbox.file("ran").exists());
    sandbox.finish();
}

#[test]
fn a_projects_hook_may_not_allow_and_does_not_run_untrusted() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    project_hooks(&sandbox, &hook("PreToolUse", &says("allow")));
    let worker = start(&sandbox, &[]);
    let waited = ask(&sandbox, &worker);
    assert_asked(&sandbox, &worker, &waited);
    let failed = of_type(&sandbox, &worker, "hook.failed").remove(0);
    assert!(failed["reason"].as_str().unwrap().contains("subagent hook trust"), "{failed}");
    let _ = sandbox.run(&["hook", "trust", ".subagent/config.yaml", "--yes"]).data_of("hook.trusted");
    let worker = start(&sandbox, &[]);
    let waited = ask(&sandbox, &worker);
    assert_asked(&sandbox, &worker, &waited);
    let failed = of_type(&sandbox, &worker, "hook.failed").remove(0);
    assert!(failed["reason"].as_str().unwrap().contains("user's config"), "{failed}");
    sandbox.finish();
}

#[test]
fn a_hook_that_fails_asks() {
    for (line, timeout, reason) in [
        ("echo oh >&2; exit 1", 20, "it exited with 1: oh"),
        ("echo '{\"decision\": '", 20, "is not the JSON of a hook"),
        ("sleep 1000", 1, "before its deadline"),
        ("(setsid sleep 1000 &); sleep 1000", 1, "before its deadline"),
        ("echo '{'; yes", 1, "before its deadline"),
        ("no-such-program", 20, "it exited with 127"),
        (
            "printf '{\"decision\": \"approve\", \"reason\": \"'; head -c 100000 /dev/zero | tr '\\0' x; printf '\"}'",
            20,
            "longer than the limit",
        ),
    ] {
        let hook = json!({"type": "command", "command": line, "timeout": timeout});
        let hooks = json!({"PreToolUse": [{"hooks": [hook]}]});
        let (sandbox, worker) = with_hooks(&hooks, &["--allow", "execute(make)"]);
        let waited = ask(&sandbox, &worker);
        assert_asked(&sandbox, &worker, &waited);
        let failed = of_type(&sandbox, &worker, "hook.failed");
        assert!(failed[0]["reason"].as_str().unwrap().contains(reason), "{line}: {failed:?}");
        sandbox.finish();
    }
}

#[test]
fn the_hooks_of_a_question_answer_for_the_owner_where_he_would_be_asked() {
    let said = json!({"hookSpecificOutput": {"decision": {"behavior": "allow"}}});
    let hooks = hook("PermissionRequest", &format!("echo '{said}'"));
    let (sandbox, worker) = with_hooks(&hooks, &[]);
    assert_eq!(ask(&sandbox, &worker)["assistantText"], "permission: allow-once");
    assert_eq!(of_type(&sandbox, &worker, "approval.decided")[0]["hook"]["event"], "ApprovalRequested");
    sandbox.finish();
    let (sandbox, worker) = with_hooks(&hook("PermissionRequest", "exit 2"), &["--allow", "execute(make)"]);
    assert_eq!(ask(&sandbox, &worker)["assistantText"], "permission: allow-once", "nothing is asked");
    sandbox.finish();
    // What the first hooks want to have asked is a question too.
    for before in ["true".to_owned(), says("ask")] {
        let mut hooks = hook("PermissionRequest", "echo 'ask me first' >&2; exit 2");
        hooks["PreToolUse"] = hook("PreToolUse", &before)["PreToolUse"].take();
        let flags = if before == "true" { &[][..] } else { &["--allow", "execute(make)"] };
        let (sandbox, worker) = with_hooks(&hooks, flags);
        assert_eq!(ask(&sandbox, &worker)["assistantText"], "permission: reject-once", "{before}");
        let decided = of_type(&sandbox, &worker, "approval.decided").remove(0);
        assert_eq!((&decided["note"], &decided["by"]), (&json!("ask me first"), &json!("hook")));
        assert_eq!(decided["hook"]["event"], "ApprovalRequested", "{decided}");
        sandbox.finish();
    }
}

#[test]
fn a_question_that_an_untrusted_hook_would_answer_is_asked() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    project_hooks(&sandbox, &hook("PermissionRequest", "exit 2"));
    let worker = start(&sandbox, &[]);
    let waited = ask(&sandbox, &worker);
    assert_asked(&sandbox, &worker, &waited);
    let failed = of_type(&sandbox, &worker, "hook.failed").remove(0);
    assert!(failed["reason"].as_str().unwrap().contains("subagent hook trust"), "{failed}");
    sandbox.finish();
}

#[test]
fn a_trusted_definition_may_not_allow() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let hooks = hook("PreToolUse", &says("allow"));
    let file = define(&sandbox, "builder", &format!("hooks: {hooks}\n"));
    let _ = sandbox.run(&["hook", "trust", file.to_str().unwrap(), "--yes"]).data_of("hook.trusted");
    let worker = start(&sandbox, &["--agent", "builder"]);
    let waited = ask(&sandbox, &worker);
    assert_asked(&sandbox, &worker, &waited);
    let failed = of_type(&sandbox, &worker, "hook.failed").remove(0);
    assert!(failed["reason"].as_str().unwrap().contains("user's config"), "{failed}");
    sandbox.finish();
}

#[test]
fn a_definition_of_the_command_line_may_not_allow() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let builder = json!({"description": "d", "prompt": "p", "hooks": hook("PreToolUse", &says("allow"))});
    let agents = json!({"builder": builder}).to_string();
    let worker = start(&sandbox, &["--agents", &agents, "--agent", "builder"]);
    let waited = ask(&sandbox, &worker);
    assert_asked(&sandbox, &worker, &waited);
    let failed = of_type(&sandbox, &worker, "hook.failed").remove(0);
    assert!(failed["reason"].as_str().unwrap().contains("user's config"), "{failed}");
    sandbox.finish();
}

/// A hook that records its runs and waits until the file `go` exists.
fn waiting(sandbox: &TestSandbox) -> String {
    let (runs, go) = (sandbox.file_name("runs"), sandbox.file_name("go"));
    format!("echo run >> {runs}; until [ -e {go} ]; do sleep 0.05; done; exit 2")
}

fn await_runs(sandbox: &TestSandbox, count: usize) {
    wait_until("the runs of the hook", PATIENCE, || {
        let runs = fs::read_to_string(sandbox.file("runs")).unwrap_or_default();
        (runs.lines().count() == count).then_some(())
    });
}

fn held() -> (TestSandbox, String, Value) {
    let sandbox = TestSandbox::new();
    own_config(&sandbox, &format!("hooks: {}\n", hook("PreToolUse", &waiting(&sandbox))));
    sandbox.init();
    let worker = start(&sandbox, &[]);
    let accepted = sandbox.send_no_wait(&worker, "!ask execute make");
    await_runs(&sandbox, 1);
    (sandbox, worker, accepted)
}

#[test]
fn a_request_that_waits_for_its_hooks_is_no_question() {
    let (sandbox, worker, accepted) = held();
    assert_eq!(sandbox.show(&worker)["state"], "running");
    assert_eq!(of_type(&sandbox, &worker, "approval.requested"), Vec::<Value>::new());
    let listed = sandbox.run(&["approval", "list"]).data();
    assert_eq!(listed["items"], json!([]), "{listed}");
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_killed_leaves_no_hook_and_the_next_runs_it_again() {
    let (sandbox, worker, accepted) = held();
    sandbox.kill_daemon();
    let _ = sandbox.show(&worker);
    await_runs(&sandbox, 2);
    fs::write(sandbox.file("go"), "").unwrap();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let decided = of_type(&sandbox, &worker, "approval.decided");
    assert_eq!(decided.len(), 1, "{decided:?}");
    assert_eq!(of_type(&sandbox, &worker, "approval.requested").len(), 1);
    sandbox.finish();
}

/// Waits until the hook of [`held`] has ended with everything it started.
fn await_end_of_hook(sandbox: &TestSandbox) {
    let go = sandbox.file_name("go");
    wait_until("the end of the hook", PATIENCE, || {
        let has = |process: &std::path::Path| {
            fs::read(process.join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&go))
        };
        let left = fs::read_dir("/proc").unwrap().filter_map(Result::ok).any(|entry| has(&entry.path()));
        (!left).then_some(())
    });
}

#[test]
fn a_cancel_ends_the_hook() {
    let (sandbox, worker, accepted) = held();
    let _ = sandbox.run(&["cancel", "--worker-id", &worker]).data();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    await_end_of_hook(&sandbox);
    sandbox.finish();
}

/// Returns a hook for messages.
fn of_prompts(line: &str) -> Value {
    json!({"UserPromptSubmit": [{"hooks": [{"type": "command", "command": line, "timeout": 1}]}]})
}

#[test]
fn a_message_that_a_hook_refuses_is_not_stored() {
    for (line, code, reason) in [
        ("grep -q secret && { echo 'no secrets' >&2; exit 2; }; exit 0", "HOOK_DENIED", "no secrets"),
        ("echo '{\"decision\": \"block\", \"reason\": \"no\"}'", "HOOK_DENIED", "no"),
        (&says("deny"), "HOOK_DENIED", "because"),
        ("exit 1", "HOOK_FAILED", "it exited with 1"),
        ("sleep 1000", "HOOK_FAILED", "before its deadline"),
    ] {
        let (sandbox, worker) = with_hooks(&of_prompts(line), &[]);
        let error = sandbox.sending(&worker, "say the secret").run().error(code);
        assert!(error["message"].as_str().unwrap().contains(reason), "{line}: {error}");
        assert_eq!(of_type(&sandbox, &worker, "turn.started"), Vec::<Value>::new());
        sandbox.finish();
    }
}

#[test]
fn what_a_hook_says_of_a_message_is_added_to_it() {
    let (sandbox, worker) = with_hooks(&of_prompts("echo 'it is Friday'"), &[]);
    let waited = sandbox.send(&worker, "hello");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    let sent = of_type(&sandbox, &worker, "message.sent").remove(0);
    let added = "hello\n\n<hook event=\"UserPromptSubmit\">\nit is Friday\n</hook>";
    assert_eq!(sent["text"], added, "{sent}");
    sandbox.finish();
}

#[test]
fn a_repetition_of_an_accepted_message_asks_no_hook_again() {
    let sandbox = TestSandbox::new();
    let runs = sandbox.file("runs");
    // It refuses from the second time on.
    let line = format!("echo ran >> {0}; test $(wc -l < {0}) -eq 1 || exit 2", runs.display());
    own_config(&sandbox, &format!("hooks: {}\n", of_prompts(&line)));
    sandbox.init();
    let worker = start(&sandbox, &[]);
    let send = || sandbox.sending(&worker, "hello").args(["--turn-id", "turn-of-a-script"]).run();
    let first = send().data_of("turn.waited");
    assert_eq!(send().data_of("turn.waited")["turnId"], first["turnId"]);
    assert_eq!(fs::read_to_string(&runs).unwrap().lines().count(), 1);
    let _ = sandbox.sending(&worker, "another one").run().error("HOOK_DENIED");
    sandbox.finish();
}

#[test]
fn a_stop_of_the_worker_ends_the_hook() {
    let (sandbox, worker, _) = held();
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    await_end_of_hook(&sandbox);
    assert_eq!(of_type(&sandbox, &worker, "approval.decided"), Vec::<Value>::new());
    sandbox.finish();
}

#[test]
fn requests_that_are_open_at_once_have_their_hooks_run_at_once() {
    let sandbox = TestSandbox::new();
    let runs = sandbox.file("runs");
    // Each waits until both run.
    let line = format!(
        "echo ran >> {0}; until [ $(wc -l < {0}) -ge 2 ]; do sleep 0.05; done; exit 2",
        runs.display()
    );
    own_config(&sandbox, &format!("hooks: {}\n", hook("PreToolUse", &line)));
    sandbox.init();
    let worker = start(&sandbox, &[]);
    let waited = sandbox.send(&worker, "!ask2 execute make");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    let decided = of_type(&sandbox, &worker, "approval.decided");
    assert_eq!(decided.len(), 2, "{decided:?}");
    assert!(decided.iter().all(|decided| decided["by"] == "hook"), "{decided:?}");
    sandbox.finish();
}
