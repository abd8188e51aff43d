//! The policy of a task: those above it apply too, and pre-approved tasks never ask.

use subagent_protocol::api::{OwnerRule, RuleScope};
use subagent_protocol::ids::{ControllerId, RequestId, RuleId, WorkerId};
use subagent_protocol::policy::PolicyNode;
use subagent_protocol::time::Timestamp;

use super::*;

fn rules(rules: &[(&str, &str)]) -> Vec<PolicyRule> {
    spec(rules).layers.remove(0).rules
}

fn layer(layer: &str, rules: &[(&str, &str)]) -> PolicyLayer {
    PolicyLayer { layer: layer.to_owned(), ..spec(rules).layers.remove(0) }
}

fn node(name: &str, rules: &[(&str, &str)]) -> PolicyNode {
    PolicyNode {
        name: name.to_owned(),
        worker_id: WorkerId::from_random([7; 5]),
        layers: vec![layer("definition", rules)],
        pre_approved: None,
    }
}

fn task(above: Vec<PolicyNode>, own: &[(&str, &str)], granted: Option<&[(&str, &str)]>) -> PolicySpec {
    let own = PolicySpec::own("/ws".into(), None, vec![layer("definition", own)]);
    PolicySpec { ancestors: above, pre_approved: granted.map(rules), ..own }
}

fn watching(spec: &PolicySpec, added: &RulesOfChain) -> PolicyTracker {
    PolicyTracker::of(Some(spec), added, "/ws", Path::new("/ws")).unwrap()
}

fn added(rule: &str, action: &str) -> OwnerRule {
    OwnerRule {
        rule_id: RuleId::from_random([1; 5]),
        rule: rules(&[(rule, action)]).remove(0),
        scope: RuleScope::Worker,
        controller_id: ControllerId::from_random([1; 5]),
        worker_id: None,
        request_id: RequestId::from_random([1; 5]),
        created_at: Timestamp(0),
    }
}

/// Returns the decision about a command and the rule in the form of events. `None` if the owner is
/// asked.
fn decided(spec: &PolicySpec, added: &RulesOfChain, command: &str) -> Option<(String, Value)> {
    match see(&mut watching(spec, added), &asks("1", command, ALL)) {
        Some(WorkerInput::DecideByRule { choice, rule, .. }) => Some((choice.decision, json!(rule))),
        None => None,
        Some(other) => panic!("{other:?}"),
    }
}

fn word(spec: &PolicySpec, command: &str) -> String {
    decided(spec, &RulesOfChain::default(), command).map_or("ask".to_owned(), |(word, _)| word)
}

#[test]
fn a_denial_of_the_root_holds_for_its_grandchild_and_says_whose_it_is() {
    let above = vec![
        node("Release", &[("execute(git push*)", "deny")]),
        node("Test Runner", &[("execute", "allow")]),
    ];
    let spec = task(above, &[("execute", "allow")], None);
    let (word, rule) = decided(&spec, &RulesOfChain::default(), "git push").unwrap();
    let expected = json!({"action": "deny", "kind": "execute", "subject": "git push", "rule": "execute(git push*)",
        "layer": "definition", "source": "/c.yaml", "path": ["Release"]});
    assert_eq!((word.as_str(), &rule), ("deny", &expected));
    let (word, rule) = decided(&spec, &RulesOfChain::default(), "ls").unwrap();
    assert_eq!((word.as_str(), &rule["path"]), ("allow", &json!(["Release", "Test Runner"])));
}

#[test]
fn a_rule_that_was_added_counts_for_the_one_that_it_was_added_for() {
    let spec = task(vec![node("Release", &[("execute", "ask")])], &[("execute", "allow")], None);
    let none = RulesOfChain::default();
    assert_eq!(decided(&spec, &none, "make"), None, "the root asks");
    let own = RulesOfChain { above: vec![Vec::new()], own: vec![added("execute(make)", "allow")] };
    assert_eq!(decided(&spec, &own, "make"), None, "a rule of the task loosens nothing of the root");
    let of_root = RulesOfChain { above: vec![vec![added("execute(make)", "allow")]], own: Vec::new() };
    assert_eq!(decided(&spec, &of_root, "make").unwrap().0, "allow");
    let denied = RulesOfChain { above: vec![vec![added("execute(make)", "deny")]], own: Vec::new() };
    assert_eq!(decided(&spec, &denied, "make").unwrap().0, "deny");
}

