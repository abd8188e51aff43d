//! Inputs that follow from the records of a worker with a policy.

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::policy::{PolicyLayer, PolicyRule};

use super::*;

mod chain;
mod other_ids;
mod unasked;

fn spec(rules: &[(&str, &str)]) -> PolicySpec {
    let rules = rules
        .iter()
        .map(|(rule, action)| PolicyRule {
            rule: (*rule).to_owned(),
            action: (*action).to_owned(),
            line: None,
            column: None,
        })
        .collect();
    let layer = PolicyLayer {
        layer: "config".to_owned(),
        source: Some("/c.yaml".to_owned()),
        rules,
        tools: Vec::new(),
    };
    PolicySpec::own("/ws".into(), None, vec![layer])
}

fn watch(rules: &[(&str, &str)]) -> PolicyTracker {
    PolicyTracker::of(Some(&spec(rules)), &RulesOfChain::default(), "/ws", Path::new("/ws")).unwrap()
}

fn see(watch: &mut PolicyTracker, record: &Value) -> Option<WorkerInput> {
    let text = record.to_string();
    watch.see(&serde_json::from_str(&text).unwrap())
}

fn asks(id: &str, command: &str, kinds: &[&str]) -> Value {
    let options: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({"optionId": format!("o-{kind}"), "name": kind, "kind": kind}))
        .collect();
    let call = json!({"toolCallId": id, "kind": "execute", "rawInput": {"command": command}});
    json!({"n": 1, "at": 1, "t": "approvalRequested", "turn": 1,
           "b": {"requestId": "ap_0123456789", "params": {"toolCall": call, "options": options}}})
}

fn reports(id: &str, command: &str, status: &str) -> Value {
    let update =
        json!({"toolCallId": id, "kind": "execute", "rawInput": {"command": command}, "status": status});
    json!({"n": 1, "at": 1, "t": "update", "turn": 1, "k": "tool_call", "b": {"sessionId": "s", "update": update}})
}

const RULES: &[(&str, &str)] = &[("execute(ls *)", "allow"), ("execute(rm *)", "deny")];
const ALL: &[&str] = &["allow_always", "allow_once", "reject_always", "reject_once"];

#[test]
fn a_request_is_decided_by_the_rule_that_fits() {
    let mut watch = watch(RULES);
    let Some(WorkerInput::DecideByRule { choice, rule, .. }) = see(&mut watch, &asks("1", "ls -l", ALL))
    else {
        panic!("not decided")
    };
    assert_eq!((choice.option_id.as_deref(), choice.decision.as_str()), (Some("o-allow_once"), "allow"));
    let expected = json!({"action": "allow", "kind": "execute", "subject": "ls -l", "rule": "execute(ls *)",
                          "layer": "config", "source": "/c.yaml"});
    assert_eq!(json!(rule), expected);
    let Some(WorkerInput::DecideByRule { choice, rule, .. }) = see(&mut watch, &asks("2", "ls; rm x", ALL))
    else {
        panic!("not decided")
    };
    assert_eq!((choice.option_id.as_deref(), choice.decision.as_str()), (Some("o-reject_once"), "deny"));
    assert_eq!(rule.subject.as_deref(), Some("rm x"));
}

#[test]
fn without_a_rule_or_an_option_for_once_the_owner_is_asked() {
    let mut watch = watch(RULES);
    assert_eq!(see(&mut watch, &asks("1", "id", ALL)), None);
    assert_eq!(see(&mut watch, &asks("1", "ls", &["allow_always", "reject_once"])), None);
    assert_eq!(see(&mut watch, &asks("1", "rm x", &["allow_once", "reject_always"])), None);
    assert_eq!(see(&mut watch, &asks("1", "ls", &[])), None);
}

#[test]
fn a_denied_call_that_was_made_without_asking_is_a_violation_once() {
    let mut watch = watch(RULES);
    assert_eq!(see(&mut watch, &reports("1", "rm x", "in_progress")), None, "it may be asked yet");
    let Some(WorkerInput::Violation { turn, call }) = see(&mut watch, &reports("1", "rm x", "completed"))
    else {
        panic!("not seen")
    };
    assert_eq!(
        (turn, call.tool_call_id.as_str(), call.decided.rule.as_deref()),
        (Some(1), "1", Some("execute(rm *)"))
    );
    assert_eq!(see(&mut watch, &reports("1", "rm x", "completed")), None);
    for (id, command, status) in [("2", "ls", "completed"), ("3", "id", "completed"), ("4", "rm x", "failed")]
    {
        assert_eq!(see(&mut watch, &reports(id, command, status)), None, "{command}");
    }
}

