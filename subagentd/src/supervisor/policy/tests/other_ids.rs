//! Requests that say less than their calls, or name other ids.

use super::*;

const UNDER_ALL: &[(&str, &str)] = &[("*", "allow"), ("edit(*.env)", "deny"), ("execute(touch *)", "deny")];

fn record(t: &str, body: &Value) -> Value {
    json!({"n": 1, "at": 1, "t": t, "turn": 1, "k": "tool_call", "b": body})
}

fn updates(call: &Value) -> Value {
    record("update", &json!({"sessionId": "s", "update": call}))
}

fn request(call: &Value, before: &Value) -> Value {
    let options: Vec<Value> =
        ALL.iter().map(|kind| json!({"optionId": kind, "name": kind, "kind": kind})).collect();
    let params = json!({"sessionId": "s", "toolCall": call, "options": options});
    let mut body = json!({"requestId": "ap_0123456789", "params": params});
    if !before.is_null() {
        body["toolCall"] = before.clone();
    }
    record("approvalRequested", &body)
}

/// Returns the decision, or `ask` if there is none.
fn decision(watch: &mut PolicyTracker, record: &Value) -> String {
    match see(watch, record) {
        Some(WorkerInput::DecideByRule { choice, .. }) => choice.decision,
        None => "ask".to_owned(),
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn what_a_request_leaves_out_was_said_before() {
    let edit =
        json!({"toolCallId": "1", "kind": "edit", "title": "Write", "rawInput": {"file_path": "/ws/.env"}});
    let run =
        json!({"toolCallId": "1", "kind": "execute", "title": "Bash", "rawInput": {"command": "touch x"}});
    let asked = json!({"toolCallId": "1", "title": "Write"});
    for call in [edit, run] {
        // Either the record contains the call, or the watch saw it.
        assert_eq!(decision(&mut watch(UNDER_ALL), &request(&asked, &call)), "deny", "{call}");
        let mut reported = watch(UNDER_ALL);
        see(&mut reported, &updates(&call));
        see(&mut reported, &updates(&json!({"toolCallId": "1", "status": "in_progress", "kind": "other"})));
        assert_eq!(decision(&mut reported, &request(&asked, &Value::Null)), "deny", "{call}");
    }
    let asked = json!({"toolCallId": "1", "title": "Write", "kind": "other"});
    let edit = json!({"toolCallId": "1", "kind": "edit", "locations": [{"path": "/ws/.env"}]});
    assert_eq!(decision(&mut watch(UNDER_ALL), &request(&asked, &edit)), "deny");
}

#[test]
fn a_title_and_an_input_are_read_together_wherever_they_were_said() {
    let rules = &[("*", "allow"), ("mcp__echo__*", "deny")];
    let before = json!({"toolCallId": "1", "rawInput": {"server": "echo", "tool": "say", "arguments": {}}});
    let asked = json!({"toolCallId": "1", "kind": "execute", "title": "mcp.echo.say"});
    assert_eq!(decision(&mut watch(rules), &request(&asked, &before)), "deny");
}

#[test]
fn a_request_that_says_too_little_is_asked() {
    let asked = json!({"toolCallId": "x", "title": "Confirm Agent Actions"});
    assert_eq!(decision(&mut watch(UNDER_ALL), &request(&asked, &Value::Null)), "ask");
    assert_eq!(decision(&mut watch(&[("*", "allow")]), &request(&asked, &Value::Null)), "allow");
    let input =
        json!({"toolCallId": "x", "title": "x", "rawInput": {"file_path": "/ws/.env", "content": "a"}});
    assert_eq!(decision(&mut watch(UNDER_ALL), &request(&input, &Value::Null)), "deny");
}

#[test]
fn a_request_for_two_open_calls_is_asked_under_every_vague_kind() {
    let open = |watch: &mut PolicyTracker| {
        let edit = json!({"toolCallId": "1", "kind": "edit", "rawInput": {"file_path": "/ws/.env"}});
        let run = json!({"toolCallId": "2", "kind": "execute", "rawInput": {"command": "touch x"}});
        [edit, run].iter().for_each(|call| assert_eq!(see(watch, &updates(call)), None));
    };
    for kind in [Value::Null, json!("other"), json!("think")] {
        let asked = json!({"toolCallId": "x", "title": "Confirm Agent Actions", "kind": kind});
        for (rules, expected) in [(UNDER_ALL, "ask"), (&[("*", "allow")], "allow")] {
            let mut watch = watch(rules);
            open(&mut watch);
            assert_eq!(decision(&mut watch, &request(&asked, &Value::Null)), expected, "{kind}");
        }
    }
}

#[test]
fn a_call_that_was_asked_under_another_id_is_no_violation() {
    let call =
        json!({"toolCallId": "call", "kind": "edit", "rawInput": {"file_path": "/ws/.env", "content": "a"}});
    let asked = json!({"toolCallId": "x", "title": "write_file"});
    let rejected = json!([{"type": "content", "content": {"type": "text", "text": "rejected by the user"}}]);
    let over = updates(&json!({"toolCallId": "call", "status": "completed", "content": rejected}));

    // The runtime matched the request to the call.
    let mut reported = watch(UNDER_ALL);
    see(&mut reported, &updates(&call));
    assert_eq!(decision(&mut reported, &request(&asked, &call)), "deny");
    assert_eq!(see(&mut reported, &over), None);
    let other = updates(&json!({"toolCallId": "2", "kind": "execute", "status": "completed",
                                "rawInput": {"command": "touch x"}}));
    assert!(see(&mut reported, &other).is_some(), "no request was for it");

    // The runtime found no match: then a text is no evidence, but a diff is.
    let mut reported = watch(UNDER_ALL);
    see(&mut reported, &updates(&call));
    assert_eq!(decision(&mut reported, &request(&asked, &Value::Null)), "ask");
    assert_eq!(see(&mut reported.clone(), &over), None);
    let diff = json!([{"type": "diff", "path": "/ws/.env", "newText": "a"}]);
    let output = json!({"toolCallId": "call", "status": "completed", "rawOutput": {"exit_code": 0}});
    let change = json!({"toolCallId": "call", "status": "completed", "content": diff});
    for (update, evidence) in
        [(change, "it shows a change of /ws/.env"), (output, "it shows the output of a command")]
    {
        let Some(WorkerInput::Violation { call, .. }) = see(&mut reported.clone(), &updates(&update)) else {
            panic!("not seen: {update}")
        };
        assert_eq!(call.evidence, evidence);
    }
    // Output in an earlier update is evidence. A diff in one may be what the request was about.
    let reported_before = |before: Value| {
        let mut reported = reported.clone();
        see(&mut reported, &updates(&before));
        see(&mut reported, &over)
    };
    let output =
        json!({"toolCallId": "call", "status": "in_progress", "_meta": {"terminal_output": {"data": "x"}}});
    assert!(reported_before(output).is_some());
    assert_eq!(reported_before(json!({"toolCallId": "call", "content": diff})), None);
}

#[test]
fn a_violation_says_what_was_seen() {
    let mut watch = watch(RULES);
    let Some(WorkerInput::Violation { call, .. }) = see(&mut watch, &reports("1", "rm x", "completed"))
    else {
        panic!("not seen")
    };
    assert_eq!(call.evidence, "it was reported as completed, and no request was for it");
}

#[test]
fn a_call_without_a_kind_or_with_a_reused_id_is_looked_at() {
    let mut watch = watch(RULES);
    let run = |kind: &str, line: &str| {
        updates(&json!({"sessionUpdate": kind, "toolCallId": "1", "title": "x", "status": "completed",
                        "rawInput": {"command": line}}))
    };
    assert_eq!(see(&mut watch, &run("tool_call", "ls")), None);
    assert!(see(&mut watch, &run("tool_call", "rm x")).is_some(), "another call of the same id");
    assert_eq!(see(&mut watch, &run("tool_call_update", "rm x")), None, "the same one");
    see(&mut watch, &asks("2", "rm x", ALL));
    see(&mut watch, &reports("2", "rm x", "completed"));
    let mut again = reports("2", "rm y", "completed");
    again["b"]["update"]["sessionUpdate"] = "tool_call".into();
    assert!(see(&mut watch, &again).is_some(), "that one was not asked for");
    see(&mut watch, &asks("3", "rm x", ALL));
    let mut twice = reports("3", "rm x", "completed");
    twice["b"]["update"]["sessionUpdate"] = "tool_call".into();
    assert_eq!((see(&mut watch, &twice), see(&mut watch, &twice)), (None, None), "it is said twice");
}