#[test]
fn what_was_not_approved_beforehand_is_denied_without_asking() {
    let granted: &[(&str, &str)] = &[("execute(cargo *)", "allow")];
    let root = node("Release", &[("execute(cargo test*)", "allow"), ("execute(rm *)", "deny")]);
    let spec = task(vec![root.clone()], &[("execute", "ask")], Some(granted));
    assert_eq!(word(&spec, "cargo test --all"), "allow");
    assert_eq!(word(&spec, "cargo publish"), "deny", "its parent would be asked");
    assert_eq!(word(&spec, "make"), "deny");
    assert_eq!(word(&spec, "cargo test; make"), "deny");
    assert_eq!(word(&spec, "cargo test $("), "deny", "what cannot be parsed is not granted");
    assert_eq!(word(&spec, "timeout 5 cargo test"), "allow");
    let (_, rule) = decided(&spec, &RulesOfChain::default(), "cargo test").unwrap();
    assert_eq!(
        (&rule["rule"], &rule["note"]),
        (&json!("execute(cargo *)"), &json!("it was approved beforehand"))
    );
    let by_root = task(vec![root], &[("execute", "ask")], Some(&[("execute(rm *)", "allow")]));
    assert_eq!(word(&by_root, "rm x"), "deny");
    let of_manager = task(Vec::new(), &[("execute", "ask")], Some(granted));
    assert_eq!(word(&of_manager, "cargo publish"), "allow", "only the owner is above it");
    let nothing = task(Vec::new(), &[("execute(ls)", "allow")], Some(&[]));
    assert_eq!((word(&nothing, "ls").as_str(), word(&nothing, "id").as_str()), ("allow", "deny"));
}

#[test]
fn a_denial_without_a_question_needs_no_option() {
    let spec = task(Vec::new(), &[], Some(&[]));
    for kinds in [&["allow_always", "reject_always"][..], &[]] {
        let Some(WorkerInput::DecideByRule { choice, .. }) =
            see(&mut watching(&spec, &RulesOfChain::default()), &asks("1", "make", kinds))
        else {
            panic!("{kinds:?}")
        };
        assert_eq!(choice, PermissionDecision::cancelled());
    }
    let mut watch = watching(&spec, &RulesOfChain::default());
    assert_eq!(
        see(&mut watch, &reports("2", "make", "completed")),
        None,
        "it did not ask: no rule denies it"
    );
}

#[test]
fn the_child_of_a_task_gets_no_more_than_that_was_granted() {
    let parent = PolicyNode { pre_approved: Some(rules(&[("execute(ls)", "allow")])), ..node("B", &[]) };
    let spec = task(vec![parent], &[("execute", "allow")], None);
    assert_eq!((word(&spec, "ls").as_str(), word(&spec, "make").as_str()), ("allow", "deny"));
    let root = node("A", &[("execute(ls)", "allow")]);
    let above = vec![
        root,
        PolicyNode { layers: vec![layer("config", &[("execute", "ask")])], ..spec.ancestors[0].clone() },
    ];
    let spec = task(above, &[("execute", "allow")], None);
    assert_eq!((word(&spec, "ls").as_str(), word(&spec, "make").as_str()), ("allow", "deny"));
}

#[test]
fn a_denial_below_a_task_that_does_not_ask_does_not_wait_either() {
    let above = PolicyNode { pre_approved: Some(rules(&[("execute(ls)", "allow")])), ..node("B", &[]) };
    let spec = task(vec![above], &[("execute", "allow")], None);
    for kinds in [&["allow_once", "reject_always"][..], &[]] {
        let seen = see(&mut watching(&spec, &RulesOfChain::default()), &asks("1", "make", kinds));
        let Some(WorkerInput::DecideByRule { choice, .. }) = seen else { panic!("{kinds:?} {seen:?}") };
        assert_eq!(choice, PermissionDecision::cancelled());
    }
    let seen = see(&mut watching(&spec, &RulesOfChain::default()), &asks("1", "ls", &["allow_always"]));
    assert_eq!(seen, None, "allowed, but not by this option: a person answers it");
}

#[test]
fn a_tree_may_be_as_deep_as_a_config_can_say() {
    let most = crate::supervisor::policy::chain::MAX_ANCESTORS;
    assert_eq!(u32::try_from(most), Ok(subagent_protocol::delegation::MAX_LIMITS[0]));
}

#[test]
fn several_lists_of_tools_all_hold() {
    let mut spec = task(Vec::new(), &[("*", "allow")], None);
    let lists = |tools: &[&str]| PolicyLayer {
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        ..layer("definition", &[])
    };
    spec.layers.extend([lists(&["read", "execute"]), lists(&["read", "edit"])]);
    assert_eq!(word(&spec, "ls"), "deny");
    spec.layers.pop();
    assert_eq!(word(&spec, "ls"), "allow");
}

