//! Calls without a request, in forms that are easy to overlook.

use super::*;

fn update(call: &Value) -> Value {
    json!({"n": 1, "at": 1, "t": "update", "turn": 1, "k": "tool_call", "b": {"sessionId": "s", "update": call}})
}

fn is_violation(watch: &mut PolicyTracker, call: &Value) -> bool {
    matches!(see(watch, &update(call)), Some(WorkerInput::Violation { .. }))
}

#[test]
fn a_call_without_a_kind_is_noticed() {
    let mut watch = watch(RULES);
    let call = json!({"toolCallId": "1", "rawInput": {"command": "rm x"}, "status": "completed"});
    assert!(is_violation(&mut watch, &call));
    let nothing = json!({"toolCallId": "2", "title": "x", "status": "completed"});
    assert!(!is_violation(&mut watch, &nothing));
}

#[test]
fn an_id_that_is_used_again_is_another_call() {
    let call = |command: &str, status: &str| {
        json!({"sessionUpdate": "tool_call", "toolCallId": "1", "kind": "execute", "status": status,
               "rawInput": {"command": command}})
    };
    for status in ["completed", "pending"] {
        let mut watch = watch(RULES);
        see(&mut watch, &update(&call("ls", "pending")));
        see(&mut watch, &asks("1", "ls", ALL));
        let over = json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed"});
        assert!(!is_violation(&mut watch, &over));
        assert!(!is_violation(&mut watch, &over), "told twice");
        let again = is_violation(&mut watch, &call("rm x", status));
        assert!(again || is_violation(&mut watch, &over), "{status}");
    }
    // The same call reported twice is one call. A call with an earlier request is no violation.
    let mut watch = watch(RULES);
    see(&mut watch, &update(&call("rm x", "pending")));
    see(&mut watch, &asks("1", "rm x", ALL));
    assert!(!is_violation(&mut watch, &call("rm x", "completed")));
    assert!(!is_violation(&mut watch, &call("rm x", "completed")));
    see(&mut watch, &asks("1", "rm y", ALL));
    assert!(!is_violation(&mut watch, &call("rm y", "completed")));
}

#[test]
fn the_call_after_the_last_one_that_is_remembered_is_noticed() {
    let mut watch = watch(RULES);
    for number in 0..2 * MAX_CALLS {
        see(&mut watch, &reports(&number.to_string(), "ls", "completed"));
    }
    assert!(watch.calls.len() <= MAX_CALLS);
    let rm = |id: &str, status: &str| reports(id, "rm x", status);
    assert!(matches!(see(&mut watch, &rm("last", "completed")), Some(WorkerInput::Violation { .. })));
    // Open calls are remembered longer than completed ones.
    see(&mut watch, &rm("open", "pending"));
    see(&mut watch, &asks("open", "rm x", ALL));
    for number in 0..MAX_CALLS {
        see(&mut watch, &reports(&format!("more-{number}"), "ls", "completed"));
    }
    assert_eq!(see(&mut watch, &rm("open", "completed")), None);
}
