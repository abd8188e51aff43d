//! The values that are added to a permission request.

use serde_json::{Value, json};

use super::*;

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

fn update(calls: &mut ToolCalls, kind: &str, update: &Value) {
    calls.update(kind, &raw(&json!({"sessionId": "s", "update": update})));
}

fn begins(calls: &mut ToolCalls, call: &Value) {
    update(calls, "tool_call", call);
}

fn goes_on(calls: &mut ToolCalls, call: &Value) {
    update(calls, "tool_call_update", call);
}

fn request(calls: &mut ToolCalls, tool_call: &Value) -> Option<Value> {
    let params = raw(&json!({"sessionId": "s", "toolCall": tool_call, "options": []}));
    calls.request(&params).map(|before| serde_json::from_str(before.get()).unwrap())
}

fn call(id: &str, title: &str) -> Value {
    json!({"toolCallId": id, "title": title})
}

#[test]
fn a_request_is_completed_from_its_call_and_every_update() {
    let mut calls = ToolCalls::default();
    begins(
        &mut calls,
        &json!({"toolCallId": "a", "kind": "edit", "title": "Write", "status": "pending",
                               "rawInput": {}, "_meta": {"x": {"toolName": "Write"}}}),
    );
    goes_on(
        &mut calls,
        &json!({"toolCallId": "a", "rawInput": {"file_path": "/ws/.env"}, "kind": "other",
                                "title": "", "_meta": {"y": 1}}),
    );
    goes_on(&mut calls, &json!({"toolCallId": "a", "locations": [{"path": "/ws/.env"}], "content": null}));
    assert_eq!(
        request(&mut calls, &json!({"toolCallId": "a", "title": "Write", "kind": "other"})),
        Some(json!({
            "toolCallId": "a", "kind": "edit", "rawInput": {"file_path": "/ws/.env"},
            "locations": [{"path": "/ws/.env"}], "_meta": {"x": {"toolName": "Write"}, "y": 1},
        }))
    );
}

#[test]
fn a_request_that_repeats_everything_gets_nothing() {
    let mut calls = ToolCalls::default();
    let all = json!({"toolCallId": "a", "kind": "execute", "title": "ls", "rawInput": {"command": "ls"}});
    begins(&mut calls, &all);
    assert_eq!(request(&mut calls, &all), None);
    assert_eq!(request(&mut calls, &json!({"toolCallId": "c"})), None, "it was asked for");
}

#[test]
fn the_last_value_counts() {
    let mut calls = ToolCalls::default();
    for (id, title) in [("a", "first"), ("b", "other"), ("a", "second")] {
        begins(&mut calls, &call(id, title));
    }
    assert_eq!(request(&mut calls, &json!({"toolCallId": "a"})), Some(call("a", "second")));
}

#[test]
fn a_call_of_the_same_session_goes_before_one_of_another_with_the_same_id() {
    for (session, title) in [("s", "of the worker"), ("child", "of the child"), ("other", "of the child")] {
        let mut calls = ToolCalls::default();
        for (session, title) in [("s", "of the worker"), ("child", "of the child")] {
            calls.update("tool_call", &raw(&json!({"sessionId": session, "update": call("a", title)})));
        }
        let params = raw(&json!({"sessionId": session, "toolCall": {"toolCallId": "a"}}));
        let before: Value = serde_json::from_str(calls.request(&params).unwrap().get()).unwrap();
        assert_eq!(before["title"], title, "{session}");
    }
}

