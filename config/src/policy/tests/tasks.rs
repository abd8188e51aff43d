//! Calls of the task server are tasks for the named agent, or for any agent.

use serde_json::{Value, json};

use super::{LayerKind, policy, real};
use crate::policy::{CallVerdict, RuleAction, ToolCallDescription, ToolKind};

/// Returns the same call as four agents send it: earlier updates, then the permission request.
fn asked(tool: &str, input: &Value) -> Vec<(&'static str, Vec<Value>)> {
    let mcp = format!("mcp__subagent__{tool}");
    let claude = json!({"toolCallId": "t", "name": mcp, "title": mcp, "kind": "other", "rawInput": input, "content": [],
        "_meta": {"claudeCode": {"toolName": mcp, "mcpServer": {"name": "subagent", "source": "dynamic"}}}});
    let reported = json!({"toolCallId": "t", "kind": "execute", "title": format!("mcp.subagent.{tool}"), "status": "in_progress",
        "rawInput": {"server": "subagent", "tool": tool, "arguments": input}, "_meta": {"is_mcp_tool_call": true}});
    let codex = json!({"toolCallId": "t", "kind": "execute", "status": "pending"});
    let text = json!([{"type": "content", "content": {"type": "text", "text": input.to_string()}}]);
    let gemini = json!({"toolCallId": format!("mcp_subagent_{tool}__fcbc25e3a15e25"), "status": "pending", "kind": "other",
        "title": format!("{tool} (subagent MCP Server)"), "content": text, "locations": []});
    let opencode = json!({"toolCallId": "t", "title": format!("subagent_{tool}"), "kind": "other", "status": "pending",
        "locations": [], "rawInput": input});
    vec![
        ("claude", vec![claude]),
        ("codex", vec![reported, codex]),
        ("gemini", vec![gemini]),
        ("opencode", vec![opencode]),
    ]
}

fn call(reported: &[Value]) -> ToolCallDescription {
    let mut call = ToolCallDescription::default();
    reported.iter().for_each(|reported| call.learn(reported));
    call
}

fn judged(rules: &str, reported: &[Value]) -> CallVerdict {
    policy(&[(LayerKind::Definition, rules)]).decide(&call(reported), &real)
}

#[test]
fn to_call_an_agent_is_a_task_of_that_agent() {
    let rules = "{'*': allow, mcp__subagent__*: allow, task: {'*': deny, reviewer: allow, writer: ask}}";
    let inputs = |agent: &str| {
        [
            ("task", json!({"agent": agent, "prompt": "x", "description": "y"})),
            ("task", json!({"subagent_type": agent, "prompt": "x", "description": "y"})),
            ("spawn_subagent", json!({"name": "n", "task": "x", "config": {"agent_id": agent}})),
            ("spawn_subagent", json!({"name": "n", "task": "x", "config": {"template": agent}})),
        ]
    };
    for (agent, action) in
        [("reviewer", RuleAction::Allow), ("writer", RuleAction::Ask), ("explore", RuleAction::Deny)]
    {
        for (tool, input) in inputs(agent) {
            for (who, reported) in asked(tool, &input) {
                let verdict = judged(rules, &reported);
                assert_eq!(verdict.action, action, "{who} {tool} {input} {verdict:#?}");
                let [part] = verdict.judged.as_slice() else { panic!("{who} {verdict:#?}") };
                assert_eq!((part.kind, part.subject.as_deref()), (ToolKind::Task, Some(agent)), "{who}");
            }
        }
    }
}

#[test]
fn to_look_after_tasks_is_allowed_if_any_agent_may_be_called() {
    let table = [
        ("{task: {'*': deny, reviewer: allow}}", RuleAction::Allow),
        ("{task: {reviewer: ask}}", RuleAction::Allow),
        ("{task: {'*': deny}}", RuleAction::Deny),
        ("{task: {reviewer: allow, '*': deny}}", RuleAction::Deny),
        ("{task: {reviewer: allow}, 'mcp__subagent__*': deny}", RuleAction::Deny),
        ("{task: {secret: deny}}", RuleAction::Deny),
        ("{task: allow}", RuleAction::Allow),
        ("{'*': allow, mcp__subagent__*: allow}", RuleAction::Deny),
        ("{}", RuleAction::Deny),
    ];
    let inputs = [
        ("get_subagents", json!({"name_or_id": "x"})),
        ("message_subagent", json!({"name_or_id": "x", "message": "go on"})),
    ];
    for (rules, action) in table {
        for (tool, input) in &inputs {
            for (who, reported) in asked(tool, input) {
                let verdict = judged(rules, &reported);
                assert_eq!(verdict.action, action, "{who} {tool} {rules} {verdict:#?}");
            }
        }
    }
}

#[test]
fn an_agent_is_the_same_one_however_its_name_is_written() {
    let rules = "{task: {'*': allow, Deployer: ask, secret: deny}}";
    for (agent, action) in
        [("dePloyer", RuleAction::Ask), ("SECRET", RuleAction::Deny), ("other", RuleAction::Allow)]
    {
        for (who, reported) in asked("task", &json!({"agent": agent})) {
            assert_eq!(judged(rules, &reported).action, action, "{who} {agent}");
        }
    }
}

#[test]
fn two_agents_in_one_call_are_none_that_is_allowed() {
    let input = json!({"agent": "reviewer", "subagent_type": "explore", "prompt": "x"});
    for (who, reported) in asked("task", &input) {
        assert_eq!(judged("{task: allow}", &reported).action, RuleAction::Ask, "{who}");
    }
    let [first, then] = ["reviewer", "explore"].map(|agent| asked("task", &json!({"agent": agent})));
    for ((who, mut reported), (_, later)) in first.into_iter().zip(then) {
        reported.extend(later);
        assert_ne!(
            judged("{task: {reviewer: allow, explore: allow}}", &reported).action,
            RuleAction::Allow,
            "{who}"
        );
    }
}

