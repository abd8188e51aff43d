//! Controllers: becoming their owner, releasing them, and status.

mod crowd;
mod handles;
mod hint;
mod recover;
mod release;
mod status;

use serde_json::{Value, json};
use subagent_tests::harness::{Command, Output, TestSandbox, assert_shape};

/// Returns the variables of an ownership.
pub(super) fn handle(granted: &Value) -> [(&'static str, String); 3] {
    let owner = &granted["owner"];
    [
        ("SUBAGENT_CTL_ID", owner["controllerId"].as_str().unwrap().to_owned()),
        ("SUBAGENT_CTL_EPOCH", owner["epoch"].to_string()),
        ("SUBAGENT_CTL_TOKEN", owner["token"].as_str().unwrap().to_owned()),
    ]
}

/// Returns the command with these variables.
pub(super) fn owned(mut command: Command, handle: &[(&'static str, String); 3]) -> Command {
    for (name, value) in handle {
        command = command.env(*name, value.as_str());
    }
    command
}

/// Runs `subagent ARGS --json` in its own session, whose leader has ended afterwards.
pub(super) fn in_a_session_that_ends(sandbox: &TestSandbox, args: &[&str]) -> Output {
    // The `exit` prevents the shell from becoming the command itself.
    let script = ["--wait", "sh", "-c", "\"$0\" \"$@\"; exit $?"];
    let subagent = sandbox.executable("subagent");
    sandbox.command("setsid").args(script).args([&subagent]).args(args).args(["--json"]).run()
}

/// Returns `controller.attached` after a takeover.
pub(super) fn take_over(sandbox: &TestSandbox) -> Value {
    sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached")
}

fn granted() -> Value {
    json!({
        "controllerId": "ctl", "label": "str", "workspaceKey": "str", "hintPath": "str", "requireHandle": "bool",
        "owner": {
            "controllerId": "ctl", "instanceId": "ci", "epoch": "int", "pid": "int", "createdAt": "ts",
            "token": "str",
        },
    })
}

/// Returns the workspace's key in all outputs.
fn key(sandbox: &TestSandbox) -> String {
    sandbox.workspace().canonicalize().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn init_makes_a_controller_and_gives_the_ownership() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init();
    assert_shape(&first, &granted());
    assert_eq!((&first["label"], &first["owner"]["epoch"]), (&json!("default-manager"), &json!(1)));
    assert_eq!((&first["workspaceKey"], &first["requireHandle"]), (&json!(key(&sandbox)), &json!(false)));
    assert_eq!(first["owner"]["controllerId"], first["controllerId"]);
    assert_eq!(first["hintPath"], format!("{}/.subagent/controller.json", key(&sandbox)));
    let token = first["owner"]["token"].as_str().unwrap();
    let is_url_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    assert!(token.len() == 32 && token.bytes().all(is_url_safe), "{token}");
    sandbox.finish();
}

#[test]
fn init_conflicts_with_an_owner_that_lives_and_changes_nothing() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init();
    let status = sandbox.run(&["controller", "status"]).data();
    let again = ["controller", "init", "--label", "another", "--require-handle"];
    let error = sandbox.run(&again).error("CONTROLLER_OWNERSHIP_CONFLICT");
    assert_eq!(error["retryable"], false);
    assert_shape(&error["details"], &json!({"controllerId": "ctl", "recommendedAction": "str"}));
    assert_eq!(error["details"]["controllerId"], first["controllerId"]);
    assert_eq!(sandbox.run(&["controller", "status"]).data(), status, "neither label nor owner may change");
    sandbox.finish();
}

#[test]
fn a_second_shell_learns_whether_it_may_go_on_without_being_the_owner() {
    for (first, may_go_on) in [(&["init"][..], true), (&["init", "--require-handle"], false)] {
        let sandbox = TestSandbox::new();
        let controller = |args: &[&str]| sandbox.command("subagent").args(["controller"]).args(args).run();
        assert!(controller(first).status.success());
        let refused = controller(&["init"]);
        assert_eq!(refused.status.code(), Some(1), "{refused}");
        let said = refused.stderr.contains("go on without `controller init`");
        assert_eq!(said, may_go_on, "{refused}");
        let started = sandbox.command("subagent").args(["worker", "start", "demo"]).run();
        assert_eq!(started.status.success(), may_go_on, "{started}");
        sandbox.finish();
    }
}

#[test]
fn init_of_a_workspace_that_belongs_to_another_controller_conflicts() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let other = ["controller", "init", "--controller-id", "ctl_0123456789"];
    let error = sandbox.run(&other).error("CONTROLLER_OWNERSHIP_CONFLICT");
    assert_shape(&error["details"], &json!({"workspaceKey": "str", "recommendedAction": "str"}));
    assert_eq!(error["details"]["workspaceKey"], key(&sandbox));
    let listed = sandbox.run(&["controller", "recover"]).data();
    assert_eq!(listed["count"], 1, "no second controller was made");
    sandbox.finish();
}

#[test]
fn init_takes_the_id_and_the_label_that_it_is_given() {
    let sandbox = TestSandbox::new();
    let long = "x".repeat(129);
    for wrong in ["my mgr", ".mine", "a/b", "märz", "a;b", &long] {
        let args = ["controller", "init", "--controller-id", wrong];
        let error = sandbox.run(&args).error("INVALID_ARGUMENT");
        assert_eq!(error["details"], json!({"controllerId": wrong}));
    }
    let args = ["controller", "init", "--controller-id", "ctl_0123456789", "--label", "märz -x"];
    let data = sandbox.run(&args).data_of("controller.initialized");
    assert_eq!((&data["controllerId"], &data["label"]), (&json!("ctl_0123456789"), &json!("märz -x")));
    sandbox.finish();
}

#[test]
fn a_controller_with_a_name_of_ones_own_is_like_any_other() {
    let sandbox = TestSandbox::new();
    let id = "my-mgr:2.x_Y";
    let init = ["controller", "init", "--controller-id", id, "--require-handle"];
    let granted = sandbox.run(&init).data_of("controller.initialized");
    let own = handle(&granted);
    assert_eq!((&granted["controllerId"], &own[0].1), (&json!(id), &id.to_owned()));
    let run = |args: &[&str]| owned(sandbox.subagent(args), &own).run();
    let status = run(&["controller", "status", "--controller-id", id]).data_of("controller.status");
    assert_eq!(status["envHandle"], json!({"present": true, "valid": true, "controllerId": id, "epoch": 1}));
    // Found by the hint, as there is neither a flag nor a handle.
    assert_eq!(sandbox.run(&["controller", "status"]).data()["controllerId"], id);
    let worker = run(&["worker", "start"]).data_of("worker.started");
    assert_eq!(worker["controllerId"], id);
    let listed = sandbox.run(&["worker", "list", "--controller-id", id]).data_of("worker.listed");
    assert_eq!((&listed["count"], &listed["controllerId"]), (&json!(1), &json!(id)));
    run(&["worker", "stop", worker["workerId"].as_str().unwrap()]).data_of("worker.stopped");
    let recovered = sandbox.run(&["controller", "recover"]).data();
    assert_eq!(recovered["items"][0]["controllerId"], id);
    run(&["controller", "release"]).data_of("controller.released");
    let attach = ["controller", "attach", "--controller-id", id];
    assert_eq!(sandbox.run(&attach).data_of("controller.attached")["owner"]["epoch"], 2);
    sandbox.finish();
}

#[test]
fn init_works_again_for_the_owner_and_after_its_end() {
    let sandbox = TestSandbox::new();
    let init = ["controller", "init", "--label", "first"];
    let first = in_a_session_that_ends(&sandbox, &init).data_of("controller.initialized");
    let second = sandbox.run(&["controller", "init"]).data_of("controller.initialized");
    assert_eq!((&second["controllerId"], &second["owner"]["epoch"]), (&first["controllerId"], &json!(2)));
    assert_eq!(second["label"], "first", "a label is changed by --label alone");
    let again = owned(sandbox.subagent(&["controller", "init", "--label", "third"]), &handle(&second));
    let third = again.run().data_of("controller.initialized");
    assert_eq!((&third["owner"]["epoch"], &third["label"]), (&json!(3), &json!("third")));
    let stale = owned(sandbox.subagent(&["controller", "init"]), &handle(&second));
    stale.run().error("CONTROLLER_OWNERSHIP_CONFLICT");
    sandbox.finish();
}

#[test]
fn the_owner_is_the_leader_of_the_callers_session() {
    let sandbox = TestSandbox::new();
    let script = "echo $$; \"$0\" controller init --json; exit $?";
    let args = ["--wait", "sh", "-c", script, &sandbox.executable("subagent")];
    let output = sandbox.command("setsid").args(args).run();
    let (leader, document) = output.text().split_once('\n').unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    assert_eq!(document["data"]["owner"]["pid"].to_string(), leader);
    sandbox.recorder().keep_secret(document["data"]["owner"]["token"].as_str().unwrap());
    sandbox.finish();
}

#[test]
fn attach_gives_a_new_ownership_only_without_another_owner() {
    let sandbox = TestSandbox::new();
    let first = in_a_session_that_ends(&sandbox, &["controller", "init", "--label", "l"]).data();
    let attached = sandbox.run(&["controller", "attach"]).data_of("controller.attached");
    assert_shape(&attached, &granted());
    assert_eq!((&attached["owner"]["epoch"], &attached["label"]), (&json!(2), &json!("l")));
    assert_eq!(attached["controllerId"], first["controllerId"]);
    let error = sandbox.run(&["controller", "attach"]).error("CONTROLLER_OWNERSHIP_CONFLICT");
    assert_shape(&error["details"], &json!({"controllerId": "ctl", "recommendedAction": "str"}));
    let own = owned(sandbox.subagent(&["controller", "attach"]), &handle(&attached));
    assert_eq!(own.run().data_of("controller.attached")["owner"]["epoch"], 3);
    assert_eq!(take_over(&sandbox)["owner"]["epoch"], 4);
    sandbox.finish();
}

#[test]
fn attach_needs_a_controller_that_exists() {
    let sandbox = TestSandbox::new();
    let error = sandbox.run(&["controller", "attach"]).error("CONTROLLER_NOT_FOUND");
    let shape = json!({"workspaceKey": "str", "recommendedAction": "str", "recommendedCommand": "str"});
    assert_shape(&error["details"], &shape);
    assert_eq!(error["details"]["workspaceKey"], key(&sandbox));
    sandbox.init();
    for id in ["ctl_0123456789", "no id at all"] {
        let args = ["controller", "attach", "--takeover", "--controller-id", id];
        let error = sandbox.run(&args).error("CONTROLLER_NOT_FOUND");
        assert_eq!(error["details"], json!({"controllerId": id}));
    }
    sandbox.finish();
}

#[test]
fn without_json_there_are_four_lines() {
    let sandbox = TestSandbox::new();
    for (args, epoch) in [(&["init"] as &[&str], 1), (&["attach", "--takeover"], 2)] {
        let output = sandbox.command("subagent").args(["controller"]).args(args).run();
        let id = sandbox.run(&["controller", "status"]).data()["controllerId"].as_str().unwrap().to_owned();
        let key = key(&sandbox);
        let hint = format!("{key}/.subagent/controller.json");
        let expected = format!("controllerId: {id}\nworkspaceKey: {key}\nepoch: {epoch}\nhintPath: {hint}\n");
        assert_eq!(output.text(), expected);
    }
    let refused = sandbox.command("subagent").args(["controller", "init"]).run();
    assert_eq!((refused.status.code(), refused.stdout.as_str()), (Some(1), ""));
    assert!(refused.stderr.starts_with("CONTROLLER_OWNERSHIP_CONFLICT: "), "{refused}");
    sandbox.finish();
}

#[test]
fn print_env_is_three_lines_that_make_a_shell_the_owner() {
    let sandbox = TestSandbox::new();
    for args in [&["init"] as &[&str], &["attach", "--takeover"]] {
        let args = [&["controller"], args, &["--print-env"]].concat();
        let output = sandbox.command("subagent").args(args).run();
        let lines: Vec<&str> = output.text().lines().collect();
        let values: Vec<&str> = ["ID", "EPOCH", "TOKEN"]
            .iter()
            .zip(&lines)
            .map(|(name, line)| line.strip_prefix(&format!("export SUBAGENT_CTL_{name}=")).unwrap())
            .collect();
        assert_eq!((lines.len(), values.len()), (3, 3), "{output}");
        sandbox.recorder().keep_secret(values[2]);
        let script = format!("{}; exec \"$0\" controller status --json", lines.join("; "));
        let status =
            sandbox.command("sh").args(["-c", &script, &sandbox.executable("subagent")]).run().data();
        assert_eq!(status["envHandle"]["valid"], true, "{status}");
    }
    sandbox.finish();
}

#[test]
fn print_env_with_json_is_refused_as_json_before_anything_is_done() {
    let sandbox = TestSandbox::new();
    for command in ["init", "attach"] {
        sandbox.run(&["controller", command, "--print-env"]).error("INVALID_ARGUMENT");
    }
    assert!(!sandbox.state_dir().exists());
    sandbox.finish();
}