#[test]
fn a_request_of_an_unknown_id_is_for_the_only_open_call_that_it_fits() {
    let write = json!({"toolCallId": "call", "kind": "edit", "title": "write_file",
                       "rawInput": {"file_path": "/ws/.env", "content": "x"}});
    let run =
        json!({"toolCallId": "run", "kind": "execute", "rawInput": {"command": "cargo test --workspace"}});
    let ended = json!({"toolCallId": "call", "status": "completed"});
    let nothing = json!({"toolCallId": "1", "title": "Confirm Agent Actions"});
    let vague = json!({"toolCallId": "1", "title": "Confirm Agent Actions", "kind": "other"});
    let table = [
        (vec![&write], nothing.clone(), Some("call")),
        (vec![&write, &run], nothing.clone(), None),
        (vec![&write], vague.clone(), Some("call")),
        (vec![&write, &run], vague.clone(), None),
        (vec![&write, &run, &ended], nothing.clone(), Some("run")),
        (vec![&write, &run], json!({"toolCallId": "1", "kind": "execute"}), Some("run")),
        (vec![&write, &run], json!({"toolCallId": "1", "rawInput": {"command": "cargo test…"}}), Some("run")),
        (vec![&run], json!({"toolCallId": "1", "rawInput": {"command": "cargo test..."}}), Some("run")),
        (vec![&run], json!({"toolCallId": "1", "rawInput": {"command": "cargo test"}}), None),
        (vec![&write], json!({"toolCallId": "1", "locations": [{"path": "/ws/a"}]}), Some("call")),
        (vec![&write], json!({"toolCallId": "1", "rawInput": {"file_path": "/ws/a"}}), None),
        (vec![&write], json!({"toolCallId": "1", "kind": "other", "name": "x"}), Some("call")),
    ];
    for (updates, asked, expected) in table {
        let mut calls = ToolCalls::default();
        updates.iter().for_each(|call| goes_on(&mut calls, call));
        let found = request(&mut calls, &asked).map(|found| found["toolCallId"].clone());
        assert_eq!(found, expected.map(Value::from), "{asked}");
    }
}

#[test]
fn a_call_that_was_asked_for_or_is_of_an_earlier_turn_is_open_no_more() {
    let mut calls = ToolCalls::default();
    begins(&mut calls, &call("a", "first"));
    assert!(request(&mut calls, &json!({"toolCallId": "1"})).is_some());
    assert_eq!(request(&mut calls, &json!({"toolCallId": "2"})), None);
    // An agent that does not mention a call before its request.
    assert_eq!(request(&mut calls, &call("b", "second")), None);
    goes_on(&mut calls, &json!({"toolCallId": "b", "status": "in_progress"}));
    assert_eq!(request(&mut calls, &json!({"toolCallId": "3"})), None);
    // An agent that uses the same id for all requests.
    begins(&mut calls, &call("d", "fourth"));
    assert_eq!(request(&mut calls, &json!({"toolCallId": "1"})), Some(call("d", "fourth")));
    begins(&mut calls, &call("c", "third"));
    calls.close_all();
    assert_eq!(request(&mut calls, &json!({"toolCallId": "4"})), None);
    begins(&mut calls, &json!({"toolCallId": "b", "kind": "read"}));
    let anew = json!({"toolCallId": "b", "kind": "read"});
    assert_eq!(request(&mut calls, &json!({"toolCallId": "5"})), Some(anew), "of this turn");
    assert_eq!(request(&mut calls, &json!({"toolCallId": "c"})), Some(call("c", "third")));
    assert_eq!(request(&mut calls, &json!({"toolCallId": "a"})), None, "it is forgotten");
}

#[test]
fn the_remembered_calls_are_bounded() {
    let mut calls = ToolCalls::default();
    for number in 0..=MAX_CALLS {
        begins(&mut calls, &call(&number.to_string(), "t"));
    }
    assert_eq!(calls.0.len(), MAX_CALLS);
    assert!(request(&mut calls, &json!({"toolCallId": "0"})).is_none());
    let long = "x".repeat(MAX_CALL_BYTES);
    begins(
        &mut calls,
        &json!({"toolCallId": "long", "kind": "edit", "title": "t", "content": [{"newText": long}],
                               "locations": [{"path": "/ws/.env"}]}),
    );
    assert_eq!(
        request(&mut calls, &json!({"toolCallId": "long"})),
        Some(
            json!({"toolCallId": "long", "kind": "edit", "title": "t", "locations": [{"path": "/ws/.env"}]})
        )
    );
}

#[test]
fn invalid_entries_are_omitted() {
    let mut calls = ToolCalls::default();
    for odd in [json!(null), json!({"toolCallId": 7}), json!([])] {
        begins(&mut calls, &odd);
        assert_eq!(request(&mut calls, &odd), None);
    }
    assert!(calls.0.is_empty());
}
