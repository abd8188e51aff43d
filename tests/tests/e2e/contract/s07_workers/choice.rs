//! The controller, role and launcher of a new worker: which of several sources applies.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox, assert_shape};

use super::text;

/// A sandbox with a controller and a config with these launchers, which need not exist, and more.
fn configured(rest: &Value) -> TestSandbox {
    let sandbox = TestSandbox::new();
    configure(&sandbox, rest);
    sandbox.init();
    sandbox
}

fn configure(sandbox: &TestSandbox, rest: &Value) {
    let mut config =
        json!({"launchers": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}}});
    config.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    fs::write(sandbox.config_file(), config.to_string()).unwrap();
}

fn start(sandbox: &TestSandbox, flags: &[&str]) -> Output {
    sandbox.subagent(&["worker", "start", "--debug-mode"]).args(flags).run()
}

#[test]
fn the_launcher_is_the_flags_then_the_roles_then_the_default_one() {
    let sandbox = configured(&json!({
        "roleHints": {"reviewer": {"preferredLauncher": "b"}, "writer": {}}, "defaults": {"launcher": "c"},
    }));
    for (flags, role, launcher) in [
        (&["--role", "reviewer", "--launcher", "a"][..], "reviewer", "a"),
        (&["--role", "reviewer"], "reviewer", "b"),
        (&["--role", "writer"], "writer", "c"),
        (&["--role", "no hint"], "no hint", "c"),
        (&[], "default", "c"),
        (&["--launcher", "", "--role", ""], "default", "c"),
    ] {
        let started = start(&sandbox, flags).data_of("worker.started");
        assert_eq!((text(&started["role"]), text(&started["launcher"])), (role, launcher), "{flags:?}");
    }
    sandbox.finish();
}

#[test]
fn the_role_is_the_flags_then_the_default_one_and_chooses_the_launcher() {
    let sandbox = configured(&json!({
        "roleHints": {"reviewer": {"preferredLauncher": "b"}}, "defaults": {"launcher": "c", "role": " reviewer "},
    }));
    for (flags, role, launcher) in
        [(&[][..], "reviewer", "b"), (&["--role", "x"], "x", "c"), (&["--launcher", "a"], "reviewer", "a")]
    {
        let started = start(&sandbox, flags).data_of("worker.started");
        assert_eq!((text(&started["role"]), text(&started["launcher"])), (role, launcher), "{flags:?}");
    }
    sandbox.finish();
}

#[test]
fn without_any_launcher_there_are_no_details_and_with_an_unknown_one_its_name() {
    let sandbox = configured(&json!({"roleHints": {"lost": {"preferredLauncher": "gone"}}}));
    let error = start(&sandbox, &[]).error("LAUNCHER_NOT_FOUND");
    assert_eq!((error.get("details"), &error["retryable"]), (None, &json!(false)));
    for flags in [["--launcher", "gone"], ["--role", "lost"]] {
        let error = start(&sandbox, &flags).error("LAUNCHER_NOT_FOUND");
        assert_eq!(error["details"]["launcher"], "gone");
    }
    sandbox.finish();
}

#[test]
fn a_backend_of_another_kind_cannot_be_started() {
    let sandbox = configured(&json!({}));
    let config = json!({"launchers": {"odd": {"command": "sh", "backend": {"kind": "telepathy"}}}});
    fs::write(sandbox.config_file(), config.to_string()).unwrap();
    let error = sandbox.run(&["worker", "start", "--launcher", "odd"]).error("BACKEND_LAUNCHER");
    let shape = json!({
        "launcher": "=odd", "backendKind": "=telepathy", "reasonCategory": "=launcher", "recommendedAction": "str",
    });
    assert_shape(&error["details"], &shape);
    assert_eq!(error["retryable"], false);
    assert_eq!(sandbox.run(&["worker", "list"]).data_of("worker.listed")["count"], 0);
    sandbox.finish();
}

#[test]
fn the_controller_is_the_flags_then_the_handles_then_the_hints_then_the_workspaces() {
    let mut sandbox = TestSandbox::new();
    let state_dir = sandbox.state_dir().to_owned();
    sandbox.set_state_dir(state_dir);
    let own = text(&sandbox.init()["controllerId"]).to_owned();
    let [named, of_handle, hinted] = ["named", "handle", "hint"].map(|folder| {
        fs::create_dir(sandbox.file(folder)).unwrap();
        sandbox
            .run(&["controller", "init", "--cwd", &sandbox.file_name(folder)])
            .data_of("controller.initialized")
    });
    let id = |granted: &Value| text(&granted["controllerId"]).to_owned();
    let hint = sandbox.file("ws/.subagent/controller.json");
    fs::write(&hint, json!({"controllerId": id(&hinted)}).to_string()).unwrap();
    let run = |flags: &[&str], handle: bool| {
        let mut command = sandbox.subagent(&["worker", "start", "--debug-mode"]).args(flags);
        if handle {
            let owner = &of_handle["owner"];
            command = command.env("SUBAGENT_CTL_ID", id(&of_handle)).env("SUBAGENT_CTL_EPOCH", "1");
            command = command.env("SUBAGENT_CTL_TOKEN", text(&owner["token"]));
        }
        command.run()
    };
    let started = |flags: &[&str], handle| {
        text(&run(flags, handle).data_of("worker.started")["controllerId"]).to_owned()
    };
    let named = id(&named);
    let flag = ["--controller-id", &named];
    assert_eq!(started(&flag, false), named);
    let details = run(&flag, true).error("INVALID_CONTROLLER_HANDLE")["details"].take();
    assert_eq!(details, json!({"envControllerId": id(&of_handle), "targetControllerId": named}));
    assert_eq!(started(&[], true), id(&of_handle));
    assert_eq!(started(&[], false), id(&hinted));
    fs::remove_file(hint).unwrap();
    assert_eq!(started(&[], false), own);
    sandbox.finish();
}

#[test]
fn the_config_is_looked_at_before_the_controller_and_that_before_the_launcher() {
    let sandbox = TestSandbox::new();
    fs::write(sandbox.config_file(), "launchers: 7").unwrap();
    start(&sandbox, &["--launcher", "none"]).error("CONFIG_PARSE_ERROR");
    configure(&sandbox, &json!({}));
    start(&sandbox, &["--launcher", "none"]).error("CONTROLLER_NOT_FOUND");
    sandbox.init();
    start(&sandbox, &["--launcher", "none"]).error("LAUNCHER_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn fifty_that_are_started_at_once_are_fifty_workers() {
    let sandbox = configured(&json!({"defaults": {"launcher": "a"}}));
    let running: Vec<_> = (0..50)
        .map(|_| {
            let start = sandbox.subagent(&["worker", "start", "--debug-mode"]);
            // All of them share two cores.
            start.deadline(std::time::Duration::from_secs(180)).spawn()
        })
        .collect();
    let mut ids: Vec<String> = running
        .into_iter()
        .map(|start| text(&start.output().data_of("worker.started")["workerId"]).to_owned())
        .collect();
    ids.sort();
    ids.dedup();
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let items = listed["items"].as_array().unwrap();
    let mut shown: Vec<&str> = items.iter().map(|item| text(&item["workerId"])).collect();
    shown.sort_unstable();
    assert_eq!((ids.len(), shown), (50, ids.iter().map(String::as_str).collect()));
    sandbox.finish();
}
