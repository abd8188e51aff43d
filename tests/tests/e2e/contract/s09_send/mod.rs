//! The command `send`, strictly and in debug mode.

mod checks;
mod debug;
mod many;
mod results;

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

/// Starts a worker without an agent and returns its id.
pub(super) fn debug_worker(sandbox: &TestSandbox) -> String {
    let started = sandbox.run(&["worker", "start", "--debug-mode"]).data_of("worker.started");
    started["workerId"].as_str().unwrap().to_owned()
}

/// A world with a controller and a worker without an agent.
pub(super) fn with_debug_worker() -> (TestSandbox, String) {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let worker = debug_worker(&sandbox);
    (sandbox, worker)
}

/// Returns the data of a `send` with these flags.
pub(super) fn sent(sandbox: &TestSandbox, worker: &str, flags: &[&str]) -> Value {
    sandbox.sending(worker, "hello").args(flags).run().data()
}

/// Returns the types of a turn's events, in order.
pub(super) fn types_of(sandbox: &TestSandbox, worker: &str, turn: &Value) -> Vec<String> {
    let events = sandbox.events(worker);
    let own = events.iter().filter(|event| event["turnId"] == *turn);
    own.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// The fields of `turn.accepted`, as a pattern.
pub(super) fn accepted() -> Value {
    json!({"workerId": "w", "turnId": "turn", "state": "str", "eventId": "ev", "acceptedEventId": "ev"})
}

/// The fields of `turn.waited`, as a pattern.
pub(super) fn waited() -> Value {
    let mut shape = accepted();
    let more = json!({
        "waitUntil": "str", "waitTimeoutSeconds": "float", "waitNoProgressTimeoutSeconds": "float",
        "matchedEvent": {
            "schemaVersion": "=v1", "eventId": "ev", "ts": "ts", "workerId": "w", "type": "str",
            "data": "object", "turnId!": "turn",
        },
        "requestId": "ap?", "lastAssistantMessage": "str?", "lastAssistantChunk": "str?",
        "assistantText": "str?",
    });
    shape.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    shape
}
