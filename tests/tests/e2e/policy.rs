//! Rules from outside: allowed calls are not asked, denied ones are not done, and
//! the decider is reported.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

const RULES: &[&str] = &["--allow", "execute(ls *)", "--deny", "execute(rm *)"];

fn start(sandbox: &TestSandbox, flags: &[&str]) -> String {
    let started = sandbox.subagent(&["worker", "start", "--launcher", "demo"]).args(flags).run();
    started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

fn with_rules(flags: &[&str]) -> (TestSandbox, String) {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let worker = start(&sandbox, flags);
    (sandbox, worker)
}

fn of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    sandbox.events(worker).into_iter().filter(|event| event["type"] == event_type).collect()
}

#[test]
fn what_is_allowed_is_not_asked_and_what_is_denied_is_not_done() {
    let (sandbox, worker) = with_rules(RULES);
    let waited = sandbox.send(&worker, "!ask execute ls -l");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "no decision may be required: {waited}");
    assert_eq!(waited["assistantText"], "permission: allow-once");
    let waited = sandbox.send(&worker, "!ask execute ls && rm -rf build");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed");
    assert_eq!(waited["assistantText"], "permission: reject-once");
    let decided: Vec<Value> = of_type(&sandbox, &worker, "approval.decided")
        .into_iter()
        .map(|event| event["data"].clone())
        .collect();
    assert_shape(
        &decided[0],
        &json!({
            "requestId": "ap", "decision": "=allow", "optionId": "=allow-once", "alias": "str", "note": "str?", "by": "=rule",
            "policy": {"action": "=allow", "kind": "=execute", "subject": "=ls -l", "rule": "=execute(ls *)", "layer": "=owner"},
        }),
    );
    assert_eq!(decided[1]["policy"]["subject"], "rm -rf build");
    assert_eq!(decided[1]["policy"]["rule"], "execute(rm *)");
    let pending = sandbox.run(&["worker", "show", &worker]).data_of("worker.shown");
    assert_eq!(pending["questions"], json!(null), "{pending}");
    sandbox.finish();
}

#[test]
fn without_a_rule_the_owner_is_asked() {
    let (sandbox, worker) = with_rules(RULES);
    let waited = sandbox.send(&worker, "!ask execute make");
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested");
    let decided = sandbox.approve(&worker, &waited["requestId"], "allow").data_of("approval.decided");
    assert_eq!(decided["optionId"], "allow-once");
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    assert_eq!(of_type(&sandbox, &worker, "approval.decided")[0]["data"].get("policy"), None);
    sandbox.finish();
}

#[test]
fn a_request_that_a_rule_has_decided_is_over_for_people() {
    let (sandbox, worker) = with_rules(RULES);
    let _ = sandbox.send(&worker, "!ask execute ls");
    let asked = of_type(&sandbox, &worker, "approval.requested").remove(0);
    let late = sandbox.approve(&worker, &asked["data"]["requestId"], "deny");
    late.error("APPROVAL_NOT_PENDING");
    sandbox.finish();
}

#[test]
fn a_request_that_was_asked_without_a_daemon_is_decided_by_the_next() {
    let (sandbox, worker) = with_rules(RULES);
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("{}\n!ask execute ls", gate.directive()));
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let decided = of_type(&sandbox, &worker, "approval.decided");
    assert_eq!(decided.len(), 1, "{decided:?}");
    assert_eq!(decided[0]["data"]["policy"]["rule"], "execute(ls *)");
    sandbox.finish();
}

#[test]
fn a_denied_call_that_was_made_without_asking_cancels_the_turn() {
    let (sandbox, worker) = with_rules(RULES);
    let waited = sandbox.send(&worker, "!tool execute rm -rf build\n!sleep 60000");
    let end = &waited["matchedEvent"];
    assert_eq!(end["type"], "turn.canceled", "{waited}");
    let reason = end["data"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("POLICY_VIOLATION: ") && reason.contains("rm -rf build"), "{reason}");
    assert!(reason.ends_with("(it was reported as completed, and no request was for it)"), "{reason}");
    let violated = of_type(&sandbox, &worker, "policy.violated");
    assert_eq!(violated.len(), 1);
    assert_shape(
        &violated[0]["data"],
        &json!({
            "toolCallId": "str", "evidence": "str", "action": "=deny", "kind": "=execute", "subject": "=rm -rf build",
            "rule": "=execute(rm *)", "layer": "=owner",
        }),
    );
    let shown = sandbox.show(&worker);
    assert_eq!(shown["state"], "idle");
    assert!(shown["lastError"].as_str().unwrap().starts_with("POLICY_VIOLATION: "), "{shown}");
    let waited = sandbox.send(&worker, "!tool execute ls\n!tool execute make");
    assert_eq!(
        waited["matchedEvent"]["type"], "turn.completed",
        "actions that are not denied must be possible: {waited}"
    );
    sandbox.finish();
}

