//! `approve` and `cancel`.

mod approve;
mod cancel;

use serde_json::Value;
use subagent_tests::harness::{Sandbox, request};

/// The permission requests of a worker that nobody has decided.
fn pending(sandbox: &Sandbox, worker: &str) -> Vec<Value> {
    let socket = sandbox.daemon_info().unwrap().socket;
    let head = format!("GET /v1/workers/{worker}/approvals HTTP/1.1");
    request(socket.as_ref(), &[&head], "").json()["data"]["items"].as_array().unwrap().clone()
}

/// The events of a worker of this type.
fn events_of(sandbox: &Sandbox, worker: &str, kind: &str) -> Vec<Value> {
    sandbox.events(worker).into_iter().filter(|event| event["type"] == kind).collect()
}
