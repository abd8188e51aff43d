//! Tests of `controller recover` and its suggestions.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::{in_a_session_that_ends, key};

const RECOVER: [&str; 2] = ["controller", "recover"];

#[test]
fn without_controllers_the_list_is_empty() {
    let sandbox = TestSandbox::new();
    let data = sandbox.run(&RECOVER).data_of("controller.recovered");
    assert_eq!(data, json!({"count": 0, "items": [], "workspaceFilter": null}));
    let text = sandbox.command("subagent").args(RECOVER).run();
    assert_eq!(text.text(), "(no controllers)\n");
    sandbox.finish();
}

#[test]
fn each_controller_is_shown_with_what_became_of_its_owner_the_newest_first() {
    let mut sandbox = TestSandbox::new();
    let state_dir = sandbox.state_dir().to_owned();
    sandbox.set_state_dir(state_dir);
    let folders: Vec<String> = ["dormant", "orphaned", "active"]
        .iter()
        .map(|name| {
            let folder = sandbox.file(&format!("its {name} folder"));
            fs::create_dir(&folder).unwrap();
            folder.canonicalize().unwrap().to_str().unwrap().to_owned()
        })
        .collect();
    for (folder, ends) in folders.iter().zip([false, true, false]) {
        let init = ["controller", "init", "--cwd", folder];
        let output = if ends { in_a_session_that_ends(&sandbox, &init) } else { sandbox.run(&init) };
        output.data_of("controller.initialized");
    }
    sandbox.run(&["controller", "release", "--force", "--cwd", &folders[0]]).data();

    let data = sandbox.run(&RECOVER).data_of("controller.recovered");
    let item = |state: &str, folder: &str, owner: Value, action: Value| {
        json!({
            "controllerId": "ctl", "label": "=default-manager", "workspaceKey": format!("={folder}"),
            "requireHandle": false, "state": format!("={state}"), "activeOwner": owner, "suggestedAction": action,
        })
    };
    let owner = |alive: bool| json!({"instanceId": "ci", "epoch": 1, "pid": "int", "createdAt": "ts", "alive": alive});
    let expected = json!({"count": 3, "workspaceFilter": null, "items": [
        item("active", &folders[2], owner(true), Value::Null),
        item("orphaned", &folders[1], owner(false), json!("str")),
        item("dormant", &folders[0], Value::Null, Value::Null),
    ]});
    assert_shape(&data, &expected);

    let text = sandbox.command("subagent").args(RECOVER).run();
    let id = |index: usize| data["items"][index]["controllerId"].as_str().unwrap();
    let lines = format!(
        "{}\tactive\t{}\n{}\torphaned\t{}\n{}\tdormant\t{}\n",
        id(0),
        folders[2],
        id(1),
        folders[1],
        id(2),
        folders[0]
    );
    assert_eq!(text.text(), lines);
    assert_eq!(sandbox.run(&RECOVER).data(), data, "looking changes nothing");

    let one = sandbox.run(&["controller", "recover", "--cwd", &folders[1]]).data();
    assert_eq!((&one["count"], &one["workspaceFilter"]), (&json!(1), &json!(folders[1])));
    assert_eq!(one["items"][0]["controllerId"], data["items"][1]["controllerId"]);

    // The suggested action works unchanged in a shell.
    let action = one["items"][0]["suggestedAction"].as_str().unwrap().to_owned();
    assert!(action.starts_with("subagent controller attach --takeover "), "{action}");
    let program = sandbox.executable("subagent");
    let path = std::path::Path::new(&program).parent().unwrap().to_str().unwrap();
    let path = format!("{path}:{}", std::env::var("PATH").unwrap());
    // With `exec`, for a caller whose session lost its leader. The owner is then the process that
    // started the command, and a shell in between would end with it.
    let output = sandbox.command("sh").args(["-c", &format!("exec {action} --json")]).env("PATH", path).run();
    let attached = output.data_of("controller.attached");
    assert_eq!((&attached["workspaceKey"], &attached["owner"]["epoch"]), (&json!(folders[1]), &json!(2)));
    let now = sandbox.run(&["controller", "recover", "--cwd", &folders[1]]).data();
    assert_eq!(
        (&now["items"][0]["state"], &now["items"][0]["suggestedAction"]),
        (&json!("active"), &Value::Null)
    );
    sandbox.finish();
}

#[test]
fn a_workspace_without_a_controller_filters_everything_out() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let folder = sandbox.file_name("tmp");
    let state_dir = sandbox.state_dir().to_owned();
    let recover = sandbox.subagent(&["controller", "recover", "--cwd", &folder]);
    let data = recover.env("SUBAGENT_STATE_DIR", state_dir).run().data_of("controller.recovered");
    assert_eq!(data, json!({"count": 0, "items": [], "workspaceFilter": folder}));
    let own = sandbox.run(&["controller", "recover", "--cwd", "."]).data();
    assert_eq!((&own["count"], &own["workspaceFilter"]), (&json!(1), &json!(key(&sandbox))));
    sandbox.finish();
}