/// Returns the directive by which the agent reports a call.
fn update_line(update: &Value) -> String {
    let params = json!({"sessionId": "SESSION", "update": update});
    format!("!raw {}", json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

#[test]
fn a_call_that_was_reported_before_the_daemon_died_is_known_to_the_next() {
    let (sandbox, worker) = with_rules(RULES);
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "kind": "execute",
                      "status": "pending", "rawInput": {"command": "rm x"}});
    let over =
        update_line(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}));
    let gate = sandbox.gate("denied");
    let script = format!("{}\n{}\n{over}\n!sleep 60000", update_line(&call), gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &script);
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.update");
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    assert_eq!(of_type(&sandbox, &worker, "policy.violated").len(), 1);

    // Only allowing is offered: the owner has decided, so it is not a violation.
    let gate = sandbox.gate("asked");
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}]);
    let params = json!({"sessionId": "SESSION", "toolCall": call, "options": options});
    let ask = json!({"jsonrpc": "2.0", "id": 4242, "method": "session/request_permission", "params": params});
    let script = format!("!raw {ask}\n{}\n{over}", gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &script);
    let asked = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "approval.requested");
    sandbox.approve(&worker, &asked["data"]["requestId"], "allow").data_of("approval.decided");
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(of_type(&sandbox, &worker, "policy.violated").len(), 1);
    sandbox.finish();
}

#[test]
fn a_worker_keeps_the_rules_that_it_was_started_with() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let file = sandbox.file_name("policy.yaml");
    let launchers = fs::read_to_string(sandbox.config_file()).unwrap();
    let config = |rule: &str| format!("{launchers}\npermissions:\n  execute:\n    \"make *\": {rule}\n");
    fs::write(&file, config("allow")).unwrap();
    let old = start(&sandbox, &["--config", &file]);
    fs::write(&file, config("deny")).unwrap();
    let new = start(&sandbox, &["--config", &file]);
    sandbox.kill_daemon();
    for (worker, said) in [(&old, "permission: allow-once"), (&new, "permission: reject-once")] {
        assert_eq!(sandbox.send(worker, "!ask execute make all")["assistantText"], said);
    }
    let reported = of_type(&sandbox, &new, "approval.decided").remove(0)["data"]["policy"].clone();
    assert_eq!(
        (&reported["layer"], &reported["rule"], &reported["source"]),
        (&json!("config"), &json!("execute(make *)"), &json!(file))
    );
    assert!(reported["line"].as_u64().unwrap() > 1, "{reported}");
    sandbox.finish();
}

#[test]
fn a_rule_that_is_none_is_located() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let args = ["worker", "start", "--launcher", "demo", "--deny", "execute(git push"];
    let error = sandbox.run(&args).error("INVALID_ARGUMENT");
    assert_eq!(
        (&error["details"]["flag"], &error["details"]["rule"], &error["details"]["column"]),
        (&json!("--deny"), &json!("execute(git push"), &json!(17))
    );
    let file = sandbox.file_name("policy.yaml");
    fs::write(&file, "permissions:\n  execute:\n    \"git push*\": forbid\n").unwrap();
    let error =
        sandbox.run(&["policy", "test", "execute", "ls", "--config", &file]).error("CONFIG_PARSE_ERROR");
    assert_eq!((&error["details"]["line"], &error["details"]["column"]), (&json!(3), &json!(5)), "{error}");
    sandbox.finish();
}

#[test]
fn a_test_of_the_rules_says_which_one_decides() {
    let sandbox = TestSandbox::new();
    let file = sandbox.file_name("policy.yaml");
    fs::write(
        &file,
        "permissions:\n  \"*\": ask\n  execute:\n    \"ls *\": allow\n    \"git push*\": deny\n",
    )
    .unwrap();
    let test = |words: &[&str]| {
        let run = sandbox.subagent(&["policy", "test", "--config", &file]).args(words).run();
        run.data_of("policy.tested")
    };
    let data = test(&["execute", "ls; git push -f"]);
    let by = |rule: &str, action: &str, line: u64| json!({"layer": "config", "source": file, "rule": rule, "action": action, "line": line, "column": 5});
    assert_eq!(
        data,
        json!({
            "tool": "execute", "subject": "ls; git push -f", "action": "deny", "configPath": file, "configLoaded": true,
            "judged": [
                {"kind": "execute", "subject": "ls", "action": "allow", "by": by("execute(ls *)", "allow", 4), "note": null},
                {"kind": "execute", "subject": "git push -f", "action": "deny", "by": by("execute(git push*)", "deny", 5), "note": null},
            ],
            "notes": [],
        })
    );
    assert_eq!(
        test(&["execute", "git push", "--allow", "execute(git push)"])["action"],
        "allow",
        "the owner's rules come later"
    );
    assert_eq!(test(&["Bash", "git push"])["action"], "deny");
    assert_eq!(test(&["edit", "src/main.rs"])["judged"][0]["by"]["rule"], "*");
    assert_eq!(test(&["mcp__a__b"])["action"], "ask");
    assert_eq!(test(&["execute", "ls \""])["action"], "ask");
    assert_eq!(test(&["my_tool", "--allow", "my_tool"])["notes"].as_array().unwrap().len(), 1);
    let text =
        sandbox.command("subagent").args(["policy", "test", "execute", "git push", "--config", &file]).run();
    let lines: Vec<&str> = text.text().lines().collect();
    assert_eq!(lines[0], "action: deny");
    assert!(lines[1].contains("config rule `execute(git push*): deny` at "), "{lines:?}");
    sandbox.finish();
}
