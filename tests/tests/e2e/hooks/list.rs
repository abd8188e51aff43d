//! The commands `hook list` and `hook test`.

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::{command, define, own_config, project_hooks};

#[test]
fn all_hooks_that_apply_are_listed_without_a_daemon() {
    let sandbox = TestSandbox::new();
    assert_eq!(sandbox.run(&["hook", "list"]).data_of("hook.list"), json!({"count": 0, "items": []}));
    own_config(
        &sandbox,
        "hooks: {PermissionRequest: [{matcher: Bash, hooks: [{type: command, command: own}]}]}\n",
    );
    project_hooks(&sandbox, &json!({"WorktreeCreate": command("tree"), "Stop": command("stop")}));
    define(&sandbox, "reviewer", "hooks: {TurnEnd: [{hooks: [{type: command, command: end}]}]}\n");
    let listed = sandbox.run(&["hook", "list"]).data_of("hook.list");
    let summary: Vec<String> = listed["items"].as_array().unwrap().iter().map(summary).collect();
    assert_eq!(
        summary,
        [
            "ApprovalRequested Bash own user yes null",
            "WorktreeCreate * tree project untrusted null",
            "Stop * stop project untrusted null",
            "Stop * end definition untrusted \"reviewer\"",
        ]
    );
    let lines = sandbox.command("subagent").args(["hook", "list"]).run();
    assert!(lines.text().contains("stop"), "{lines}");
    let project = sandbox.config_file();
    let advice = format!("subagent hook trust {}", project.display());
    assert!(lines.to_string().contains(&advice), "{lines}");
    assert!(!sandbox.state_dir().join("state.db").exists(), "a daemon was started");
    sandbox.run(&["hook", "list", "--agent", "missing"]).error("AGENT_NOT_FOUND");
    sandbox.finish();
}

fn summary(item: &Value) -> String {
    let text = |key: &str| item[key].as_str().unwrap().to_owned();
    let keys = ["event", "matcher", "command", "origin", "runs"];
    format!("{} {}", keys.map(text).join(" "), item["agent"])
}

#[test]
fn a_test_runs_the_hooks_that_match_and_reports_what_each_says() {
    let sandbox = TestSandbox::new();
    let hook = |matcher: &str, line: &str| json!({"matcher": matcher, "hooks": command(line)[0]["hooks"]});
    let allow =
        r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'"#;
    let deny = r#"grep -q 'rm -rf' && echo "no rm -rf" >&2 && exit 2; exit 0"#;
    let hooks = json!({"PreToolUse": [hook("Bash", deny), hook("Edit", "exit 1"), hook("Bash", allow)]});
    own_config(&sandbox, &format!("hooks: {hooks}\n"));
    project_hooks(&sandbox, &json!({"PreToolUse": command(allow)}));
    let tested =
        |input: &str| sandbox.run(&["hook", "test", "PreToolUse", "--input", input]).data_of("hook.tested");
    let says = |data: &Value| -> Vec<String> {
        let items = data["items"].as_array().unwrap().iter();
        items.map(|item| item["says"].as_str().unwrap().to_owned()).collect()
    };
    let denied = tested(r#"{"command": "rm -rf /"}"#);
    assert_eq!(says(&denied), ["deny", "allow", "ask"], "{denied}");
    assert_eq!((&denied["decision"], &denied["items"][0]["reason"]), (&json!("deny"), &json!("no rm -rf")));
    assert_eq!(denied["input"]["tool_name"], "Bash");
    assert_eq!(tested(r#"{"command": "ls"}"#)["decision"], "ask", "an untrusted hook might deny it");
    sandbox.init();
    let _ = sandbox.run(&["hook", "trust", ".subagent/config.yaml", "--yes"]).data_of("hook.trusted");
    let trusted = tested(r#"{"command": "ls"}"#);
    assert_eq!(says(&trusted), ["nothing", "allow", "nothing"], "a project's allow must not count");
    assert_eq!(trusted["decision"], "allow");
    let unknown = sandbox.run(&["hook", "test", "PreCompact"]).error("INVALID_ARGUMENT");
    assert!(unknown["message"].as_str().unwrap().contains("event of Claude Code"), "{unknown}");
    sandbox.finish();
}
