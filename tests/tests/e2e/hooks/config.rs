//! The sources of a worker's hooks, and the errors of refused ones.

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::{define, own_config, project_hooks};

/// Returns the hooks of a worker: event, command and origin.
pub(super) fn of_worker(sandbox: &TestSandbox, worker: &str) -> Vec<String> {
    let inspected = sandbox.run(&["worker", "inspect", worker]).data_of("worker.inspected");
    let hooks = inspected["hooks"].as_array().cloned().unwrap_or_default();
    let reported = |hook: &Value| {
        let text = |key: &str| hook[key].as_str().unwrap().to_owned();
        format!("{} {} {}", text("event"), text("command"), text("origin"))
    };
    hooks.iter().map(reported).collect()
}

#[test]
fn a_worker_has_the_hooks_of_the_user_the_project_and_its_definition() {
    let sandbox = TestSandbox::new();
    own_config(&sandbox, "hooks: {PreToolUse: [{matcher: Bash, hooks: [{type: command, command: own}]}]}\n");
    let hook = json!({"type": "command", "command": "project", "timeout": 5});
    project_hooks(&sandbox, &json!({"Stop": [{"hooks": [hook]}]}));
    define(
        &sandbox,
        "reviewer",
        "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          \
         command: ./scripts/validate.sh\n  PreCompact:\n    - hooks: [{type: command, command: x}]\n",
    );
    sandbox.init();
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--agent", "reviewer"]);
    let started = started.data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap();
    assert_eq!(
        of_worker(&sandbox, worker),
        ["PreToolUse own user", "Stop project project", "PreToolUse ./scripts/validate.sh definition"]
    );
    let inspected = sandbox.run(&["worker", "inspect", worker]).data_of("worker.inspected");
    assert_eq!(inspected["hooks"][1]["timeoutMs"], 5000);
    assert_eq!(inspected["agent"]["notHonoured"][0]["key"], "hooks.PreCompact");
    // The worker that continues has the same.
    let continued = sandbox.run(&["worker", "continue", "--from-worker", worker]).data();
    let next = continued["workerId"].as_str().or(continued["worker"]["workerId"].as_str()).unwrap();
    assert_eq!(of_worker(&sandbox, next), of_worker(&sandbox, worker));
    sandbox.finish();
}

#[test]
fn what_is_wrong_has_a_place_and_advice() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    for (text, line, advice) in [
        (
            "hooks:\n  PreTooluse:\n    - hooks: [{type: command, command: x}]\n",
            2,
            "is not an event; write SessionStart",
        ),
        (
            "hooks:\n  Stop:\n    - hooks:\n      - type: http\n        url: x\n",
            4,
            "only hooks of the type `command`",
        ),
    ] {
        own_config(&sandbox, text);
        let error = sandbox.run(&["worker", "start", "--launcher", "demo"]).error("CONFIG_PARSE_ERROR");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(".config/subagent/config.yaml:") && message.contains(advice), "{message}");
        assert_eq!(error["details"]["line"], json!(line), "{error}");
    }
    sandbox.finish();
}
