//! Hooks run as the user, outside of the sandbox of the worker that they are about.

use std::fs;
use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::wait_until;

use super::world::{Confinement, has_layers, world};

/// Time limit for a hook.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_hook_reads_and_writes_what_its_worker_may_not() {
    if !has_layers() {
        return;
    }
    let mut sandbox = world(Confinement::Both);
    let agent =
        sandbox.demo_agent(&[]).key("sandbox", json!({"write": ["allowed", "../sessions", "../pids"]}));
    sandbox.launcher("boxed", agent);
    let (secret, outside) = (sandbox.file_name("home/.ssh/id"), sandbox.file_name("outside"));
    let hook = |line: String| json!([{"hooks": [{"type": "command", "command": line}]}]);
    let before = format!("cat {secret} >{outside}/before && exit 2");
    let after = format!("cat {secret} >{outside}/after");
    let hooks = json!({"PreToolUse": hook(before), "Stop": hook(after)});
    fs::write(sandbox.file("home/.config/subagent/config.yaml"), format!("hooks: {hooks}\n")).unwrap();
    sandbox.init();
    let started = sandbox.run(&["worker", "start", "--launcher", "boxed"]).data_of("worker.started");
    assert_eq!(started["sandbox"]["layers"]["landlock"], 6, "{started}");
    let worker = started["workerId"].as_str().unwrap();
    for line in [format!("touch {outside}/agent"), format!("cat {secret}")] {
        let sent = sandbox.send(worker, &format!("!shell {line}"));
        assert!(!sent["assistantText"].as_str().unwrap().contains("a secret"), "{sent}");
    }
    assert!(!sandbox.file("outside/agent").exists(), "the agent is confined");
    let denied = sandbox.send(worker, "!ask execute make");
    assert!(denied["assistantText"].as_str().unwrap().ends_with("permission: reject-once"), "{denied}");
    assert_eq!(fs::read_to_string(sandbox.file("outside/before")).unwrap(), "a secret");
    wait_until("the hook of the end", LIMIT, || {
        fs::read_to_string(sandbox.file("outside/after")).is_ok_and(|read| read == "a secret").then_some(())
    });
    sandbox.finish();
}
