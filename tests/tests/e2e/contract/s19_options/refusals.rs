//! Rejected choices get an error that lists the valid ones.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape, request};

use super::{offering, options_set, says, set, started};

fn start_fails(sandbox: &TestSandbox, flags: &[&str]) -> Value {
    let args = [&["worker", "start", "--launcher", "sdk"], flags].concat();
    sandbox.run(&args).error("OPTION_NOT_AVAILABLE")
}

fn set_fails(sandbox: &TestSandbox, worker: &str, flags: &[&str], code: &str) -> Value {
    let args = [&["worker", "set", "--worker-id", worker], flags].concat();
    sandbox.run(&args).error(code)
}

#[test]
fn a_start_with_what_is_not_there_fails_and_says_what_is() {
    let sandbox = offering("config", |agent| agent);
    for (flags, option, value, available) in [
        (["--mode", "yolo"], "mode", "yolo", json!(["ask", "plan"])),
        (["--model", "huge"], "model", "huge", json!(["small", "large"])),
        (["--set", "effort=high"], "effort", "high", json!(["access", "llm", "fast"])),
        (["--set", "fast=maybe"], "fast", "maybe", json!(["true", "false"])),
    ] {
        let error = start_fails(&sandbox, &flags);
        let details = &error["details"];
        assert_eq!((&details["option"], &details["value"]), (&json!(option), &json!(value)), "{error}");
        assert_eq!(
            (&details["available"], &details["availableCount"]),
            (&available, &json!(available.as_array().unwrap().len()))
        );
        assert!(error["message"].as_str().unwrap().starts_with("the agent"), "{error}");
        assert_eq!(error["retryable"], false);
        let worker = details["workerId"].as_str().unwrap();
        assert_eq!(sandbox.show(worker)["state"], "error");
    }
    sandbox.finish();
}

#[test]
fn a_worker_whose_start_failed_gets_what_there_is_and_starts() {
    let sandbox = offering("config", |agent| agent);
    let error = start_fails(&sandbox, &["--mode", "yolo"]);
    let worker = error["details"]["workerId"].as_str().unwrap();
    let data = set(&sandbox, worker, &["--mode", "plan"]);
    assert_eq!(data["applied"], false);
    sandbox.run(&["worker", "restart", worker]).data_of("worker.restarted");
    assert_eq!(says(&sandbox, worker), "plan/small/low/false");
    sandbox.finish();
}

#[test]
fn an_agent_without_options_says_so() {
    let sandbox = offering("nothing", |agent| agent);
    for (flags, message) in [
        (["--mode", "plan"], "the agent has no mode to choose"),
        (["--model", "large"], "the agent has no model to choose"),
        (["--set", "fast=true"], "the agent has no config option fast"),
    ] {
        let error = start_fails(&sandbox, &flags);
        assert_eq!((&error["message"], &error["details"]["available"]), (&json!(message), &json!([])));
    }
    sandbox.finish();
    let sandbox = offering("modes", |agent| agent);
    let worker = started(&sandbox, &[]);
    let error = set_fails(&sandbox, &worker, &["--model", "large"], "OPTION_NOT_AVAILABLE");
    assert_eq!(error["message"], "the agent has no model to choose");
    sandbox.finish();
}

#[test]
fn what_a_living_agent_does_not_have_changes_nothing() {
    let sandbox = offering("config", |agent| agent);
    let worker = started(&sandbox, &["--mode", "plan"]);
    let error = set_fails(&sandbox, &worker, &["--model", "huge", "--mode", "ask"], "OPTION_NOT_AVAILABLE");
    assert_shape(
        &error["details"],
        &json!({
            "workerId": "w", "option": "=model", "value": "=huge", "available": ["=small", "=large"],
            "availableCount": 2, "current": {"mode": "=plan", "model": "=small", "configOptions": "object"},
            "recommendedAction!": "str", "recommendedCommand!": "str",
        }),
    );
    assert_eq!(says(&sandbox, &worker), "plan/small/low/false");
    sandbox.kill(&sandbox.runtime(&worker));
    assert_eq!(says(&sandbox, &worker), "plan/small/low/false", "a refused choice must not be retried");
    let failed = options_set(&sandbox, &worker).into_iter().filter(|(option, _)| option == "model").count();
    assert_eq!(failed, 1);
    sandbox.finish();
}

