//! `worker restart`, which the reference does not have.

use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

use super::{shown, text};

#[test]
fn a_restarted_worker_has_another_runtime_and_the_same_session() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "one");
    let before = sandbox.show(&worker);
    let after = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_shape(&after, &shown());
    assert_eq!((&after["state"], &after["lastError"]), (&json!("idle"), &json!(null)));
    assert_eq!(after["sessionId"], before["sessionId"]);
    assert!(after["runtimePid"].is_i64() && after["runtimePid"] != before["runtimePid"], "{after}");
    let look = ["worker", "inspect", &worker, "--event-type", "worker.restarted"];
    let events = sandbox.run(&look).data_of("worker.inspected")["events"].take();
    assert_eq!((events.as_array().unwrap().len(), &events[0]["data"]["contextLost"]), (1, &json!(false)));
    assert_eq!(sandbox.send(&worker, "two")["assistantText"], "two");
    sandbox.finish();
}

#[test]
fn an_open_turn_stands_in_the_way_unless_forced() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let asked = sandbox.send(&worker, "!ask edit x");
    let error = sandbox.run(&["worker", "restart", &worker]).error("WORKER_BUSY");
    assert_eq!(
        (&error["details"]["state"], &error["details"]["workerId"]),
        (&json!("waiting_approval"), &json!(worker))
    );
    let after = sandbox.run(&["worker", "restart", &worker, "--force"]).data_of("worker.restarted");
    assert_eq!((&after["state"], &after["activeTurnId"]), (&json!("idle"), &json!(null)));
    let end =
        sandbox.wait_after(&worker, &asked["acceptedEventId"], "turn.completed,turn.failed,turn.canceled");
    assert_eq!(
        (&end["type"], &end["data"]["reason"]),
        (&json!("turn.canceled"), &json!("worker restarted by manager"))
    );
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    sandbox.finish();
}

#[test]
fn a_worker_in_error_is_tried_again() {
    let mut sandbox = TestSandbox::new();
    // The agent works only once its file exists.
    let program = sandbox.executable("subagent");
    let script = format!("test -e {} && exec {program} demo-agent; exit 3", sandbox.file_name("go"));
    sandbox.launcher("late", subagent_tests::harness::TestLauncher::new("/bin/sh", ["-c", &script]));
    sandbox.init();
    let error = sandbox.run(&["worker", "start", "--launcher", "late"]).any_error();
    let worker = text(&error["details"]["workerId"]).to_owned();
    let again = sandbox.run(&["worker", "restart", &worker]).any_error();
    assert_eq!((&again["code"], &again["details"]["workerId"]), (&error["code"], &json!(worker)));
    assert_eq!(sandbox.show(&worker)["state"], "error");
    std::fs::write(sandbox.file("go"), "").unwrap();
    let after = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!((&after["state"], &after["lastError"]), (&json!("idle"), &json!(null)));
    assert_eq!(sandbox.send(&worker, "here")["assistantText"], "here");
    sandbox.finish();
}

#[test]
fn a_stopped_worker_and_a_stale_handle_restart_nothing() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let pid = sandbox.show(&worker)["runtimePid"].take();
    let id = text(&sandbox.show(&worker)["controllerId"]).to_owned();
    let command = sandbox.subagent(&["worker", "restart", &worker]).env("SUBAGENT_CTL_ID", id);
    let refused = command.env("SUBAGENT_CTL_EPOCH", "1").env("SUBAGENT_CTL_TOKEN", "wrong").run();
    let _ = refused.error("INVALID_CONTROLLER_HANDLE");
    assert_eq!(sandbox.show(&worker)["runtimePid"], pid);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let _ = sandbox.run(&["worker", "restart", &worker]).error("WORKER_STOPPED");
    sandbox.finish();
}

#[test]
fn the_same_key_restarts_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let ask = || {
        let daemon: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(sandbox.state_dir().join("daemon.json")).unwrap())
                .unwrap();
        let url = format!("http://localhost/v1/workers/{worker}/restart");
        let args = [
            "-sS",
            "--unix-socket",
            text(&daemon["socket"]),
            "-H",
            "Idempotency-Key: once",
            "-d",
            "{}",
            &url,
        ];
        let answer: serde_json::Value =
            serde_json::from_str(sandbox.command("curl").args(args).run().text()).unwrap();
        answer["data"]["runtimePid"].clone()
    };
    let first = ask();
    assert!(first.is_i64(), "{first}");
    assert_eq!(ask(), first);
    sandbox.finish();
}

#[test]
fn a_restart_outlives_its_daemon() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--slow-start", "1500"]);
    sandbox.launcher("slow", agent);
    sandbox.init();
    let worker = sandbox.start("slow");
    let before = sandbox.show(&worker);
    let restart = sandbox.subagent(&["worker", "restart", &worker]).spawn();
    let look = || sandbox.show(&worker)["runtimePid"].take();
    wait_until("the new runtime", Duration::from_secs(20), || {
        let now = look();
        (now.is_i64() && now != before["runtimePid"]).then_some(())
    });
    sandbox.kill_daemon();
    let after = restart.output().data_of("worker.restarted");
    assert_eq!((&after["state"], &after["sessionId"]), (&json!("idle"), &before["sessionId"]));
    assert_eq!(sandbox.send(&worker, "here")["assistantText"], "here");
    sandbox.finish();
}
