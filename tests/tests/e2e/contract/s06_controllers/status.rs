//! Tests of `controller status` and its fields.

use serde_json::json;
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::{handle, key, owned, take_over};

const SECRET: [(&str, &str); 3] = [
    ("SUBAGENT_CTL_ID", "ctl_0123456789"),
    ("SUBAGENT_CTL_EPOCH", "7"),
    ("SUBAGENT_CTL_TOKEN", "a-token-that-is-not-shown"),
];

#[test]
fn without_a_controller_the_workspace_is_dormant_and_no_token_is_shown() {
    let sandbox = TestSandbox::new();
    let shape = |handle| {
        json!({
            "workspaceKey": format!("={}", key(&sandbox)), "state": "=dormant", "controllerId": null,
            "activeOwner": null, "envHandle": handle,
        })
    };
    let status = sandbox.run(&["controller", "status"]).data_of("controller.status");
    assert_shape(&status, &shape(json!({"present": false, "valid": false})));
    let mut command = sandbox.subagent(&["controller", "status"]);
    for (name, value) in SECRET {
        command = command.env(name, value);
    }
    let output = command.run();
    let expected = json!({"present": true, "valid": false, "controllerId": "=ctl_0123456789", "epoch": 7});
    assert_shape(&output.data(), &shape(expected));
    assert!(!output.stdout.contains(SECRET[2].1), "{output}");
    let text = sandbox.command("subagent").args(["controller", "status"]).run();
    assert_eq!(text.text(), "state: dormant\ncontrollerId: (none)\n");
    sandbox.finish();
}

#[test]
fn a_controller_is_active_with_an_owner_and_dormant_without() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    let owner = &granted["owner"];
    let status = sandbox.run(&["controller", "status"]).data_of("controller.status");
    let expected = json!({
        "controllerId": granted["controllerId"], "label": "default-manager", "workspaceKey": key(&sandbox),
        "state": "active", "requireHandle": false, "envHandle": {"present": false, "valid": false},
        "activeOwner": {
            "instanceId": owner["instanceId"], "epoch": 1, "pid": owner["pid"], "createdAt": owner["createdAt"],
        },
    });
    assert_eq!(status, expected);
    let text = || sandbox.command("subagent").args(["controller", "status"]).run().text().to_owned();
    let (id, pid) = (granted["controllerId"].as_str().unwrap(), &owner["pid"]);
    let lines =
        format!("state: active\ncontrollerId: {id}\nowner.epoch: 1\nowner.pid: {pid}\nenv.valid: False\n");
    assert_eq!(text(), lines);
    sandbox.run(&["controller", "release", "--force"]).data_of("controller.released");
    let status = sandbox.run(&["controller", "status", "--controller-id", id]).data_of("controller.status");
    assert_eq!((&status["state"], &status["activeOwner"]), (&json!("dormant"), &json!(null)));
    assert_eq!(text(), format!("state: dormant\ncontrollerId: {id}\nowner: (none)\nenv.valid: False\n"));
    sandbox.finish();
}

#[test]
fn the_callers_handle_is_valid_as_long_as_it_is_the_owners() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    let worth = |handle: &[(&'static str, String); 3]| {
        let status = owned(sandbox.subagent(&["controller", "status"]), handle).run();
        status.data_of("controller.status")["envHandle"].clone()
    };
    let current = handle(&granted);
    let shown =
        |valid: bool| json!({"present": true, "valid": valid, "controllerId": current[0].1, "epoch": 1});
    assert_eq!(worth(&current), shown(true));
    let text = owned(sandbox.command("subagent").args(["controller", "status"]), &current).run();
    assert!(text.text().ends_with("\nenv.valid: True\n"), "{text}");
    let changed = |index: usize, value: &str| {
        let mut changed = current.clone();
        changed[index].1 = value.to_owned();
        changed
    };
    assert_eq!(worth(&changed(2, "not-the-token")), shown(false));
    let other = json!({"present": true, "valid": false, "controllerId": "ctl_0123456789", "epoch": 1});
    assert_eq!(worth(&changed(0, "ctl_0123456789")), other);
    for epoch in ["x", "1.0", "1e0", "not int", " 1", "1\n", "١"] {
        let reason = json!({"present": true, "valid": false, "reason": "ENV_EPOCH_NOT_INTEGER"});
        assert_eq!(worth(&changed(1, epoch)), reason, "{epoch}");
    }
    // An integer beyond the range is valid anyway.
    let far = worth(&changed(1, "99999999999999999999"));
    let shape = json!({"present": true, "valid": false, "controllerId": "ctl", "epoch": "int"});
    assert_shape(&far, &shape);
    let odd = "töken ".repeat(100_000 / 7);
    assert_eq!(worth(&changed(2, &odd)), shown(false), "a token that fits no header");
    for empty in 0..3 {
        assert_eq!(worth(&changed(empty, "")), json!({"present": false, "valid": false}));
    }
    take_over(&sandbox);
    assert_eq!(worth(&current), shown(false));
    sandbox.finish();
}

#[test]
fn an_explicit_id_must_exist() {
    let sandbox = TestSandbox::new();
    let args = ["controller", "status", "--controller-id", "ctl_0123456789"];
    let error = sandbox.run(&args).error("CONTROLLER_NOT_FOUND");
    assert_eq!(error["details"], json!({"controllerId": "ctl_0123456789"}));
    sandbox.finish();
}
