//! Calls with incomplete or contradicting descriptions.

use serde_json::{Value, json};

use super::{LayerKind, policy, real};
use crate::policy::{CallVerdict, RuleAction, ToolCallDescription, ToolKind};

fn judged(rules: &str, reported: &[Value]) -> CallVerdict {
    let mut call = ToolCallDescription::default();
    reported.iter().for_each(|reported| call.learn(reported));
    policy(&[(LayerKind::Config, rules)]).decide(&call, &real)
}

const RULES: &str = "{'*': allow, edit: {'*.env': deny}, execute: {'rm *': deny}}";

#[test]
fn the_strictest_of_what_was_said_of_a_call_counts() {
    let table = [
        // The permission request omits details of the call.
        (
            vec![
                json!({"kind": "edit", "title": "Write .env", "locations": [{"path": "/ws/.env"}]}),
                json!({"title": "Write"}),
            ],
            RuleAction::Deny,
        ),
        (
            vec![
                json!({"kind": "edit", "locations": [{"path": "/ws/.env"}]}),
                json!({"kind": "other", "title": "Write"}),
            ],
            RuleAction::Deny,
        ),
        (
            vec![
                json!({"kind": "execute", "rawInput": {"command": "rm x"}}),
                json!({"kind": "execute", "title": "Bash", "rawInput": {"command": "ls"}}),
            ],
            RuleAction::Deny,
        ),
        (
            vec![json!({"kind": "execute", "title": "rm x"}), json!({"kind": "execute", "title": "Bash"})],
            RuleAction::Deny,
        ),
        (
            vec![json!({"kind": "execute", "title": "Bash"}), json!({"kind": "execute", "title": "rm x"})],
            RuleAction::Deny,
        ),
        (
            vec![json!({"name": "Bash", "title": "rm x"}), json!({"name": "my_tool", "kind": "other"})],
            RuleAction::Deny,
        ),
        // A title counts as a command only without a better one, and a line grows while the model writes
        // it.
        (
            vec![
                json!({"kind": "execute", "title": "rm things"}),
                json!({"rawInput": {"command": "l"}}),
                json!({"rawInput": {"command": "ls -l"}}),
            ],
            RuleAction::Allow,
        ),
        // A vague kind adds no reading.
        (
            vec![
                json!({"kind": "other", "title": "x"}),
                json!({"kind": "edit", "locations": [{"path": "/ws/a"}]}),
            ],
            RuleAction::Allow,
        ),
    ];
    for (reported, expected) in table {
        let verdict = judged(RULES, &reported);
        assert_eq!(verdict.action, expected, "{reported:?} {verdict:#?}");
    }
}

#[test]
fn a_call_that_is_reported_in_too_many_ways_is_asked() {
    let reported: Vec<Value> = (0..40)
        .map(|number| json!({"kind": "execute", "rawInput": {"command": format!("{number} x")}}))
        .collect();
    assert_eq!(judged("full", &reported).action, RuleAction::Ask);
}

#[test]
fn a_call_without_a_kind_is_asked_where_a_kind_that_it_may_be_is_denied() {
    let table = [
        (RULES, json!({"title": "Confirm Agent Actions"}), RuleAction::Ask),
        (RULES, json!({"title": "Write", "name": "odd"}), RuleAction::Ask),
        (
            RULES,
            json!({"kind": "other", "title": "Ask the user", "rawInput": {"question": "x"}}),
            RuleAction::Allow,
        ),
        (RULES, json!({"kind": "other", "title": "Ask the user", "name": "ask_user"}), RuleAction::Allow),
        (RULES, json!({"name": "mcp__a__b"}), RuleAction::Allow),
        (RULES, json!({"rawInput": {"path": "/ws/.env"}}), RuleAction::Ask),
        (RULES, json!({"kind": "other", "rawInput": {"path": "/ws/.env"}}), RuleAction::Ask),
        (RULES, json!({"rawInput": {"path": "/ws/a"}}), RuleAction::Allow),
        ("full", json!({"title": "Confirm Agent Actions"}), RuleAction::Allow),
        ("{'*': deny, other: allow}", json!({"title": "x"}), RuleAction::Ask),
        ("{edit: deny, '*': allow}", json!({"title": "x"}), RuleAction::Allow),
        ("{'*': deny}", json!({"title": "x"}), RuleAction::Deny),
        ("{'*': allow, edit: {'*.env': deny}, odd: allow}", json!({"name": "odd"}), RuleAction::Allow),
    ];
    for (rules, reported, expected) in table {
        let verdict = judged(rules, std::slice::from_ref(&reported));
        assert_eq!(verdict.action, expected, "{rules} {reported} {verdict:#?}");
    }
}