#[test]
fn bad_input_is_reported_before_anybody_is_asked() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let long = format!("a={}", "x".repeat(1025));
    for (flags, code) in [
        (&[][..], "INVALID_INPUT"),
        (&["--set", "fast"], "INVALID_ARGUMENT"),
        (&["--set", "=1"], "INVALID_ARGUMENT"),
        (&["--set", "a=1", "--set", "a=2"], "INVALID_ARGUMENT"),
        (&["--set", &long], "INVALID_INPUT"),
    ] {
        set_fails(&sandbox, &worker, flags, code);
    }
    let many: Vec<String> = (0..65).flat_map(|n| ["--set".to_owned(), format!("o{n}=1")]).collect();
    set_fails(&sandbox, &worker, &many.iter().map(String::as_str).collect::<Vec<_>>(), "INVALID_INPUT");
    for input in [
        json!({"workerId": worker, "configOptions": {"a": 1}}),
        json!({"workerId": worker, "configOptions": ["a"]}),
        json!({"workerId": worker, "mode": 1}),
        json!({"workerId": worker, "modes": "x"}),
        json!({"mode": "x"}),
    ] {
        let set = sandbox.subagent(&["worker", "set", "--input", "-"]).stdin(input.to_string()).run();
        set.error("INVALID_INPUT");
    }
    let both = ["worker", "set", "--worker-id", &worker, "--mode", "x", "--input", "-"];
    let error = sandbox.subagent(&both).stdin("{\"mode\": \"y\"}").run().error("INVALID_INPUT");
    assert_eq!(error["details"], json!({"field": "mode", "flag": "mode"}));
    set_fails(&sandbox, "w_0000000000", &["--mode", "x"], "WORKER_NOT_FOUND");
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let error = set_fails(&sandbox, &worker, &["--mode", "x"], "WORKER_STOPPED");
    assert_eq!(
        (&error["details"]["workerId"], &error["details"]["state"]),
        (&json!(worker), &json!("stopped"))
    );
    sandbox.finish();
}

#[test]
fn a_key_that_is_on_its_way_takes_no_other_request() {
    let mut sandbox = TestSandbox::new();
    let modes = json!({"currentModeId": "ask", "availableModes": [
        {"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}, {"id": "code", "name": "Code"},
    ]});
    let session = json!({"sessionId": "hostile-session", "modes": modes}).to_string();
    let flags = ["--answer", "session/new", &session, "--hang", "session/set_mode"];
    let agent = sandbox.test_agent("hostile-agent", &flags);
    sandbox.launcher("sdk", agent);
    sandbox.init();
    let worker = started(&sandbox, &[]);
    let socket = sandbox.daemon_info().unwrap().socket;
    let head = [format!("POST /v1/workers/{worker}/options HTTP/1.1"), "Idempotency-Key: once".to_owned()];
    let head = [head[0].as_str(), head[1].as_str()];
    let (answered, answers) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for mode in ["plan", "code"] {
            let (answered, socket) = (answered.clone(), &socket);
            scope.spawn(move || {
                let body = json!({"mode": mode}).to_string();
                answered.send(request(socket.as_ref(), &head, &body).json()).unwrap();
            });
        }
        let next = || answers.recv_timeout(Duration::from_secs(20)).unwrap();
        // One of them waits for the agent, independent of the order.
        assert_eq!(next()["error"]["code"], "IDEMPOTENCY_CONFLICT");
        let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
        assert_ne!(next()["error"]["code"], "IDEMPOTENCY_CONFLICT");
    });
    sandbox.finish();
}
