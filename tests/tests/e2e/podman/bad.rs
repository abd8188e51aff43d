//! What can be wrong with a container: each has a code and advice, and leaves no container.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox, wait_until};

use super::engine::{DEADLINE, Podman};

/// Starts a worker there in vain, returns the error and removes the worker.
fn refused(sandbox: &TestSandbox, code: &str) -> Value {
    let error = sandbox.try_start_on("box").error(code);
    if let Some(worker) = error["details"]["workerId"].as_str() {
        let _ = sandbox.run(&["worker", "rm", "--force", worker]).data_of("worker.removed");
    }
    error
}

#[test]
fn what_is_missing_in_a_container_is_named() {
    let mut sandbox = TestSandbox::new();
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    sandbox.init();
    podman.place(&sandbox, json!({"command": ["no-such-engine"]}));
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert!(error["message"].as_str().unwrap().contains("no-such-engine"), "{error}");
    podman.place(&sandbox, json!({"image": "localhost/no-such-image:1", "args": ["--network=none"]}));
    let error = refused(&sandbox, "PLACEMENT_NOT_PREPARED");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("prepare box"), "{error}");
    podman.place(&sandbox, json!({"args": ["--no-such-option"]}));
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "engine", "{error}");
    podman.place(&sandbox, json!({"cwd": "/no-such-folder"}));
    let error = refused(&sandbox, "PLACEMENT_FOLDER_MISSING");
    assert_eq!(error["details"]["cwd"], "/no-such-folder", "{error}");
    podman.place(&sandbox, json!({"program": "/usr/bin/no-such-runtime"}));
    let _ = refused(&sandbox, "PLACEMENT_NOT_PREPARED");
    // It ends at once, so nothing can be executed in its container.
    podman.place(&sandbox, json!({"program": "/usr/bin/true"}));
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "container", "{error}");
    assert!(podman.containers().is_empty());
    podman.place(&sandbox, json!({}));
    let worker = sandbox.start_on("box");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn an_agent_that_only_this_machine_has_is_named_and_leaves_no_container() {
    let mut sandbox = TestSandbox::new();
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    let bin = sandbox.file("bin");
    fs::create_dir(&bin).unwrap();
    symlink(sandbox.executable("subagent"), bin.join("agent-of-this-machine")).unwrap();
    let path = std::env::var("PATH").unwrap();
    sandbox.set_env("PATH", format!("{}:{path}", bin.display()));
    // Without the folder of the executables. The runtime is mounted by itself.
    let shared = sandbox.path().to_str().unwrap().to_owned();
    podman.place(&sandbox, json!({"mounts": [".:/work", "/usr:/usr:ro", format!("{shared}:{shared}")]}));
    sandbox.init();
    for (launcher, program) in [
        (sandbox.demo_agent(&[]), sandbox.executable("subagent")),
        (TestLauncher::new("agent-of-this-machine", ["demo-agent"]), "agent-of-this-machine".to_owned()),
    ] {
        sandbox.launcher("demo", launcher);
        let error = refused(&sandbox, "BACKEND_LAUNCHER");
        assert!(error["message"].as_str().unwrap().contains(&program), "{program}: {error}");
        let details = &error["details"];
        assert_eq!((&details["launcher"], &details["placement"]), (&json!("demo"), &json!("box")), "{error}");
        assert!(details["recommendedAction"].as_str().unwrap().contains("install it there"), "{error}");
        assert!(podman.containers().is_empty());
        let folder = sandbox.state_dir().join("placed").join(details["workerId"].as_str().unwrap());
        wait_until("the removal of the folder", DEADLINE, || (!folder.exists()).then_some(()));
        wait_until("the end of everything there", DEADLINE, || {
            sandbox.processes().iter().all(|one| one.name == "subagentd").then_some(())
        });
    }
    // Here it is found.
    let _ = sandbox.start("demo");
    sandbox.finish();
}

#[test]
fn a_placement_of_a_container_is_checked_step_by_step() {
    let mut sandbox = TestSandbox::new();
    let Some(podman) = Podman::prepare(&mut sandbox) else { return };
    let check = || sandbox.run(&["placement", "check", "box"]);
    let checked = check().data_of("placement.checked");
    let steps: Vec<&Value> = checked["items"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
    assert_eq!(steps, ["engine", "runtime", "folder", "container", "agent", "log", "stop"], "{checked}");
    let prepared = sandbox.run(&["placement", "prepare", "box"]).data_of("placement.prepared");
    assert_eq!(prepared["pulled"], false, "{prepared}");
    podman.place(&sandbox, json!({"cwd": "/none"}));
    let error = check().error("PLACEMENT_FOLDER_MISSING");
    assert_eq!(error["details"]["steps"][1]["step"], "runtime", "{error}");
    // A runtime that the image cannot execute.
    let other = sandbox.file("other-runtime");
    fs::write(&other, "#!/bin/sh\necho subagent-runtime 0.0.1\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    podman.place(&sandbox, json!({"program": other}));
    let error = check().error("PLACEMENT_NOT_PREPARED");
    assert!(error["message"].as_str().unwrap().contains("0.0.1"), "{error}");
    podman.place(&sandbox, json!({"image": "localhost/no-such-image:1", "args": ["--network=none"]}));
    let error = check().error("PLACEMENT_NOT_PREPARED");
    assert_eq!(error["details"]["steps"][0]["step"], "engine", "{error}");
    let listed = sandbox.run(&["placement", "list"]).data_of("placement.listed");
    assert_eq!(listed["items"][0]["image"], "localhost/no-such-image:1", "{listed}");
    assert!(podman.containers().is_empty());
    sandbox.finish();
}
