//! Every event matches `docs/events.schema.json` and has no other field.

use std::path::Path;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

/// The schema. Clients allow more fields, but these tests do not.
fn validator() -> &'static Validator {
    static VALIDATOR: OnceLock<Validator> = OnceLock::new();
    VALIDATOR.get_or_init(|| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/events.schema.json");
        let mut schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        assert!(jsonschema::meta::is_valid(&schema));
        for rule in schema["allOf"].as_array_mut().unwrap() {
            if let Some(Value::Object(data)) = rule.pointer_mut("/then/properties/data") {
                data.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
        schema["unevaluatedProperties"] = json!(false);
        jsonschema::validator_for(&schema).unwrap()
    })
}

/// Checks these events against the schema.
#[track_caller]
pub(crate) fn check(events: &[Value]) {
    for event in events {
        let wrong: Vec<String> = validator()
            .iter_errors(event)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?} in {event:#}");
    }
}

#[test]
fn the_schema_notices_what_is_wrong() {
    let good = json!({
        "schemaVersion": "v1", "eventId": "ev_00000000000a", "ts": "2026-11-21T20:29:42+00:00", "workerId": "w_0123456789",
        "type": "progress.update", "data": {"method": "session/update", "kind": "plan", "entries": [{"content": "x"}]},
    });
    check(std::slice::from_ref(&good));
    let changed = |pointer: &str, value: Value| {
        let mut event = good.clone();
        *event.pointer_mut(pointer).unwrap() = value;
        event
    };
    for (pointer, value) in [
        ("/data/entries", json!("x")),
        ("/data/entries", json!(null)),
        ("/data/kind", json!(7)),
        ("/data/kind", json!("usage")),
        ("/data", json!({"method": "x"})),
        ("/data", json!({"method": "x", "kind": "new", "more": 1})),
        ("/type", json!("runtime.segment")),
        ("/type", json!("turn.completed")),
        ("/eventId", json!("1")),
    ] {
        assert!(!validator().is_valid(&changed(pointer, value.clone())), "{pointer} {value}");
    }
    assert!(validator().is_valid(&changed("/data", json!({"method": "x", "kind": "new"}))));
}

#[test]
fn the_events_of_every_kind_of_turn_fit() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let script =
        "!think hm\n!tool execute make check\n!plan look|build\n!usage 10 100\n!unknown\n!noise\ndone";
    let _ = sandbox.send(&worker, script);
    sandbox.send_fails(&worker, "!error -32000 no luck", "BACKEND_RPC_ERROR");
    for decision in ["allow", "deny"] {
        let asked = sandbox.send(&worker, "!ask execute make clean");
        let _ = sandbox.approve(&worker, &asked["requestId"], decision).data_of("approval.decided");
        let _ = sandbox.turn_end(&asked);
    }
    let asked = sandbox.send(&worker, "!ask execute make clean");
    let _ = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    let _ = sandbox.turn_end(&asked);
    let asked = sandbox.send_no_wait(&worker, "!ask execute make clean");
    let _ = sandbox.wait_after(&worker, &asked["acceptedEventId"], "approval.requested");
    sandbox.kill(&sandbox.runtime(&worker));
    let _ = sandbox.turn_end(&asked);
    let _ = sandbox.send(&worker, "again");
    let debug = sandbox.run(&["worker", "start", "--debug-mode"]).data_of("worker.started");
    let debug = debug["workerId"].as_str().unwrap();
    let _ = sandbox.send_no_wait(debug, "hello");
    for worker in [&worker, debug] {
        let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
        let events = sandbox.events(worker);
        check(&events);
        let raw = sandbox.run(&["watch", "--worker-id", worker, "--raw"]).data_of("events.watched");
        check(raw["items"].as_array().unwrap());
    }
    let seen = sandbox.events(&worker);
    for event_type in [
        "turn.completed",
        "turn.failed",
        "turn.canceled",
        "approval.decided",
        "approval.lost",
        "worker.lost",
        "worker.started",
        "worker.restarted",
        "worker.stopped",
        "progress.message",
        "message.sent",
    ] {
        assert!(seen.iter().any(|event| event["type"] == event_type), "{event_type}");
    }
    sandbox.finish();
}
