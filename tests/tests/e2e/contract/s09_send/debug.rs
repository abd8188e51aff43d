//! Debug mode: workers without an agent, simulated turns and permission requests.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox, assert_shape};

use super::{accepted, debug_worker, sent, types_of, waited, with_debug_worker};

const STATUS: &str = "STATUS: turn accepted and completed in local runtime.";

/// A launcher whose program is not installed, and its future folder in the PATH.
fn not_installed(sandbox: &mut TestSandbox) -> std::path::PathBuf {
    let bin = sandbox.file("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    sandbox.set_env("PATH", path);
    let sessions = sandbox.file_name("sessions");
    sandbox.launcher("absent", TestLauncher::new("my-agent", ["demo-agent", "--state", sessions.as_str()]));
    bin
}

#[test]
fn a_worker_is_started_without_its_agent() {
    let mut sandbox = TestSandbox::new();
    not_installed(&mut sandbox);
    sandbox.init();
    let start = ["worker", "start", "--launcher", "absent", "--label", "a", "--role", "r"];
    sandbox.run(&start).error("BACKEND_LAUNCHER");
    let started = sandbox.subagent(&start).args(["--debug-mode"]).run().data_of("worker.started");
    // All of its keys are in section 7.
    let keys = [
        "workerId",
        "sessionId",
        "launcher",
        "role",
        "label",
        "state",
        "recoveryState",
        "runtimePid",
        "runtimeSocket",
    ];
    assert_shape(
        &keys.into_iter().map(|key| (key.to_owned(), started[key].clone())).collect(),
        &json!({
            "workerId": "w", "sessionId": "sess", "launcher": "=absent", "role": "=r", "label": "=a", "state": "=idle",
            "recoveryState": "=restartable", "runtimePid": null, "runtimeSocket": null,
        }),
    );
    let worker = started["workerId"].as_str().unwrap();
    assert_eq!(sandbox.show(worker)["state"], "idle");
    assert_eq!(sandbox.processes().len(), 1, "only the daemon runs: {:?}", sandbox.processes());
    sandbox
        .subagent(&["worker", "start", "--debug-mode", "--launcher", "nope"])
        .run()
        .error("LAUNCHER_NOT_FOUND");
    let text = sandbox.command("subagent").args(start).args(["--debug-mode"]).run();
    let lines: Vec<&str> = text.text().lines().collect();
    assert!(lines[0].starts_with("workerId: w_") && lines[1].starts_with("controllerId: ctl_"), "{text}");
    assert_eq!(lines[2..], ["state: idle"]);
    sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn the_input_says_the_same_as_the_flag() {
    let mut sandbox = TestSandbox::new();
    not_installed(&mut sandbox);
    sandbox.init();
    let start = |flags: &[&str], input: Value| {
        sandbox.subagent(&["worker", "start", "--input", "-"]).args(flags).stdin(input.to_string()).run()
    };
    let by_input = json!({"launcher": "absent", "debugMode": true});
    let worker = start(&[], by_input.clone()).data_of("worker.started")["workerId"].clone();
    start(&[], json!({"launcher": "absent", "debugMode": false})).error("BACKEND_LAUNCHER");
    for flag in ["--debug-mode", "--no-debug-mode"] {
        let twice = start(&[flag], by_input.clone()).error("INVALID_INPUT");
        assert_eq!(twice["details"], json!({"field": "debugMode", "flag": "debug_mode"}));
    }
    let input = json!({"workerId": worker, "text": "x", "debugMode": true});
    let send = sandbox.subagent(&["send", "--input", "-"]).stdin(input.to_string());
    assert_eq!(send.clone().run().data_of("turn.waited")["assistantText"], STATUS);
    let twice = send.args(["--debug-mode"]).run().error("INVALID_INPUT");
    assert_eq!(twice["details"], json!({"field": "debugMode", "flag": "debug_mode"}));
    let null = sandbox.subagent(&["send", "--input", "-"]).stdin(r#"{"debugMode": null}"#).run();
    assert_eq!(null.error("INVALID_INPUT")["details"], Value::Null);
    sandbox.finish();
}

#[test]
fn a_simulated_turn_is_over_when_it_is_accepted() {
    let (sandbox, worker) = with_debug_worker();
    let data = sandbox.sending(&worker, "hello").args(["--debug-mode", "--no-wait"]).run();
    let data = data.data_of("turn.accepted");
    assert_shape(&data, &accepted());
    assert_eq!(data["state"], "idle");
    let events = sandbox.run(&["watch", "--worker-id", &worker, "--raw"]).data_of("events.watched");
    let shown: Vec<Value> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            assert_eq!(event["turnId"], data["turnId"]);
            assert_eq!(event["raw"], json!({"runtime": "local", "phase": event["type"]}));
            json!([event["type"], event["data"]])
        })
        .collect();
    let turn = &data["turnId"];
    assert_eq!(
        shown,
        [
            json!(["turn.started", {"turnId": turn, "input": {"text": "hello", "blocksCount": 0}}]),
            json!(["message.sent", {"text": "hello", "blocks": []}]),
            json!(["progress.message", {"role": "assistant", "text": STATUS}]),
            json!(["turn.completed", {"turnId": turn, "outcome": "completed", "state": "idle"}]),
        ]
    );
    assert_eq!(data["acceptedEventId"], events["items"][1]["eventId"]);
    assert_eq!(data["eventId"], events["items"][3]["eventId"]);
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], &shown["activeTurnId"]), (&json!("idle"), &Value::Null));
    sandbox.finish();
}

