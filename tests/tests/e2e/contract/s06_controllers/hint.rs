//! `.subagent/controller.json`, the hint: which controller it selects, and that
//! nothing depends on it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use nix::sys::stat::Mode;
use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::{key, take_over};

fn path(sandbox: &TestSandbox) -> PathBuf {
    sandbox.workspace().join(".subagent/controller.json")
}

fn read(sandbox: &TestSandbox) -> Value {
    serde_json::from_slice(&fs::read(path(sandbox)).unwrap()).unwrap()
}

/// Returns the controller that `status` finds.
fn found(sandbox: &TestSandbox) -> Value {
    sandbox.run(&["controller", "status"]).data()["controllerId"].clone()
}

#[test]
fn it_names_the_controller_and_holds_no_secret() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    let expected = json!({
        "schemaVersion": "v1", "controllerId": granted["controllerId"], "label": "default-manager",
        "workspaceKey": key(&sandbox),
    });
    assert_eq!(read(&sandbox), expected);
    assert_eq!(fs::metadata(path(&sandbox)).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(path(&sandbox)).unwrap();
    take_over(&sandbox);
    assert_eq!(read(&sandbox), expected, "attach must write it too");
    sandbox.finish();
}

#[test]
fn an_unknown_controller_in_it_is_passed_over() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    let id = &granted["controllerId"];
    for unknown in ["ctl_ffffffffff", "no id at all"] {
        fs::write(path(&sandbox), json!({"controllerId": unknown}).to_string()).unwrap();
        assert_eq!(found(&sandbox), *id, "{unknown}");
        let error = sandbox.run(&["controller", "init"]).error("CONTROLLER_OWNERSHIP_CONFLICT");
        assert_eq!(error["details"]["controllerId"], *id);
        assert_eq!(take_over(&sandbox)["controllerId"], *id);
        assert_eq!(read(&sandbox)["controllerId"], *id);
    }
    sandbox.finish();
}

#[test]
fn what_is_no_hint_is_none_and_is_replaced_by_the_next() {
    let sandbox = TestSandbox::new();
    let id = sandbox.init()["controllerId"].clone();
    let path = path(&sandbox);
    let large = format!("{{\"controllerId\": \"ctl_ffffffffff\", \"x\": \"{}\"}}", "x".repeat(10 << 20));
    let make: [(&str, &dyn Fn()); 6] = [
        ("not JSON", &|| fs::write(&path, "{").unwrap()),
        ("not UTF-8", &|| fs::write(&path, b"{\"controllerId\": \"\xff\"}").unwrap()),
        ("another shape", &|| fs::write(&path, "[1]").unwrap()),
        ("large", &|| fs::write(&path, &large).unwrap()),
        ("a pipe", &|| nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap()),
        ("a folder", &|| fs::create_dir(&path).unwrap()),
    ];
    for (what, make) in make {
        fs::remove_file(&path).unwrap();
        make();
        assert_eq!(found(&sandbox), id, "{what}");
        let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        sandbox.run(&["controller", "release", "--force"]).data_of("controller.released");
        assert_eq!(sandbox.init()["controllerId"], id, "{what}");
        assert_eq!(read(&sandbox)["controllerId"], id, "{what}");
    }
    sandbox.finish();
}

#[test]
fn one_that_cannot_be_written_does_not_cost_the_ownership() {
    let sandbox = TestSandbox::new();
    fs::create_dir(path(&sandbox)).unwrap();
    fs::write(path(&sandbox).join("foreign"), "").unwrap();
    let output = sandbox.run(&["controller", "init"]);
    let data = output.data_of("controller.initialized");
    let intended = format!("{}/.subagent/controller.json", key(&sandbox));
    assert_eq!((&data["hintPath"], &data["owner"]["epoch"]), (&json!(intended), &json!(1)));
    assert!(output.stderr.starts_with("Warning: ") && output.stderr.contains("controller.json"), "{output}");
    assert_eq!(found(&sandbox), data["controllerId"]);
    sandbox.finish();
}