#[test]
fn a_kind_that_says_nothing_and_a_title_alone_are_asked_where_anything_is_denied() {
    let denying = [
        RULES,
        "{'*': allow, edit: {'*.env': deny}}",
        "{'*': allow, read: {'*.env': deny}}",
        "{'*': allow, fetch: {'https://evil.com/*': deny}}",
        "{'*': allow, delete: deny}",
        "{'*': allow, 'mcp__github__*': deny}",
        "{'*': allow, 'mcp__github__push': deny}",
        "{'*': allow, task: {'*': allow, reviewer: deny}}",
        "{'*': allow, todo: deny}",
        "read_only",
        "{'*': ask, other: allow, think: allow}",
    ];
    let free = ["full", "{'*': allow}", "{edit: deny, '*': allow}", "{'mcp__github__*': deny, '*': allow}"];
    for kind in ["other", "think", "a kind that ACP may get"] {
        for input in [json!(null), json!({})] {
            let reported = json!({"kind": kind, "title": "Confirm Agent Actions", "rawInput": input});
            for rules in denying {
                let verdict = judged(rules, std::slice::from_ref(&reported));
                assert_eq!(verdict.action, RuleAction::Ask, "{rules} {reported} {verdict:#?}");
            }
            for rules in free {
                let verdict = judged(rules, std::slice::from_ref(&reported));
                assert_eq!(verdict.action, RuleAction::Allow, "{rules} {reported} {verdict:#?}");
            }
        }
    }
}

#[test]
fn the_inputs_of_a_call_are_read_for_any_kind() {
    let said = ToolKind::ALL.into_iter().map(|kind| json!(kind.as_str()));
    let is_vague = |kind: &Value| {
        let clear = ["read", "edit", "delete", "move", "search", "execute", "fetch"];
        kind.as_str().is_none_or(|kind| !clear.contains(&kind))
    };
    for kind in said.chain([json!(null), json!("switch_mode")]) {
        let table = [
            (json!({"file_path": "/ws/.env", "content": "x"}), RuleAction::Deny),
            (json!({"path": "/ws/.env", "new_string": "x"}), RuleAction::Deny),
            (json!({"path": "/ws/a", "content": "x"}), RuleAction::Allow),
            (json!({"command": "rm x"}), RuleAction::Deny),
            (json!({"url": "https://bad.example/x"}), RuleAction::Deny),
            (json!({"path": "/ws/a", "url": "https://bad.example/x"}), RuleAction::Deny),
            (json!({"path": "/ws/a", "url": "https://good.example/x"}), RuleAction::Allow),
            (json!({"uri": "file:///ws/.env", "content": "x"}), RuleAction::Deny),
        ];
        let rules =
            "{'*': allow, edit: {'*.env': deny}, execute: {'rm *': deny}, fetch: {'*bad.example*': deny}}";
        for (input, expected) in table {
            let reported = json!({"kind": kind, "title": "x", "rawInput": input});
            let verdict = judged(rules, std::slice::from_ref(&reported));
            if expected == RuleAction::Deny || is_vague(&kind) {
                assert_eq!(verdict.action, expected, "{reported} {verdict:#?}");
            } else {
                // What the kind needs may be missing.
                assert!(verdict.action < RuleAction::Deny, "{reported} {verdict:#?}");
            }
        }
    }
    let of_a_server =
        json!({"kind": "other", "name": "mcp__wiki__put", "rawInput": {"path": "/.env", "content": "x"}});
    assert_eq!(judged(RULES, &[of_a_server]).action, RuleAction::Allow, "its paths are not files here");
    for (rules, expected) in [
        ("full", RuleAction::Allow),
        ("{read: {'*.env': deny}, '*': allow}", RuleAction::Allow),
        ("{'*': allow, read: {'*.env': deny}}", RuleAction::Deny),
    ] {
        let file = json!({"kind": "read", "rawInput": {"uri": "file:///ws/.env"}});
        assert_eq!(judged(rules, &[file]).action, expected, "{rules}");
    }
}

#[test]
fn a_command_that_cannot_be_read_is_asked_where_commands_are_restricted() {
    for command in [json!(5), json!({"x": "rm"}), json!([1, "rm"])] {
        let reported = json!({"kind": "other", "title": "x", "rawInput": {"command": command}});
        assert_eq!(judged(RULES, std::slice::from_ref(&reported)).action, RuleAction::Ask, "{reported}");
        assert_eq!(judged("full", std::slice::from_ref(&reported)).action, RuleAction::Allow, "{reported}");
    }
}

