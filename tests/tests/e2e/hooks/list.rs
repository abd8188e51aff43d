//! `hook list`.

use serde_json::{Value, json};
use subagent_tests::harness::Sandbox;

use super::{command, define, own_config, project_hooks};

#[test]
fn all_hooks_that_apply_are_listed_without_a_daemon() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&["hook", "list"]).data_of("hook.list"), json!({"count": 0, "items": []}));
    own_config(
        &sandbox,
        "hooks: {PermissionRequest: [{matcher: Bash, hooks: [{type: command, command: own}]}]}\n",
    );
    project_hooks(&sandbox, &json!({"WorktreeCreate": command("tree"), "Stop": command("stop")}));
    define(&sandbox, "reviewer", "hooks: {TurnEnd: [{hooks: [{type: command, command: end}]}]}\n");
    let listed = sandbox.run(&["hook", "list"]).data_of("hook.list");
    let told: Vec<String> = listed["items"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(
        told,
        [
            "ApprovalRequested Bash own user yes null",
            "WorktreeCreate * tree project never null",
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
    sandbox.run(&["hook", "list", "--agent", "nobody"]).error("AGENT_NOT_FOUND");
    sandbox.finish();
}

fn told(item: &Value) -> String {
    let text = |key: &str| item[key].as_str().unwrap().to_owned();
    let keys = ["event", "matcher", "command", "origin", "runs"];
    format!("{} {}", keys.map(text).join(" "), item["agent"])
}
