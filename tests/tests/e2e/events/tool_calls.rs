//! Tool calls end with their turn, once; output of another session is not the worker's.

use serde_json::{Value, json};

use super::played::{PlayedScript, updates};
use super::schema;

const CALLS: [&str; 2] = ["tool_call", "tool_call_update"];

fn call(kind: &str, id: &str, more: Value) -> Value {
    let mut update = json!({"sessionUpdate": kind, "toolCallId": id});
    update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    update
}

fn closed(id: &str, more: Value) -> Value {
    let mut data = json!({"method": "turn.end", "kind": "tool_call_update", "toolCallId": id, "status": "unknown",
                          "closedBy": "turn_end"});
    data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    data
}

fn closings(events: &[Value]) -> Vec<Value> {
    updates(events, &CALLS).into_iter().filter(|data| data["closedBy"] == "turn_end").collect()
}

#[test]
fn calls_that_are_open_when_the_turn_ends_are_closed_before_its_end_is_reported() {
    let script = PlayedScript::new(json!({}), json!({}))
        .prompted()
        .says(call("tool_call", "1", json!({"title": "ls", "kind": "execute", "status": "in_progress"})))
        .says(call("tool_call", "2", json!({"title": "cat", "status": "pending"})))
        .says(call("tool_call_update", "2", json!({"status": "completed"})))
        .asks(json!({"toolCallId": "3", "title": "rm x", "kind": "execute"}))
        .answers(json!({"stopReason": "cancelled"}))
        .says(call("tool_call_update", "1", json!({"status": "failed"})))
        .prompted()
        .says(call("tool_call", "4", json!({"status": "completed"})))
        .answers(json!({}));
    let (sandbox, worker) = script.started();
    let first = sandbox.send_no_wait(&worker, "one");
    let end = sandbox.turn_end(&first);
    let second = sandbox.send_no_wait(&worker, "two");
    let _ = sandbox.turn_end(&second);
    let events = sandbox.events(&worker);
    schema::check(&events);
    let of_request = closed("3", json!({"title": "rm x", "toolKind": "execute"}));
    assert_eq!(closings(&events), [of_request, closed("1", json!({"title": "ls", "toolKind": "execute"}))]);
    let place = |which: &dyn Fn(&Value) -> bool| events.iter().position(which).unwrap();
    let reported = place(&|event| event["eventId"] == end["eventId"]);
    let last = place(&|event| event["data"]["closedBy"] == "turn_end" && event["data"]["toolCallId"] == "1");
    assert!(last < reported && events[last]["turnId"] == first["turnId"]);
    // The agent's own result comes late and stays the last one.
    let later = events[reported..].iter().find(|event| event["data"]["toolCallId"] == "1").unwrap();
    assert_eq!(later["data"]["status"], "failed");
    let filter = format!("progress.update:{}", CALLS[1]);
    let inspect = ["worker", "inspect", &worker, "--event-type", &filter];
    let inspected = sandbox.run(&inspect).data_of("worker.inspected");
    assert_eq!(inspected["events"].as_array().unwrap().len(), 4, "{inspected}");
    sandbox.finish();
}

#[test]
fn calls_of_a_lost_runtime_are_closed_once_for_any_end_of_the_turn() {
    let script = PlayedScript::new(json!({}), json!({}))
        .prompted()
        .says(call("tool_call", "1", json!({"status": "in_progress"})))
        .asks(json!({"toolCallId": "1"}));
    // It answers only other requests, which never come.
    let script = script.prompted();
    let (sandbox, worker) = script.started();
    let accepted = sandbox.send_no_wait(&worker, "one");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "approval.requested");
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    sandbox.kill(&runtime);
    assert_eq!(sandbox.turn_end(&accepted)["data"]["error"]["code"], "RUNTIME_LOST");
    assert_eq!(closings(&sandbox.events(&worker)), [closed("1", json!({}))]);
    sandbox.kill_daemon();
    assert_eq!(closings(&sandbox.events(&worker)), [closed("1", json!({}))]);
    sandbox.finish();
}

#[test]
fn what_a_child_session_says_is_kept_under_its_id_and_is_not_the_workers_text() {
    let text = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    let script = PlayedScript::new(json!({}), json!({}))
        .prompted()
        .says(text("mine"))
        .says_of("child", text("not mine"))
        .says_of("child", call("tool_call", "1", json!({"status": "pending"})))
        .says_of("child", json!({"sessionUpdate": "usage_update", "used": 5}))
        .says(text(", too"))
        .answers(json!({}));
    let (sandbox, worker) = script.started();
    assert_eq!(sandbox.send(&worker, "go")["assistantText"], "mine, too");
    let events = sandbox.events(&worker);
    schema::check(&events);
    let chunks = updates(&events, &["agent_message_chunk"]);
    let chunk = json!({"method": "session/update", "kind": "agent_message_chunk", "sessionId": "child",
                       "content": {"type": "text", "text": "not mine"}});
    assert_eq!(chunks, [chunk]);
    let calls = updates(&events, &CALLS);
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|data| data["sessionId"] == "child" && data["toolCallId"] == "1"), "{calls:?}");
    assert_eq!(sandbox.show(&worker)["agent"]["contextUsed"], Value::Null);
    sandbox.finish();
}

#[test]
fn what_a_command_of_the_agents_own_terminal_printed_is_shown() {
    let meta = json!({"terminal_output_delta": {"data": "line\n", "terminal_id": "1"},
                      "terminal_exit": {"exit_code": 3, "signal": null, "terminal_id": "1"}});
    let script = PlayedScript::new(json!({}), json!({}))
        .prompted()
        .says(call(
            "tool_call_update",
            "1",
            json!({"status": "completed", "rawOutput": {"code": 3}, "_meta": meta}),
        ))
        .answers(json!({}));
    let (sandbox, worker) = script.started();
    let _ = sandbox.send(&worker, "go");
    let events = sandbox.events(&worker);
    schema::check(&events);
    let shown = json!({"method": "session/update", "kind": "tool_call_update", "toolCallId": "1", "status": "completed",
                       "rawOutput": {"code": 3}, "terminalOutput": "line\n",
                       "terminalExit": {"exitCode": 3, "signal": null}});
    assert_eq!(updates(&events, &CALLS), [shown]);
    sandbox.finish();
}