#[test]
fn each_folder_that_a_call_names_is_judged() {
    let rules = "{execute: {'git status*': allow}}";
    let reported =
        |command: &str, cwd: &str| json!({"kind": "execute", "rawInput": {"command": command, "cwd": cwd}});
    let here = reported("git status", "/ws/sub");
    assert_eq!(judged(rules, std::slice::from_ref(&here)).action, RuleAction::Allow);
    assert_eq!(judged(rules, &[reported("git status", "/ws/x"), here.clone()]).action, RuleAction::Ask);
    assert_eq!(
        judged(rules, &[reported("git status", "/ws/x"), reported("git status -s", "/ws/sub"), here]).action,
        RuleAction::Ask
    );
}

#[test]
fn arguments_in_a_text_make_the_answer_only_stricter() {
    let reported = |text: &str, status: &str, input: Value| {
        json!({"kind": "other", "title": "x", "status": status, "rawInput": input,
               "content": [{"type": "content", "content": {"type": "text", "text": text}}]})
    };
    let table = [
        (RULES, reported("{\"command\": \"rm x\"}", "in_progress", Value::Null), RuleAction::Deny),
        (RULES, reported("{\"command\": \"ls\"}", "in_progress", Value::Null), RuleAction::Allow),
        (RULES, reported("{\"command\": \"rm x\"}", "completed", Value::Null), RuleAction::Ask),
        (RULES, reported("{\"command\": \"rm x\"}", "pending", json!({"a": 1})), RuleAction::Allow),
        (
            "{execute: {'ls*': allow}}",
            reported("{\"command\": \"ls\"}", "pending", Value::Null),
            RuleAction::Ask,
        ),
    ];
    for (rules, reported, expected) in table {
        assert_eq!(judged(rules, std::slice::from_ref(&reported)).action, expected, "{reported}");
    }
}

#[test]
fn a_title_with_a_path_says_nothing_of_what_else_it_does() {
    let asks = json!({"kind": "other", "title": "Confirm Agent Actions", "locations": [{"path": "/ws/a"}]});
    for rules in [
        "{'*': allow, execute: {'rm *': deny}}",
        "{'*': allow, fetch: deny}",
        "{'*': allow, mcp__github__push: deny}",
    ] {
        assert_eq!(judged(rules, std::slice::from_ref(&asks)).action, RuleAction::Ask, "{rules}");
    }
    assert_eq!(judged("{'*': allow}", &[asks]).action, RuleAction::Allow);
}

#[test]
fn an_address_of_a_file_is_read_as_clients_read_it() {
    let read = |uri: &str| {
        let call = json!({"kind": "read", "rawInput": {"uri": uri}});
        judged("{'*': ask, read: {'*': allow, '/etc/*': deny}}", &[call]).action
    };
    for uri in ["file:///etc/shadow", " file:///etc/shadow", "fi\nle:///etc/shadow", "FILE://host/etc/shadow"]
    {
        assert_eq!(read(uri), RuleAction::Deny, "{uri:?}");
    }
    assert_eq!(read("file:///ws/a"), RuleAction::Allow);
    // It cannot be read as a path.
    assert_eq!(read("file://%zz/etc/x"), RuleAction::Ask);
}

#[test]
fn what_stands_deep_in_an_input_is_judged() {
    let rules = "{'*': allow, execute: {'rm *': deny}, edit: {'*.env': deny}, fetch: {'https://evil.example/*': deny}, task: {secret: deny}}";
    let table = [
        (json!({"actions": [{"command": "rm x"}]}), RuleAction::Deny),
        (json!({"actions": [{"command": "ls"}, {"command": ["rm", "x"]}]}), RuleAction::Deny),
        (json!({"command": "ls", "then": {"do": [[{"cmd": "rm x"}]]}}), RuleAction::Deny),
        (json!({"actions": [{"command": "rm", "args": ["x"]}]}), RuleAction::Deny),
        (json!({"actions": [{"command": {"program": "rm"}}]}), RuleAction::Ask),
        (json!({"actions": [{"url": "https://evil.example/x"}]}), RuleAction::Deny),
        (json!({"files": [{"path": "a"}, {"path": "b.env", "content": "x"}]}), RuleAction::Deny),
        (json!({"config": {"subagent_type": "secret"}}), RuleAction::Deny),
        (json!({"actions": [{"command": "ls"}, {"url": "https://good.example/"}]}), RuleAction::Allow),
        (json!({"todos": [{"content": "rm x", "status": "pending"}]}), RuleAction::Allow),
        (json!({"path": "a", "patch": {"changes": {"b.env": {}}}}), RuleAction::Deny),
        (json!({"path": "b.env", "op": {"content": "x"}}), RuleAction::Deny),
        (json!({"path": "a", "op": {"content": "x"}}), RuleAction::Allow),
    ];
    for (input, expected) in table {
        let reported = json!({"kind": "other", "title": "Actions", "rawInput": input});
        let verdict = judged(rules, std::slice::from_ref(&reported));
        assert_eq!(verdict.action, expected, "{reported} {verdict:#?}");
    }
    let shell = json!({"kind": "execute", "title": "Run", "rawInput": {"steps": [{"script": "rm x"}]}});
    assert_eq!(judged(rules, &[shell]).action, RuleAction::Deny);
    for input in [
        json!({"path": "b.env", "op": {"content": "x"}}),
        json!({"path": "a", "op": {"content": "x", "changes": {"b.env": {}}}}),
    ] {
        let reported = json!({"kind": "read", "rawInput": input});
        assert_eq!(judged(rules, std::slice::from_ref(&reported)).action, RuleAction::Deny, "{reported}");
    }
}

