//! The commands `approve` and `cancel`.

mod approve;
mod cancel;

use serde_json::Value;
use subagent_tests::harness::{TestSandbox, request};

/// Returns the undecided permission requests of a worker.
fn pending(sandbox: &TestSandbox, worker: &str) -> Vec<Value> {
    let socket = sandbox.daemon_info().unwrap().socket;
    let head = format!("GET /v1/workers/{worker}/approvals HTTP/1.1");
    request(socket.as_ref(), &[&head], "").json()["data"]["items"].as_array().unwrap().clone()
}

/// Returns a worker's events of this type.
fn events_of(sandbox: &TestSandbox, worker: &str, kind: &str) -> Vec<Value> {
    sandbox.events(worker).into_iter().filter(|event| event["type"] == kind).collect()
}
