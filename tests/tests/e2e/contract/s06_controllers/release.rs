//! Tests of `controller release` and its effects.

use serde_json::json;
use subagent_tests::harness::{TestSandbox, assert_shape, request};

use super::{handle, key, owned, take_over};

const RELEASE: [&str; 2] = ["controller", "release"];

#[test]
fn the_owner_releases_and_a_second_release_finds_no_owner() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    let release =
        || owned(sandbox.subagent(&RELEASE), &handle(&granted)).run().data_of("controller.released");
    let released = release();
    let shape = json!({
        "controllerId": "ctl", "released": true, "releasedAt": "ts", "instanceId": "ci", "epoch": 1,
    });
    assert_shape(&released, &shape);
    assert_eq!(released["instanceId"], granted["owner"]["instanceId"]);
    let unowned =
        json!({"controllerId": granted["controllerId"], "released": false, "reason": "NO_ACTIVE_OWNER"});
    assert_eq!(release(), unowned);
    assert_eq!(
        sandbox.run(&RELEASE).data_of("controller.released"),
        unowned,
        "it must not need a handle either"
    );
    let next = sandbox.init();
    assert_eq!(next["owner"]["epoch"], 2, "no epoch may be granted twice");
    sandbox.finish();
}

#[test]
fn without_force_a_handle_of_the_owner_is_needed() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init();
    let id = first["controllerId"].clone();
    let error = sandbox.run(&RELEASE).error("INVALID_CONTROLLER_HANDLE");
    assert_shape(&error["details"], &json!({"controllerId": "ctl", "recommendedAction": "str"}));
    take_over(&sandbox);
    let mut forged = handle(&first);
    forged[1].1 = "2".to_owned();
    for (handle, epoch) in [(handle(&first), 1), (forged.clone(), 2)] {
        let error = owned(sandbox.subagent(&RELEASE), &handle).run().error("INVALID_CONTROLLER_HANDLE");
        let shape = json!({"controllerId": "ctl", "epoch": epoch, "recommendedAction": "str"});
        assert_shape(&error["details"], &shape);
        assert_eq!(error["details"]["controllerId"], id);
    }
    forged[1].1 = "two".to_owned();
    owned(sandbox.subagent(&RELEASE), &forged).run().error("INVALID_CONTROLLER_HANDLE");
    forged[0].1 = "ctl_0123456789".to_owned();
    forged[1].1 = "2".to_owned();
    let error = owned(sandbox.subagent(&RELEASE), &forged).run().error("INVALID_CONTROLLER_HANDLE");
    assert_eq!(error["details"]["envControllerId"], "ctl_0123456789");
    assert_eq!(
        sandbox.run(&["controller", "status"]).data()["activeOwner"]["epoch"],
        2,
        "nothing was released"
    );
    sandbox.finish();
}

#[test]
fn force_does_not_look_at_the_handle() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init();
    let force = ["controller", "release", "--force"];
    assert_eq!(sandbox.run(&force).data_of("controller.released")["epoch"], 1);
    sandbox.init();
    let with_stale = owned(sandbox.subagent(&force), &handle(&first)).run();
    assert_eq!(with_stale.data_of("controller.released")["epoch"], 2);
    sandbox.finish();
}

#[test]
fn a_controller_that_does_not_exist_is_not_released() {
    let sandbox = TestSandbox::new();
    let error = sandbox.run(&RELEASE).error("CONTROLLER_NOT_FOUND");
    assert_eq!(error["details"]["workspaceKey"], key(&sandbox));
    let args = ["controller", "release", "--force", "--controller-id", "ctl_0123456789"];
    let error = sandbox.run(&args).error("CONTROLLER_NOT_FOUND");
    assert_eq!(error["details"], json!({"controllerId": "ctl_0123456789"}));
    sandbox.finish();
}

#[test]
fn without_json_there_are_two_lines() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    let id = granted["controllerId"].as_str().unwrap();
    for released in ["True", "False"] {
        let output = sandbox.command("subagent").args(["controller", "release", "--force"]).run();
        assert_eq!(output.text(), format!("controllerId: {id}\nreleased: {released}\n"));
    }
    sandbox.finish();
}

#[test]
fn a_request_that_is_repeated_after_a_lost_answer_has_its_result() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let socket = sandbox.daemon_info().unwrap().socket;
    let post = |path: &str, key: &str, body: &serde_json::Value| {
        let head = [&format!("POST {path} HTTP/1.1") as &str, &format!("Idempotency-Key: {key}")];
        request(socket.as_ref(), &head, &body.to_string()).json()
    };
    let me = sandbox.daemon();
    let owner = json!({"pid": me.pid, "startTime": me.start_time});
    let attach = json!({"workspaceKey": key(&sandbox), "owner": owner});
    let force = json!({"workspaceKey": key(&sandbox), "force": true});
    let released = post("/v1/controllers/release", "release", &force);
    assert_eq!((&released["data"]["released"], &released["data"]["epoch"]), (&json!(true), &json!(1)));
    assert_eq!(post("/v1/controllers/release", "release", &force), released);
    let first = post("/v1/controllers/attach", "attach", &attach);
    let again = post("/v1/controllers/attach", "attach", &attach);
    for (granted, epoch) in [(&first, 2), (&again, 3)] {
        assert_eq!(granted["data"]["owner"]["epoch"], epoch, "{granted}");
        sandbox.recorder().keep_secret(granted["data"]["owner"]["token"].as_str().unwrap());
    }
    let other = post("/v1/controllers/attach", "another", &attach);
    assert_eq!(other["error"]["code"], "CONTROLLER_OWNERSHIP_CONFLICT", "that is a separate request");
    take_over(&sandbox);
    let late = post("/v1/controllers/attach", "attach", &attach);
    assert_eq!(late["error"]["code"], "CONTROLLER_OWNERSHIP_CONFLICT", "it must not affect the next owner");
    sandbox.finish();
}
