//! Types of events and their data.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

/// The pattern of an event in the output of `watch`, with this data.
fn event(kind: &str, data: Value) -> Value {
    json!({"schemaVersion": "=v1", "eventId": "ev", "ts": "ts", "workerId": "w", "type": format!("={kind}"),
           "data": data, "turnId!": "turn"})
}

fn of<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    events.iter().find(|event| event["type"] == kind).unwrap_or_else(|| panic!("no {kind} in {events:#?}"))
}

/// Groups the updates by kind.
fn updates(events: &[Value]) -> BTreeMap<String, Vec<&Value>> {
    let mut kinds: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["type"] == "progress.update") {
        kinds.entry(event["data"]["kind"].as_str().unwrap().to_owned()).or_default().push(event);
    }
    kinds
}

#[test]
fn the_events_of_a_turn_have_their_data() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    let events = sandbox.events(&worker);
    let check = |kind: &str, data: Value| assert_shape(of(&events, kind), &event(kind, data));
    check("worker.started", json!({"session": "=new", "contextLost": false}));
    check("turn.started", json!({"turnId": "turn", "input": {"text": "=hello", "blocksCount": 0}}));
    check("message.sent", json!({"text": "=hello", "blocks": []}));
    check("progress.message", json!({"role": "=assistant", "text": "=hello"}));
    check(
        "turn.completed",
        json!({"turnId": "turn", "outcome": "=completed", "state": "=idle", "stopReason!": "=end_turn",
               "usage!": "object"}),
    );
    let turn = &of(&events, "turn.started")["turnId"];
    assert!(turn.is_string() && of(&events, "turn.completed")["data"]["turnId"] == *turn);
    let numbers: Vec<&str> = events.iter().map(|event| event["eventId"].as_str().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    sandbox.finish();
}

#[test]
fn a_turn_that_fails_or_is_canceled_says_why() {
    let (sandbox, worker) = TestSandbox::with_worker();
    sandbox.send_fails(&worker, "!error -32000 no luck", "BACKEND_RPC_ERROR");
    let accepted = sandbox.send_no_wait(&worker, "!sleep 600000");
    let _ = sandbox.run(&["cancel", "--worker-id", &worker, "--reason", "enough"]).data_of("turn.canceled");
    let _ = sandbox.turn_end(&accepted);
    let events = sandbox.events(&worker);
    let error =
        json!({"code": "=BACKEND_RPC_ERROR", "message": "str", "retryable": "bool", "details!": "object"});
    let failed = event("turn.failed", json!({"turnId": "turn", "error": error}));
    assert_shape(of(&events, "turn.failed"), &failed);
    let canceled = event("turn.canceled", json!({"turnId": "turn", "reason": "=enough"}));
    assert_shape(of(&events, "turn.canceled"), &canceled);
    sandbox.finish();
}

#[test]
fn a_question_and_its_answer_have_their_data() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let asked = sandbox.send(&worker, "!ask execute make clean");
    let request = asked["requestId"].as_str().unwrap();
    let approve =
        ["approve", "--worker-id", &worker, "--request", request, "--alias", "allow-once", "--note", "fine"];
    let _ = sandbox.run(&approve).data_of("approval.decided");
    let events = sandbox.events(&worker);
    let option = json!({"id": "str", "alias": "str", "label": "str", "kind!": "str"});
    let requested = json!({"requestId": "ap", "kind": "=tool.call", "message": "str", "options": [option],
                           "toolCallId!": "str", "title!": "str", "toolKind!": "str", "rawInput!": "any", "command!": "str", "content!": "list", "locations!": "list"});
    assert_shape(of(&events, "approval.requested"), &event("approval.requested", requested));
    let decided = json!({"requestId": "ap", "decision": "=allow-once", "optionId": "=allow-once",
                         "alias": "=allow-once", "note": "=fine", "by": "=owner"});
    assert_shape(of(&events, "approval.decided"), &event("approval.decided", decided));
    sandbox.finish();
}

#[test]
fn everything_else_that_an_agent_reports_is_an_update_with_its_kind() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let script =
        "!think hm\n!tool execute make check\n!plan look|build\n!usage 10 100\n!unknown\n!noise\ndone";
    let waited = sandbox.send(&worker, script);
    let events = sandbox.events(&worker);
    let kinds = updates(&events);
    let check = |kind: &str, mut fields: Value| {
        fields["kind"] = format!("={kind}").into();
        fields["method"] = if kind == "noise" { "=stdout" } else { "str" }.into();
        let of_kind = kinds.get(kind).unwrap_or_else(|| panic!("no {kind} in {:?}", kinds.keys()));
        for seen in of_kind {
            assert_shape(seen, &event("progress.update", fields.clone()));
        }
    };
    let call = json!({"toolCallId": "str", "title!": "str", "toolKind!": "str", "status!": "str", "locations!": ["object"],
                      "content!": ["object"], "rawInput!": "any", "command!": "str"});
    check("tool_call", call.clone());
    check("tool_call_update", call);
    check("plan", json!({"entries!": [{"content": "str", "priority": "str", "status": "str"}]}));
    check("thought", json!({"text": "=hm"}));
    check("usage", json!({"used!": "int", "size!": "int", "cost!": "object"}));
    check("noise", json!({"reason": "str", "bytes": "int", "digest": "str", "head": "str"}));
    check("session", json!({"session": "str", "contextLost": "bool"}));
    check("notification", json!({}));
    // Kinds unknown to every client keep the agent's name.
    let known =
        ["tool_call", "tool_call_update", "plan", "thought", "usage", "noise", "session", "notification"];
    let unknown: Vec<&String> = kinds.keys().filter(|kind| !known.contains(&kind.as_str())).collect();
    assert!(!unknown.is_empty(), "{:?}", kinds.keys());
    let texts: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "progress.message")
        .map(|event| &event["data"]["text"])
        .collect();
    assert_eq!(texts.last(), Some(&&json!("done")));
    assert!(
        !waited["assistantText"].as_str().unwrap().contains("hm"),
        "a thought must not count as a message: {waited}"
    );
    sandbox.finish();
}

#[test]
fn a_wait_can_be_for_one_kind_of_update() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let sent = sandbox.send_no_wait(&worker, "!think hm\n!tool read a file\n!plan a\nend");
    let plan = sandbox.wait_after(&worker, &sent["acceptedEventId"], "progress.update:plan");
    assert_eq!(plan["data"]["kind"], "plan");
    let either = "progress.update:tool_call_update,turn.completed";
    let call = sandbox.wait_after(&worker, &sent["acceptedEventId"], either);
    assert_eq!(call["data"]["kind"], "tool_call_update");
    let _ = sandbox
        .run(&["wait", "--worker-id", &worker, "--until", "turn.completed:x"])
        .error("INVALID_ARGUMENT");
    sandbox.finish();
}

#[test]
fn the_raw_text_is_shown_only_when_it_is_asked_for() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!plan a\nhello");
    assert!(sandbox.events(&worker).iter().all(|event| event.get("raw").is_none()));
    let data = sandbox.run(&["watch", "--worker-id", &worker, "--raw"]).data_of("events.watched");
    let items = data["items"].as_array().unwrap();
    assert!(
        items.iter().all(|event| event["raw"]["runtime"] == "acp-stdio" && event["raw"]["phase"].is_string())
    );
    let plan = items.iter().find(|event| event["data"]["kind"] == "plan").unwrap();
    assert_eq!(
        (&plan["raw"]["phase"], &plan["raw"]["update"]["sessionUpdate"]),
        (&json!("session.update"), &json!("plan"))
    );
    sandbox.finish();
}