#[test]
fn what_a_shell_only_read_is_judged_as_that_where_the_line_is_not_reported() {
    let rules = [("*", "deny"), ("read", "allow"), ("read(*.env)", "deny")];
    let record = |update: &Value| json!({"n": 1, "at": 1, "t": "update", "turn": 1, "k": "tool_call", "b": {"sessionId": "s", "update": update}});
    let over = record(&json!({"toolCallId": "1", "status": "completed"}));
    let reads = |kind: &str, path: &str, input: &Value| {
        let mut watch = watch(&rules);
        let begun = json!({"toolCallId": "1", "kind": kind, "name": "exec_command", "title": "Read file",
                           "locations": [{"path": path}], "rawInput": input});
        assert_eq!(see(&mut watch, &record(&begun)), None);
        see(&mut watch, &over).is_none()
    };
    assert!(reads("read", "/ws/a", &json!(null)));
    assert!(!reads("read", "/ws/.env", &json!(null)), "the rules for files are about it");
    assert!(!reads("search", "/ws/a", &json!(null)));
    assert!(!reads("execute", "/ws/a", &json!(null)));
    assert!(!reads("read", "/ws/a", &json!({"command": "cat /ws/a"})), "the line is told, and is judged");
    // A request for a command must name it.
    let mut asked = asks("1", "", ALL);
    asked["b"]["params"]["toolCall"] =
        json!({"toolCallId": "1", "kind": "read", "name": "exec_command", "locations": [{"path": "/ws/a"}]});
    let Some(WorkerInput::DecideByRule { choice, .. }) = see(&mut watch(&rules), &asked) else {
        panic!("not decided")
    };
    assert_eq!(choice.decision, "deny");
}

#[test]
fn a_call_that_was_asked_for_is_none() {
    let mut watch = watch(RULES);
    see(&mut watch, &asks("1", "rm x", &[]));
    assert_eq!(see(&mut watch, &reports("1", "rm x", "completed")), None);
    see(&mut watch, &json!({"n": 2, "at": 1, "t": "turnEnd", "turn": 1, "b": {"end": "answered"}}));
    assert!(watch.calls.is_empty(), "nothing of a turn is kept behind its end");
}

#[test]
fn what_is_hostile_is_bounded() {
    let mut watch = watch(RULES);
    for id in 0..2 * MAX_CALLS {
        see(&mut watch, &reports(&id.to_string(), "rm x", "pending"));
    }
    see(&mut watch, &reports(&"x".repeat(2 * request::MAX_ID_BYTES), "rm x", "completed"));
    assert_eq!(watch.calls.len(), MAX_CALLS);
    let long = format!("rm {}", "x".repeat(100_000));
    assert!(see(&mut watch, &asks("1", &long, ALL)).is_some(), "its text alone is denied");
    let long = format!("ls {}", "x".repeat(100_000));
    assert_eq!(see(&mut watch, &asks("unseen", &long, ALL)), None, "too long to be taken apart");
    for body in [json!(null), json!([]), json!({"update": 7}), json!({"requestId": 1})] {
        for t in ["update", "approvalRequested"] {
            let record = json!({"n": 1, "at": 1, "t": t, "k": "tool_call", "b": body});
            assert_eq!(see(&mut watch, &record), None);
        }
    }
}

#[test]
fn rules_that_are_none_are_refused() {
    for (rule, action) in [("execute(", "allow"), ("", "deny"), ("edit", "maybe"), ("frobnicate", "deny")] {
        let error =
            compiled(&spec(&[(rule, action)]), &RulesOfChain::default(), Path::new("/ws")).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument, "{rule}");
    }
    assert!(
        PolicyTracker::of(Some(&spec(&[("(", "deny")])), &RulesOfChain::default(), "/ws", Path::new("/ws"))
            .is_none()
    );
    assert!(PolicyTracker::of(None, &RulesOfChain::default(), "/ws", Path::new("/ws")).is_none());
}