#[test]
fn the_end_of_a_simulated_turn_is_waited_for_like_any_other() {
    let (sandbox, worker) = with_debug_worker();
    let data = sandbox.sending(&worker, "hello").args(["--debug-mode"]).run().data_of("turn.waited");
    assert_shape(&data, &waited());
    assert_eq!((&data["matchedEvent"]["type"], &data["state"]), (&json!("turn.completed"), &json!("idle")));
    for key in ["assistantText", "lastAssistantMessage", "lastAssistantChunk"] {
        assert_eq!(data[key], STATUS);
    }
    assert_eq!(data["requestId"], Value::Null);
    // Even without a text: no agent gets it.
    let empty = sandbox.run(&["send", "--worker-id", &worker, "--text", "", "--debug-mode"]);
    assert_eq!(empty.data_of("turn.waited")["assistantText"], STATUS);
    sandbox.finish();
}

#[test]
fn an_agent_does_not_hear_of_simulated_turns() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let runtime = sandbox.runtime(&worker);
    let touch = format!("!touch {}", sandbox.file_name("touched"));
    for flags in
        [&["--debug-mode"] as &[&str], &["--request-approval"], &["--debug-mode", "--request-approval"]]
    {
        let data = sandbox.sending(&worker, &touch).args(flags).run().data_of("turn.waited");
        if data["state"] == "waiting_approval" {
            sandbox.approve(&worker, &data["requestId"], "allow").data_of("approval.decided");
        }
    }
    assert_eq!(sandbox.touches("touched"), 0);
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well", "numbers may have gaps");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    sandbox.finish();
}

#[test]
fn a_permission_request_is_simulated_on_any_idle_worker() {
    let (sandbox, with_agent) = TestSandbox::with_worker();
    let without = debug_worker(&sandbox);
    for worker in [&with_agent, &without] {
        let data = sandbox.sending(worker, "hello").args(["--request-approval", "--no-wait"]).run();
        let data = data.data_of("turn.accepted");
        let mut shape = accepted();
        shape["requestId"] = json!("ap");
        assert_shape(&data, &shape);
        assert_eq!(data["state"], "waiting_approval");
        let turn = data["turnId"].as_str().unwrap();
        let shown = sandbox.show(worker);
        assert_eq!((&shown["state"], &shown["activeTurnId"]), (&json!("waiting_approval"), &json!(turn)));
        assert_eq!(
            types_of(&sandbox, worker, &data["turnId"]),
            ["turn.started", "message.sent", "approval.requested"]
        );
        let events = sandbox.events(worker);
        let asked = events.last().unwrap();
        assert_eq!(asked["eventId"], data["eventId"]);
        assert!(asked["data"]["message"].as_str().unwrap().contains(turn), "{asked}");
        assert_shape(
            &asked["data"],
            &json!({
                "requestId": format!("={}", data["requestId"].as_str().unwrap()), "kind": "=tool.call", "message": "str",
                "options": [
                    {"id": "=allow", "alias": "=allow", "label": "=Allow"},
                    {"id": "=deny", "alias": "=deny", "label": "=Deny"},
                ],
            }),
        );
        sandbox.sending(worker, "more").args(["--debug-mode"]).run().error("WORKER_BUSY");
        let busy = sandbox.sending(worker, "more").run().error("WORKER_BUSY");
        assert_eq!(
            (&busy["details"]["state"], &busy["retryable"]),
            (&json!("waiting_approval"), &json!(false))
        );
        sandbox.check();
        sandbox.run(&["cancel", "--worker-id", worker]).data_of("turn.canceled");
        let data = sent(&sandbox, worker, &["--request-approval", "--debug-mode"]);
        assert_shape(&data, &waited());
        let matched = &data["matchedEvent"];
        assert_eq!(matched["type"], "approval.requested");
        assert_eq!(data["requestId"], matched["data"]["requestId"]);
    }
    sandbox.finish();
}

