//! The table of `docs/events.md`, on shortened data of real agents and on invalid data.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::update::classify;

#[test]
fn updates_of_real_agents_have_the_fields_of_their_kind() {
    let expected = [
        (
            "tool_call",
            json!({"toolCallId": "toolu_1", "title": "Terminal", "toolKind": "execute", "status": "pending",
                             "content": [], "rawInput": {}}),
        ),
        (
            "tool_call_update",
            json!({"toolCallId": "toolu_1", "title": "touch /workspace/held.txt",
                                    "rawInput": {"command": "touch /workspace/held.txt"},
                                    "command": "touch /workspace/held.txt"}),
        ),
        (
            "tool_call_update",
            json!({"toolCallId": "toolu_2",
                                    "locations": [{"path": "/workspace/seed.txt", "line": 1}],
                                    "content": [{"type": "diff", "path": "/workspace/seed.txt",
                                                 "oldText": "seed line 1", "newText": "SEEDED line 1"}]}),
        ),
        (
            "tool_call",
            json!({"toolCallId": "call_1", "title": "touch /workspace/held.txt", "toolKind": "execute",
                             "status": "in_progress", "content": [{"type": "terminal", "terminalId": "call_1"}],
                             "rawInput": {"command": "touch /workspace/held.txt", "cwd": "/workspace"},
                             "command": "touch /workspace/held.txt"}),
        ),
        (
            "tool_call_update",
            json!({"toolCallId": "run_shell_command__1", "title": "tail -f seed.txt",
                                    "toolKind": "execute", "status": "completed", "locations": [],
                                    "content": [{"type": "content",
                                                 "content": {"type": "text", "text": "seed line 1"}}]}),
        ),
        (
            "tool_call",
            json!({"toolCallId": "call_2", "title": "bash", "toolKind": "execute", "status": "pending",
                             "locations": [{"path": "/workspace"}], "rawInput": {"cwd": "/workspace"}}),
        ),
        ("usage", json!({"used": 101, "size": 1_000_000, "cost": {"amount": 0.5, "currency": "USD"}})),
        ("session_info", json!({"title": "RUN: touch held.txt", "updatedAt": "2026-11-21T20:49:57.440Z"})),
        ("session_info", json!({})),
        (
            "available_commands",
            json!({"availableCommands": [
            {"name": "plan", "description": "Turn plan mode on.", "input": null},
            {"name": "mcp", "description": "Show the status of the MCP servers.", "input": {"hint": "[reconnect]"}}]}),
        ),
        ("thought", json!({"text": "let me "})),
        ("user_message", json!({"text": "RUN: touch held.txt"})),
    ];
    let recorded: Vec<&str> = include_str!("recorded.ndjson").lines().collect();
    assert_eq!(recorded.len(), expected.len());
    for (line, (kind, fields)) in recorded.into_iter().zip(expected) {
        assert_eq!(classify(line), kind, "{line}");
        assert_eq!(Value::Object(of(kind, &serde_json::from_str(line).unwrap())), fields, "{line}");
    }
}

fn fields(kind: &str, update: Value) -> Value {
    of(kind, &json!({"sessionId": "s", "update": update})).into()
}

#[test]
fn the_other_kinds_of_the_protocol_have_theirs() {
    let entries = json!([{"content": "look", "priority": "high", "status": "pending"}]);
    assert_eq!(fields("plan", json!({"entries": entries})), json!({"entries": entries}));
    assert_eq!(fields("mode", json!({"currentModeId": "plan"})), json!({"currentModeId": "plan"}));
    let options =
        json!([{"id": "model", "name": "Model", "type": "select", "currentValue": "fast", "options": []}]);
    assert_eq!(fields("config_option", json!({"configOptions": options})), json!({"configOptions": options}));
    let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
    assert_eq!(fields("agent_message_chunk", json!({"content": image})), json!({"content": image}));
    assert_eq!(fields("brand_new", json!({"x": 1})), json!({}));
}

#[test]
fn values_of_unexpected_types_are_ignored() {
    let wrong = json!({"toolCallId": 7, "title": null, "kind": ["edit"], "status": {}, "locations": "x",
                       "content": {"type": "diff"}, "rawInput": null});
    assert_eq!(fields("tool_call", wrong), json!({}));
    let mixed = json!({"toolCallId": "1", "locations": [{"path": "a"}, "b", null], "content": [1], "rawInput": "text"});
    let taken = json!({"toolCallId": "1", "locations": [{"path": "a"}], "content": [], "rawInput": "text"});
    assert_eq!(fields("tool_call", mixed), taken);
    assert_eq!(fields("usage", json!({"used": "1", "size": null, "cost": 3})), json!({}));
    assert_eq!(fields("plan", json!({"entries": {}})), json!({}));
}

#[test]
fn a_command_is_one_string() {
    let of = |raw_input: Value| fields("tool_call", json!({"rawInput": raw_input}))["command"].take();
    assert_eq!(of(json!({"command": "ls -l | wc"})), "ls -l | wc");
    assert_eq!(of(json!({"cmd": "ls"})), "ls");
    assert_eq!(of(json!({"command": ["bash", "-lc", "ls *.rs"]})), "bash -lc 'ls *.rs'");
    assert_eq!(of(json!({"command": 7, "cmd": "ls"})), "ls");
    for none in
        [json!({"command": []}), json!({"command": ["a", 1]}), json!({"command": {}}), json!("ls"), json!({})]
    {
        assert_eq!(of(none), Value::Null);
    }
}

#[test]
fn tokens_are_found_where_agents_have_them() {
    let usage = json!({"inputTokens": 100, "outputTokens": 20, "note": "x"});
    let meta = json!({"quota": {"token_count": {"input_tokens": 1, "output_tokens": 2}, "model_usage": []}});
    let found = json!({"inputTokens": 100, "outputTokens": 20});
    assert_eq!(usage_of_turn(Some(&usage), Some(&meta)), Some(found));
    assert_eq!(usage_of_turn(None, Some(&meta)), Some(json!({"inputTokens": 1, "outputTokens": 2})));
    assert_eq!(usage_of_turn(Some(&json!({})), Some(&json!({"quota": 1}))), None);
    assert_eq!(usage_of_turn(None, None), None);
}

proptest! {
    #[test]
    fn arbitrary_json_never_panics(text in r#"[\[\]{}:,"a-z0-9_]{0,80}"#, kind in 0usize..11) {
        let kinds = ["tool_call", "tool_call_update", "plan", "usage", "mode", "available_commands", "config_option",
                     "session_info", "thought", "user_message", "agent_message_chunk"];
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let _ = of(kinds[kind], &value);
            let _ = usage_of_turn(Some(&value), Some(&value));
        }
    }
}