#[test]
fn the_client_asks_for_what_those_above_restrict() {
    let spec = task(vec![node("Release", &[("edit(*.env)", "deny")])], &[], None);
    let rules = watching(&spec, &RulesOfChain::default()).client_rules();
    assert_eq!((rules.read, rules.edit, rules.execute), (false, true, true));
    let mut lists = node("Release", &[]);
    lists.layers[0].tools = vec!["execute".to_owned()];
    let rules = watching(&task(vec![lists], &[], None), &RulesOfChain::default()).client_rules();
    assert_eq!((rules.read, rules.edit, rules.execute), (true, true, true));
    assert!(rules.guarded.contains(&"/ws/.agents".into()));
}

#[test]
fn for_whom_the_work_is_may_have_been_reported_before() {
    let spec = task(Vec::new(), &[("task(reviewer)", "allow")], None);
    let mut watch = watching(&spec, &RulesOfChain::default());
    let reported = json!({"n": 1, "at": 1, "t": "update", "turn": 1, "k": "tool_call_update", "b": {"sessionId": "s", "update": {
        "toolCallId": "1", "kind": "other", "title": "subagent_task", "rawInput": {"agent": "reviewer", "prompt": "x"}}}});
    assert_eq!(see(&mut watch, &reported), None);
    let mut asked = asks("1", "", ALL);
    asked["b"]["params"]["toolCall"] = json!({"toolCallId": "1", "kind": "other", "title": "subagent_task"});
    assert!(
        matches!(see(&mut watch, &asked), Some(WorkerInput::DecideByRule { choice, .. }) if choice.decision == "allow")
    );
    assert!(matches!(watch.judge(&asked["b"].to_string()), Some(WorkerInput::DecideByRule { .. })));
}

#[test]
fn what_is_no_chain_is_refused() {
    let check = |spec: &PolicySpec| compiled(spec, &RulesOfChain::default(), Path::new("/ws")).map(drop);
    check(&task(vec![node("a", &[("execute", "allow")])], &[], None)).unwrap();
    for wrong in [
        task(vec![node("a", &[("execute(", "allow")])], &[], None),
        task(vec![node("a", &[("execute", "maybe")])], &[], None),
        task(Vec::new(), &[], Some(&[("execute", "deny")])),
    ] {
        assert_eq!(check(&wrong).unwrap_err().code, Code::InvalidArgument);
    }
}

#[test]
fn an_older_spec_has_no_ancestors() {
    let old = json!({"workspace": "/ws", "layers": [{"layer": "config", "rules": [{"rule": "read", "action": "allow"}]}]});
    let spec: PolicySpec = serde_json::from_value(old.clone()).unwrap();
    assert_eq!((spec.ancestors.len(), &spec.pre_approved), (0, &None));
    assert_eq!(json!(spec), old, "it is written as before");
    let lineage = PolicySpec::lineage(Some(&spec), "Release".to_owned(), WorkerId::from_random([7; 5]));
    assert_eq!(lineage.len(), 1);
    let below = PolicySpec { ancestors: lineage, ..PolicySpec::own("/ws".into(), None, Vec::new()) };
    let lineage = PolicySpec::lineage(Some(&below), "Test Runner".to_owned(), WorkerId::from_random([8; 5]));
    let names: Vec<&str> = lineage.iter().map(|node| node.name.as_str()).collect();
    assert_eq!((names, &lineage[0].layers), (vec!["Release", "Test Runner"], &spec.layers));
}

#[test]
fn a_memory_is_a_folder_and_for_its_own_worker_alone() {
    let memory = |path: &str| PolicySpec { memory: Some(path.into()), ..task(Vec::new(), &[], None) };
    for wrong in ["", "notes", "/"] {
        assert_eq!(
            check_spec(&memory(wrong), Path::new("/ws")).unwrap_err().code,
            Code::InvalidInput,
            "{wrong}"
        );
    }
    let own = memory("/ws/.agents/agent-memory/x");
    check_spec(&own, Path::new("/ws")).unwrap();
    let edit = ToolCallDescription::of(
        &json!({"kind": "edit", "locations": [{"path": "/ws/.agents/agent-memory/x/MEMORY.md"}]}),
    );
    let says = |spec: &PolicySpec| {
        compiled(spec, &RulesOfChain::default(), Path::new("/ws")).unwrap().decide(&edit, &real_path).action
    };
    assert_eq!(says(&own), RuleAction::Allow);
    let lineage = PolicySpec::lineage(Some(&own), "Release".to_owned(), WorkerId::from_random([7; 5]));
    assert_eq!(says(&task(lineage, &[], None)), RuleAction::Ask);
}