#[test]
fn a_daemon_knows_what_the_one_before_it_has_seen_of_a_turn() {
    let recall = |record: &Value| {
        let mut watch = watch(RULES);
        let text = record.to_string();
        let record: JournalRecord<'_> = serde_json::from_str(&text).unwrap();
        watch.recall(record.t, record.b.unwrap().get());
        watch
    };
    // The following update only reports completion.
    let over = json!({"n": 2, "at": 1, "t": "update", "turn": 1, "k": "tool_call_update",
                      "b": {"sessionId": "s", "update": {"toolCallId": "1", "status": "completed"}}});
    assert!(see(&mut recall(&reports("1", "rm x", "pending")), &over).is_some());
    assert_eq!(see(&mut recall(&reports("1", "ls", "pending")), &over), None);
    assert_eq!(
        see(&mut recall(&reports("1", "rm x", "completed")), &over),
        None,
        "it was a violation before"
    );
    let mut asked = recall(&asks("1", "rm x", &[]));
    assert_eq!(see(&mut asked, &reports("1", "rm x", "completed")), None, "a person has decided");
}

#[test]
fn what_the_client_asks_is_lenient_where_no_rule_is_about_it() {
    let mut watch = watch(&[("edit(*.env)", "deny"), ("execute(ls *)", "allow")]);
    let mut asked = asks("1", "ls > x", ALL);
    assert_eq!(see(&mut watch, &asked), None, "no rule fits the file");
    asked = asks("1", "ls -l", ALL);
    asked["b"]["params"]["toolCall"] =
        json!({"toolCallId": "1", "kind": "read", "locations": [{"path": "/ws/a"}]});
    assert_eq!(see(&mut watch, &asked), None, "the agent asks for itself");
    asked["b"]["clientCall"] = 7.into();
    let Some(WorkerInput::DecideByRule { choice, rule, .. }) = see(&mut watch, &asked) else {
        panic!("not decided")
    };
    assert_eq!((choice.decision.as_str(), rule.rule), ("allow", None));
    assert_eq!(rule.note.as_deref(), Some("no rule is about it"));
    let rules = watch.client_rules();
    assert_eq!((rules.read, rules.edit, rules.execute), (false, true, true));
    assert!(rules.guarded.contains(&"/ws/.agents".into()));
    let rules = super::tests::watch(&[("edit(src/**)", "allow")]).client_rules();
    assert_eq!(
        (rules.read, rules.edit, rules.execute),
        (false, true, false),
        "nothing that a shell must not open"
    );
    let rules = super::tests::watch(&[("read(*.key)", "deny")]).client_rules();
    assert_eq!((rules.read, rules.edit, rules.execute), (true, false, true));
}

#[test]
fn what_a_definition_does_not_list_the_client_does_not_do() {
    let lists = |tools: &[&str]| {
        let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        let layer = PolicyLayer { layer: "definition".to_owned(), source: None, rules: Vec::new(), tools };
        let spec = PolicySpec::own("/ws".into(), None, vec![layer]);
        PolicyTracker::of(Some(&spec), &RulesOfChain::default(), "/ws", Path::new("/ws")).unwrap()
    };
    let asked = |tools: &[&str]| {
        let rules = lists(tools).client_rules();
        (rules.read, rules.edit, rules.execute)
    };
    assert_eq!(asked(&["Read"]), (false, true, true));
    assert_eq!(asked(&["Read", "Edit"]), (false, false, true));
    assert_eq!(asked(&["execute"]), (true, true, true), "its shell opens files");
    assert_eq!(asked(&["read(src/**)", "edit", "execute"]), (true, false, true), "some files alone");
    assert_eq!(asked(&["Read", "Edit", "Bash"]), (false, false, false));
    for (call, decision) in [
        (json!({"toolCallId": "1", "kind": "edit", "locations": [{"path": "/ws/a"}]}), "deny"),
        (json!({"toolCallId": "1", "kind": "execute", "rawInput": {"command": "rm -rf a"}}), "deny"),
        (json!({"toolCallId": "1", "kind": "read", "locations": [{"path": "/ws/a"}]}), "allow"),
    ] {
        let mut record = asks("1", "", ALL);
        record["b"]["params"]["toolCall"] = call;
        record["b"]["clientCall"] = 7.into();
        let Some(WorkerInput::DecideByRule { choice, .. }) = see(&mut lists(&["Read"]), &record) else {
            panic!("not decided: {record}")
        };
        assert_eq!(choice.decision, decision, "{record}");
    }
}