#[test]
fn no_number_of_objects_in_an_input_hides_one() {
    let rules = "{'*': allow, edit: {'*.env': deny}}";
    for (others, expected) in [(0, RuleAction::Deny), (20, RuleAction::Deny), (100, RuleAction::Ask)] {
        let mut ops = vec![json!({"path": "b.env", "content": "x"})];
        ops.extend((0..others).map(|number| json!({ "path": format!("a{number}") })));
        for kind in ["read", "search"] {
            let reported = json!({"kind": kind, "rawInput": {"ops": ops}});
            let verdict = judged(rules, std::slice::from_ref(&reported));
            assert_eq!(verdict.action, expected, "{kind} {others} {verdict:#?}");
            assert_eq!(judged("full", &[reported]).action, RuleAction::Allow, "{kind} {others}");
        }
    }
}

#[test]
fn of_what_is_not_examined_only_the_command_counts_for_a_tool_of_a_server() {
    let inputs = |key: &str| json!({"all": (0..100).map(|number| json!({key: format!("a{number}")})).collect::<Vec<_>>()});
    let deep = (0..100).fold(json!({"path": "a"}), |inner, _| json!({ "in": inner }));
    let table = [
        (RULES, inputs("path"), RuleAction::Allow),
        (RULES, deep, RuleAction::Allow),
        (RULES, inputs("command"), RuleAction::Ask),
        ("{'*': allow, edit: {'*.env': deny}}", inputs("command"), RuleAction::Allow),
    ];
    for (rules, input, expected) in table {
        let reported = json!({"kind": "other", "name": "mcp__wiki__put", "rawInput": input});
        let verdict = judged(rules, &[reported]);
        assert_eq!(verdict.action, expected, "{rules} {verdict:#?}");
    }
}

#[test]
fn an_input_that_is_too_deep_or_too_large_is_asked_where_something_is_denied() {
    let deep = (0..200).fold(json!({"command": "rm x"}), |inner, _| json!({ "in": inner }));
    let wide = json!({"actions": (0..5000).map(|number| json!([number])).collect::<Vec<_>>()});
    let of = |key: &str, count: usize| json!({"all": (0..count).map(|number| json!({key: format!("a{number}")})).collect::<Vec<_>>()});
    let rules = "{'*': allow, execute: {'rm *': deny}, fetch: {'https://x/*': deny}, edit: {'*.env': deny}}";
    for input in [deep, wide, of("command", 100), of("url", 100), of("path", 100)] {
        let reported = json!({"kind": "other", "title": "Actions", "rawInput": input});
        let verdict = judged(rules, std::slice::from_ref(&reported));
        assert_eq!(verdict.action, RuleAction::Ask, "{verdict:#?}");
        // A text that is no address is always asked.
        if reported["rawInput"]["all"][0]["url"].is_null() {
            assert_eq!(judged("{'*': allow}", &[reported]).action, RuleAction::Allow);
        }
    }
    let reported = json!({"kind": "other", "title": "Actions", "rawInput": of("path", 40)});
    assert_eq!(judged(rules, &[reported]).action, RuleAction::Allow, "all of it is examined");
}

#[test]
fn the_default_of_a_definition_for_tasks_is_no_reason_to_ask_about_a_title() {
    use crate::policy::Rule;
    let reported = json!({"title": "Confirm"});
    let of = |rules: &str, implied: bool| {
        let mut policy = policy(&[(LayerKind::Definition, rules)]);
        if implied {
            let [node] = &mut policy.chain[..] else { panic!("one node") };
            node.layers[0].rules.insert(0, Rule::parse("task", RuleAction::Deny).unwrap());
        }
        policy.decide(&ToolCallDescription::of(&reported), &real).action
    };
    for (rules, expected) in [
        ("{'*': allow}", RuleAction::Allow),
        ("{'*': allow, task: deny}", RuleAction::Ask),
        ("{'*': allow, execute: {'rm *': deny}}", RuleAction::Ask),
    ] {
        assert_eq!(of(rules, true), expected, "{rules}");
    }
    assert_eq!(of("{'*': allow}", false), RuleAction::Allow);
}