#[test]
fn a_strict_message_starts_the_agent_of_a_debug_worker() {
    let mut sandbox = TestSandbox::new();
    let bin = not_installed(&mut sandbox);
    sandbox.init();
    let start = ["worker", "start", "--launcher", "absent", "--debug-mode"];
    let worker = sandbox.run(&start).data_of("worker.started");
    let (worker, placeholder) = (worker["workerId"].as_str().unwrap(), &worker["sessionId"]);
    sent(&sandbox, worker, &["--debug-mode"]);
    let error = sandbox.sending(worker, "hello").run().error("BACKEND_LAUNCHER");
    let failed = sandbox.wait_after(worker, &error["details"]["acceptedEventId"], "any");
    assert_eq!((&failed["type"], &failed["turnId"]), (&json!("turn.failed"), &error["details"]["turnId"]));
    assert_eq!(error["details"]["effectiveCommand"], "my-agent");
    let sessions = sandbox.file_name("sessions");
    assert_shape(
        &failed["data"]["error"],
        &json!({
            "code": "=BACKEND_LAUNCHER", "message": "str", "retryable": false,
            "details": {
                "launcher": "=absent", "command": "='my-agent'", "effectiveCommand": "=my-agent",
                "effectiveArgs": "list", "reasonCategory": "=launcher", "recommendedAction": "str",
                "dispatched": "=no", "workerId": "w", "socketPath": "str", "logPath": "str",
            },
        }),
    );
    assert_eq!(
        failed["data"]["error"]["details"]["effectiveArgs"],
        json!(["demo-agent", "--state", sessions])
    );
    let shown = sandbox.show(worker);
    assert_eq!((&shown["state"], &shown["sessionId"]), (&json!("idle"), placeholder));
    assert!(shown["lastError"].as_str().unwrap().starts_with("BACKEND_LAUNCHER"), "{shown}");
    let flags = ["--wait-until", "turn.completed", "--wait-timeout-seconds", "0"];
    let never = sandbox.sending(worker, "hello").args(flags).run();
    never.error("BACKEND_LAUNCHER");
    // Installed later, in a folder of the worker's PATH.
    std::os::unix::fs::symlink(sandbox.executable("subagent"), bin.join("my-agent")).unwrap();
    sandbox.set_env("PATH", "/usr/bin:/bin");
    assert_eq!(sandbox.send(worker, "hello")["assistantText"], "hello");
    let events = sandbox.events(worker);
    let count = |wanted: &str| events.iter().filter(|event| event["type"] == wanted).count();
    assert_eq!(
        (count("worker.started"), count("worker.restarted")),
        (1, 0),
        "its first agent must not count as a restart"
    );
    let shown = sandbox.show(worker);
    assert!(shown["runtimePid"].is_u64() && shown["runtimeSocket"].is_string(), "{shown}");
    assert_ne!(&shown["sessionId"], placeholder);
    assert_eq!(shown["lastError"], Value::Null);
    sandbox.finish();
}

#[test]
fn what_is_simulated_outlives_the_daemon() {
    let (sandbox, worker) = with_debug_worker();
    let idle = debug_worker(&sandbox);
    let data = sent(&sandbox, &worker, &["--request-approval"]);
    sandbox.kill_daemon();
    assert_eq!(sandbox.show(&idle)["state"], "idle");
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], &shown["activeTurnId"]), (&json!("waiting_approval"), &data["turnId"]));
    sandbox.approve(&worker, &data["requestId"], "allow").data_of("approval.decided");
    assert_eq!(sandbox.turn_end(&data)["data"]["outcome"], "approved");
    assert_eq!(sandbox.send(&idle, "hello")["assistantText"], "hello");
    sandbox.finish();
}

#[test]
fn the_death_of_a_runtime_does_not_touch_what_is_simulated() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let data = sent(&sandbox, &worker, &["--request-approval"]);
    let runtime = sandbox.runtime(&worker);
    sandbox.kill(&runtime);
    let _ = sandbox.wait_after(&worker, &data["eventId"], "worker.lost");
    assert_eq!(sandbox.show(&worker)["state"], "waiting_approval");
    sandbox.kill_daemon();
    assert_eq!(sandbox.show(&worker)["state"], "waiting_approval");
    sandbox.approve(&worker, &data["requestId"], "deny").data_of("approval.decided");
    assert_eq!(sandbox.turn_end(&data)["data"]["outcome"], "rejected");
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well");
    assert_ne!(sandbox.runtime(&worker).pid, runtime.pid);
    sandbox.finish();
}

#[test]
fn a_simulated_turn_is_accepted_and_answered_once_whenever_the_daemon_dies() {
    let (sandbox, worker) = with_debug_worker();
    for round in 0..5 {
        let key = format!("key-{round}");
        let flags = ["--request-approval", "--no-wait", "--turn-id", &key];
        let sending = sandbox.sending(&worker, "hello").args(flags).spawn();
        sandbox.kill_daemon();
        let asked = sending.output().data_of("turn.accepted");
        let request = asked["requestId"].as_str().unwrap();
        let approve = ["approve", "--worker-id", &worker, "--request", request, "--decision", "allow"];
        let approving = sandbox.subagent(&approve).spawn();
        sandbox.kill_daemon();
        approving.output().data_of("approval.decided");
        let types = types_of(&sandbox, &worker, &asked["turnId"]);
        assert_eq!(
            types,
            ["turn.started", "message.sent", "approval.requested", "approval.decided", "turn.completed"]
        );
    }
    sandbox.finish();
}
