//! `worker start`: defaults, the order of checks, and the output.

use serde_json::json;
use subagent_tests::harness::{TestLauncher, TestSandbox, assert_shape};

use super::{shown, text};

#[test]
fn a_started_worker_is_reported_with_all_its_keys() {
    let sandbox = TestSandbox::new();
    let controller = sandbox.init();
    let started = sandbox.run(&["worker", "start"]).data_of("worker.started");
    assert_shape(&started, &shown());
    assert_eq!(started["controllerId"], controller["controllerId"]);
    assert_eq!((&started["launcher"], &started["role"]), (&json!("demo"), &json!("default")));
    assert_eq!((&started["label"], &started["state"]), (&json!("worker"), &json!("idle")));
    assert_eq!(started["recoveryState"], "restartable");
    assert_eq!(started["cwd"], text(&json!(sandbox.workspace())));
    assert!(started["runtimePid"].is_i64() && started["runtimeSocket"].is_string(), "{started}");
    sandbox.finish();
}

#[test]
fn the_text_output_has_three_lines() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let output = sandbox.command("subagent").args(["worker", "start", "--label", "x"]).run();
    let keys: Vec<&str> = output.text().lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(keys, ["workerId", "controllerId", "state"]);
    sandbox.finish();
}

#[test]
fn flags_and_input_choose_and_an_empty_label_is_none() {
    let sandbox = TestSandbox::new();
    let controller = sandbox.init();
    let id = text(&controller["controllerId"]).to_owned();
    let input =
        json!({"launcher": "demo", "role": "free form!", "label": "", "controllerId": id}).to_string();
    let started = sandbox.subagent(&["worker", "start", "--input", "-"]).stdin(input).run();
    let started = started.data_of("worker.started");
    assert_eq!((&started["role"], &started["label"]), (&json!("free form!"), &json!("worker")));
    sandbox.finish();
}

#[test]
fn input_is_checked_before_the_controller_and_that_before_role_and_launcher() {
    let sandbox = TestSandbox::new();
    let both = ["worker", "start", "--launcher", "none", "--input", "-"];
    let error = sandbox.subagent(&both).stdin("{\"launcher\": 7}").run().error("INVALID_INPUT");
    assert_eq!(error["details"], json!({"field": "launcher", "flag": "launcher"}));
    let missing = sandbox.run(&["worker", "start", "--launcher", "none"]).error("CONTROLLER_NOT_FOUND");
    assert_shape(
        &missing["details"],
        &json!({"workspaceKey": "str", "stateDbPath": "str", "recommendedAction!": "str", "recommendedCommand!": "str"}),
    );
    let unknown = ["worker", "start", "--launcher", "none", "--controller-id", "ctl_0000000000"];
    let unknown = sandbox.run(&unknown).error("CONTROLLER_NOT_FOUND");
    assert_eq!(unknown["details"]["controllerId"], "ctl_0000000000");
    assert!(unknown["details"]["workspaceKey"].is_string() && unknown["details"]["stateDbPath"].is_string());
    sandbox.init();
    let error = sandbox.run(&["worker", "start", "--launcher", "none"]).error("LAUNCHER_NOT_FOUND");
    assert_eq!(error["details"]["launcher"], "none");
    sandbox.finish();
}

#[test]
fn what_cannot_be_started_leaves_no_worker_behind() {
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("gone", TestLauncher::new("/no/such/agent", ["--acp"]));
    sandbox.init();
    let error = sandbox.run(&["worker", "start", "--launcher", "gone"]).error("BACKEND_LAUNCHER");
    assert_shape(
        &error["details"],
        &json!({"launcher": "=gone", "command": "str", "effectiveCommand": "=/no/such/agent",
                "effectiveArgs": ["str"], "reasonCategory": "=launcher", "recommendedAction": "str"}),
    );
    let cwd = sandbox.run(&["worker", "start", "--cwd", "/no/such/folder"]).error("INVALID_ARGUMENT");
    assert_eq!(cwd["details"]["cwd"], "/no/such/folder");
    assert_eq!(sandbox.run(&["worker", "list"]).data_of("worker.listed")["count"], 0);
    sandbox.finish();
}

#[test]
fn an_agent_that_does_not_come_up_leaves_a_worker_in_error_with_its_id_in_the_details() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--exit", "3"]);
    sandbox.launcher("broken", agent);
    sandbox.init();
    let error = sandbox.run(&["worker", "start", "--launcher", "broken"]).any_error();
    let worker = text(&error["details"]["workerId"]).to_owned();
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], &shown["recoveryState"]), (&json!("error"), &json!("restartable")));
    let last = text(&shown["lastError"]).to_owned();
    assert!(last.starts_with(text(&error["code"])), "{last}");
    sandbox.finish();
}

#[test]
fn a_stale_handle_starts_nothing() {
    let sandbox = TestSandbox::new();
    let owner = sandbox.init()["owner"].take();
    let id = text(&owner["controllerId"]).to_owned();
    let start = |epoch: &str, id: &str, token: &str| {
        let command = sandbox.subagent(&["worker", "start"]).env("SUBAGENT_CTL_ID", id);
        command.env("SUBAGENT_CTL_EPOCH", epoch).env("SUBAGENT_CTL_TOKEN", token).run()
    };
    let _ = start("1", &id, "wrong").error("INVALID_CONTROLLER_HANDLE");
    let _ = start("x", &id, text(&owner["token"])).error("INVALID_CONTROLLER_HANDLE");
    assert_eq!(start("1", &id, text(&owner["token"])).data_of("worker.started")["state"], "idle");
    sandbox.finish();
}
