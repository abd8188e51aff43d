//! Tasks across places: a worker of this machine, its task in a container, and the task of that one
//! on a host.

use std::fs;

use serde_json::json;
use subagent_tests::harness::{SshHost, TestSandbox};

use super::engine::Podman;

#[test]
fn the_question_of_a_grandchild_on_a_host_below_a_container_is_answered_here() {
    let mut sandbox = TestSandbox::new();
    sandbox.define("boxed", "placement: box\npermission: {task: allow}\n");
    sandbox.define("far", "placement: there\n");
    let Some(host) = SshHost::start(&sandbox) else { return };
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    let root = sandbox.delegating(&json!({}), &[]);
    // The id and the token of the child are known only to the child.
    let file = sandbox.file("below.sh");
    let script = format!(
        "worker=${{SUBAGENT_MARKER%%.*}}\n\
         export SUBAGENT_STATE_DIR={}/placed/$worker/tasks\n\
         export SUBAGENT_TASK_TOKEN=$(sed 's/.*\"taskToken\":\"\\([0-9a-f]*\\)\".*/\\1/' {}/*-$worker.env)\n\
         exec /run/subagent/subagent task run --agent far --name Far --text-stdin <<'END' 2>&1\n\
         !ask edit notes.md\n!shell pwd\nEND\n",
        sandbox.state_dir().display(),
        sandbox.file("run/subagent").display(),
    );
    fs::write(&file, script).unwrap();
    let prompt = format!("!shell pwd; cat /proc/1/comm; sh {}", file.display());
    let asked =
        sandbox.send(&root, &sandbox.gives(&sandbox.task_file("boxed", "Boxed", "foreground", &prompt)));
    let event = &asked["matchedEvent"];
    assert_eq!(event["type"], "approval.requested", "{asked}");
    let inbox = sandbox.run(&["approval", "list"]).data_of("inbox.listed");
    let path = inbox["items"][0]["path"].to_string();
    assert!(path.contains("Boxed") && path.contains("Far"), "{inbox}");
    assert_eq!(podman.containers().len(), 1);
    let far = event["workerId"].as_str().unwrap();
    let _ = sandbox.approve(far, &event["data"]["requestId"], "allow").data_of("approval.decided");
    let end = sandbox.wait_after(&root, &asked["acceptedEventId"], "turn.completed");
    assert_eq!(end["type"], "turn.completed", "{end}");
    let result = sandbox.run(&["result", &root]).document().to_string();
    for expected in ["/work", "subagent-hold", host.work().to_str().unwrap()] {
        assert!(result.contains(expected), "{expected}: {result}");
    }
    let _ = sandbox.run(&["worker", "stop", &root]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn an_mcp_client_in_a_container_gives_a_task_to_an_agent_in_another_container() {
    let mut sandbox = TestSandbox::new();
    let caller = sandbox.test_agent("hostile-agent", &[]).key("prefixTools", json!(true));
    sandbox.launcher("caller", caller);
    sandbox.define("boxed", "launcher: caller\nplacement: box\npermission: {task: allow}\n");
    sandbox.define("deep", "launcher: demo\nplacement: box\n");
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    let root = sandbox.delegating(&json!({}), &[]);
    let prompt = "quirk: task-of-its-own deep !ask edit notes.md\\n!shell pwd; cat /proc/1/comm";
    let asked =
        sandbox.send(&root, &sandbox.gives(&sandbox.task_file("boxed", "Boxed", "foreground", prompt)));
    let event = &asked["matchedEvent"];
    assert_eq!(event["type"], "approval.requested", "{asked}");
    let inbox = sandbox.run(&["approval", "list"]).data_of("inbox.listed");
    let path = inbox["items"][0]["path"].as_array().unwrap();
    assert!(path.len() == 3 && inbox["items"][0]["path"].to_string().contains("Boxed"), "{inbox}");
    assert_eq!(podman.containers().len(), 2);
    let deep = event["workerId"].as_str().unwrap();
    let _ = sandbox.approve(deep, &event["data"]["requestId"], "allow").data_of("approval.decided");
    let end = sandbox.wait_after(&root, &asked["acceptedEventId"], "turn.completed");
    assert_eq!(end["type"], "turn.completed", "{end}");
    let result = sandbox.run(&["result", &root]).document().to_string();
    for expected in
        ["subagent_task: ", "<task_result agent=", "permission: allow-once", "/work", "subagent-hold"]
    {
        assert!(result.contains(expected), "{expected}: {result}");
    }
    let _ = sandbox.run(&["worker", "stop", &root]).data_of("worker.stopped");
    sandbox.finish();
}