#[test]
fn it_is_the_controllers_workspace_that_gets_it() {
    let mut sandbox = TestSandbox::new();
    let state_dir = sandbox.state_dir().to_owned();
    sandbox.set_state_dir(state_dir);
    let here = sandbox.init();
    let other = sandbox.file("other");
    fs::create_dir(&other).unwrap();
    let there = sandbox.run(&["controller", "init", "--cwd", other.to_str().unwrap()]).data();
    let hint = other.join(".subagent/controller.json");
    let written = fs::read(&hint).unwrap();
    fs::remove_file(&hint).unwrap();
    let id = there["controllerId"].as_str().unwrap();
    let attach = ["controller", "attach", "--takeover", "--controller-id", id];
    let attached = sandbox.run(&attach).data_of("controller.attached");
    assert_eq!(attached["workspaceKey"], there["workspaceKey"]);
    assert_eq!(attached["hintPath"], there["hintPath"]);
    assert_eq!(fs::read(&hint).unwrap(), written);
    assert_eq!(read(&sandbox)["controllerId"], here["controllerId"], "this workspace's own hint must stay");
    assert_eq!(read(&sandbox)["workspaceKey"], key(&sandbox));
    sandbox.finish();
}

#[test]
fn one_that_was_copied_takes_the_controller_from_no_workspace() {
    let mut sandbox = TestSandbox::new();
    let state_dir = sandbox.state_dir().to_owned();
    sandbox.set_state_dir(state_dir);
    let original = sandbox.init();
    sandbox.run(&["controller", "release", "--force"]).data_of("controller.released");
    let copy = sandbox.file("copy");
    fs::create_dir_all(copy.join(".subagent")).unwrap();
    fs::copy(path(&sandbox), copy.join(".subagent/controller.json")).unwrap();
    let run = |args: &[&str]| sandbox.subagent(args).cwd(&copy).run();
    let second = run(&["controller", "init"]).data_of("controller.initialized");
    assert_ne!(second["controllerId"], original["controllerId"]);
    let hint: Value =
        serde_json::from_slice(&fs::read(copy.join(".subagent/controller.json")).unwrap()).unwrap();
    assert_eq!(hint["controllerId"], second["controllerId"]);
    // Also if the copy has a controller already.
    run(&["controller", "release", "--force"]).data_of("controller.released");
    fs::copy(path(&sandbox), copy.join(".subagent/controller.json")).unwrap();
    let again = run(&["controller", "init"]).data_of("controller.initialized");
    assert_eq!(again["controllerId"], second["controllerId"]);
    let first = sandbox.init();
    assert_eq!((&first["controllerId"], &first["owner"]["epoch"]), (&original["controllerId"], &json!(2)));
    assert_eq!(first["workspaceKey"], key(&sandbox));
    sandbox.finish();
}

#[test]
fn a_workspace_that_was_moved_keeps_its_controller() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    sandbox.command("subagentd").args(["stop"]).run().text();
    let moved = sandbox.file("moved");
    fs::rename(sandbox.workspace(), &moved).unwrap();
    let run = |args: &[&str]| sandbox.subagent(args).cwd(&moved).run();
    assert_eq!(run(&["controller", "status"]).data()["controllerId"], granted["controllerId"]);
    let attached = run(&["controller", "attach", "--takeover"]);
    let hint = moved.canonicalize().unwrap().join(".subagent/controller.json");
    assert_eq!(attached.data_of("controller.attached")["hintPath"], hint.to_str().unwrap());
    assert_eq!(attached.stderr, "");
    run(&["controller", "release", "--force"]).data_of("controller.released");
    let again = run(&["controller", "init"]).data_of("controller.initialized");
    assert_eq!((&again["controllerId"], &again["owner"]["epoch"]), (&granted["controllerId"], &json!(3)));
    assert_eq!(again["workspaceKey"], moved.canonicalize().unwrap().to_str().unwrap());
    let stopped = sandbox.command("subagentd").args(["stop"]).cwd(&moved).run();
    assert!(stopped.status.success(), "{stopped}");
    fs::rename(&moved, sandbox.workspace()).unwrap();
    sandbox.finish();
}
