//! `subagentd`: its output, its files, and its supervision of the workers.

mod commands;
mod health;
mod run;
mod status;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{
    Output, Running, TestLauncher, TestSandbox, assert_shape, request, say, wait_until,
};

const STATUS_FILE: &str = "subagentd-status.json";

/// Runs `subagentd ARGS` to its end.
#[track_caller]
fn subagentd(sandbox: &TestSandbox, args: &[&str]) -> Output {
    sandbox.command("subagentd").args(args).run()
}

/// Returns the bare document of a success.
#[track_caller]
fn bare(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output}");
    output.document()
}

/// Starts a daemon in the foreground and waits until it is ready.
#[track_caller]
fn foreground(sandbox: &TestSandbox, args: &[&str]) -> Running {
    let running =
        sandbox.command("subagentd").args(["run"]).args(args).deadline(Duration::from_secs(120)).spawn();
    running.wait_line("anything", |_| Some(()));
    running
}

#[track_caller]
fn end(daemon: Running, signal: Signal) -> String {
    daemon.signal(signal);
    let output = daemon.output();
    assert_eq!(output.status.code(), Some(0), "{signal} is a clean stop: {output}");
    output.stdout
}

fn status_file(sandbox: &TestSandbox) -> Option<Value> {
    serde_json::from_slice(&fs::read(sandbox.state_dir().join(STATUS_FILE)).ok()?).ok()
}

/// The pattern of the output of `run`. `items` are the workers.
fn payload(mode: &str, items: &Value) -> Value {
    json!({
        "schemaVersion": "=v1", "pid": "int", "stateDir": "str", "dbPath": "str", "startedAt": "ts",
        "lastHeartbeatAt": "ts", "mode": format!("={mode}"), "monitorWorkers": "bool",
        "workerHealth": {
            "checkedAt": "ts",
            "summary": {
                "checked": "int", "healthy": "int", "unhealthy": "int", "restarted": "int", "restartFailed": "int",
            },
            "items": items,
        },
    })
}

fn healthy() -> Value {
    json!({"workerId": "w", "state": "str", "healthy": true})
}

fn unhealthy() -> Value {
    json!({
        "workerId": "w", "state": "str", "healthy": false, "restarted": "bool",
        "reason": {"pidAlive": "bool?", "socketExists": "bool", "pingError": "any"},
        "cooldown!": true,
        "error!": {"code": "str", "message": "str", "retryable": "bool", "details!": "object"},
        "runtime!": {"pid": "int", "socketPath": "str", "logPath": "str"},
    })
}

fn summary(document: &Value) -> [i64; 5] {
    let summary = &document["workerHealth"]["summary"];
    ["checked", "healthy", "unhealthy", "restarted", "restartFailed"]
        .map(|key| summary[key].as_i64().unwrap())
}