#[test]
fn what_a_model_can_choose_makes_no_call_a_task() {
    let rules = "{task: allow, execute: ask, other: ask, '*': ask}";
    let other = [
        // Commands as titles.
        json!({"kind": "execute", "title": "mcp__subagent__get_subagents; rm -rf x"}),
        json!({"kind": "execute", "title": "mcp__subagent__get_subagents"}),
        json!({"kind": "execute", "title": "get_subagents (subagent MCP Server)"}),
        json!({"kind": "execute", "title": "subagent_get_subagents"}),
        json!({"kind": "execute", "title": "mcp.subagent.get_subagents"}),
        json!({"kind": "execute", "title": "mcp__subagent__task", "rawInput": {"command": "rm x"}}),
        json!({"kind": "execute", "title": "mcp.subagent.x", "rawInput": {"server": "other", "tool": "x"}}),
        // Titles of other calls.
        json!({"kind": "other", "toolCallId": "save_memory__1", "title": "get_subagents (subagent MCP Server)"}),
        json!({"kind": "other", "toolCallId": "mcp_other_x__1", "title": "get_subagents (subagent MCP Server)"}),
        json!({"kind": "other", "title": "subagent_get_subagents now"}),
        json!({"kind": "other", "title": "mcp__subagent__get subagents"}),
        json!({"kind": "other", "title": "mcp__subagent2__get_subagents"}),
        // Unknown tools of a server with this name, or of one with this prefix.
        json!({"kind": "other", "name": "mcp__subagent__deploy"}),
        json!({"kind": "other", "title": "mcp__subagent__x__get_subagents"}),
        json!({"kind": "execute", "title": "mcp.subagent.deploy", "rawInput": {"server": "subagent", "tool": "deploy", "arguments": {}}}),
    ];
    for reported in other {
        let verdict = judged(rules, std::slice::from_ref(&reported));
        assert_ne!(verdict.action, RuleAction::Allow, "{reported} {verdict:#?}");
        assert!(verdict.judged.iter().all(|part| part.kind != ToolKind::Task), "{reported} {verdict:#?}");
    }
    // A command in the same call is judged too.
    let both =
        json!({"kind": "other", "name": "mcp__subagent__get_subagents", "rawInput": {"command": "rm x"}});
    assert_eq!(judged(rules, &[both]).action, RuleAction::Ask);
    // An agent in the call is judged under any tool name.
    let both =
        json!({"kind": "other", "title": "subagent_get_subagents", "rawInput": {"subagent_type": "x"}});
    assert_eq!(judged("{task: {reviewer: allow}}", &[both]).action, RuleAction::Deny);
}

#[test]
fn what_came_of_a_call_names_no_agent() {
    let (_, mut reported) = asked("task", &json!({"agent": "reviewer"})).remove(2);
    let text = json!({"agent": "explore"}).to_string();
    let mut over = reported[0].clone();
    over["status"] = "completed".into();
    over["content"] = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    reported.push(over);
    assert_eq!(judged("{task: {reviewer: allow}}", &reported).action, RuleAction::Allow);
}

#[test]
fn other_servers_are_known_by_their_names_too() {
    let reported = [
        json!({"kind": "execute", "title": "mcp.echo.say", "rawInput": {"server": "echo", "tool": "say", "arguments": {}}}),
        json!({"kind": "other", "toolCallId": "mcp_echo_say__1", "title": "say (echo MCP Server)"}),
        json!({"kind": "other", "title": "mcp__echo__say"}),
    ];
    for reported in reported {
        let verdict = judged("{'*': allow, mcp__echo__*: deny}", std::slice::from_ref(&reported));
        assert_eq!(verdict.action, RuleAction::Deny, "{reported} {verdict:#?}");
    }
}

#[test]
fn a_task_is_listed_by_its_kind_or_by_its_tool() {
    use crate::policy::{Node, Policy, Rule, ToolList};
    let node = |tools: &[&str]| {
        let rules = policy(&[(LayerKind::Definition, "{task: allow}")]);
        let [node]: [Node; 1] = rules.chain.try_into().unwrap();
        let tools = tools.iter().map(|tool| Rule::parse(tool, RuleAction::Allow).unwrap()).collect();
        Policy { places: rules.places, chain: vec![node.with_tools(vec![ToolList { source: None, tools }])] }
    };
    let (_, reported) = asked("task", &json!({"agent": "reviewer"})).remove(0);
    let action = |tools: &[&str]| node(tools).decide(&call(&reported), &real).action;
    assert_eq!(action(&["read"]), RuleAction::Deny);
    for tools in [&["Task"][..], &["task(reviewer)"], &["mcp__subagent__task"], &["read", "mcp__subagent__*"]]
    {
        assert_eq!(action(tools), RuleAction::Allow, "{tools:?}");
    }
}

#[test]
fn tools_with_a_prefix_are_tasks_as_well() {
    let rules = "{'*': allow, task: {'*': deny, reviewer: allow}}";
    for title in ["mcp__subagent__subagent_task", "subagent_task"] {
        for (agent, action) in [("reviewer", RuleAction::Allow), ("writer", RuleAction::Deny)] {
            let reported =
                json!({"kind": "other", "title": title, "rawInput": {"agent": agent, "prompt": "x"}});
            assert_eq!(judged(rules, &[reported]).action, action, "{title} {agent}");
        }
    }
}
