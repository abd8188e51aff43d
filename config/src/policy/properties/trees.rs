//! Property tests over chains of up to six nodes: no node gets a looser answer than its ancestors.
//! Each property takes the decider as a function. [`what_forgets_those_above_is_found_out`] proves
//! with faulty deciders that the properties can fail.

use std::fmt::Debug;

use proptest::test_runner::{Config, TestCaseError, TestRng, TestRunner};

use super::*;

/// A function that judges a call.
type JudgeFunction = fn(&Policy, &ToolCallDescription) -> CallVerdict;

const RULES: &[&str] = &[
    "*",
    "read",
    "edit",
    "delete",
    "execute",
    "search",
    "fetch",
    "other",
    "think",
    "task",
    "Bash(a*)",
    "execute(a b*)",
    "execute(*c)",
    "execute(rm*)",
    "execute(timeout *)",
    "execute(ls *)",
    "edit(src/*)",
    "edit(*.env)",
    "edit(.agents/*)",
    "edit(*)",
    "read(~/x)",
    "read(/etc/*)",
    "Write",
    "Task(x)",
    "task(re*)",
    "task(reviewer)",
    "mcp__a__*",
    "mcp__subagent__*",
    "mcp__*",
    "fetch(http*)",
    "TodoWrite",
];
const COMMANDS: &[&str] = &[
    "a b c",
    "a; rm x",
    "a $(rm x)",
    "$x",
    "timeout 5 rm x",
    "timeout 5 ls",
    "env nice ls",
    "sudo rm x",
    "a > src/x",
    "ls < /etc/passwd",
    "echo x > .agents/x",
    "\"",
    "c",
    "ls",
    "cat $x",
    "xargs rm",
    "timeout 5 ls < b.env > src/a",
];
const PATHS: &[&str] = &["src/a", "b.env", ".agents/x", "../x", "~/x", "/etc/passwd", "", "."];
const TOOLS: &[&str] = &["task", "spawn_subagent", "get_subagents", "message_subagent"];

fn some_rules() -> impl Strategy<Value = Vec<Rule>> {
    let rule = (proptest::sample::select(RULES.to_vec()), action())
        .prop_map(|(text, action)| Rule::parse(text, action).unwrap());
    let preset = proptest::sample::select(PRESETS.to_vec()).prop_map(|(_, rules)| {
        let read = |(rule, word): &(&str, &str)| Rule::parse(rule, RuleAction::parse(word).unwrap()).unwrap();
        rules.iter().map(read).collect()
    });
    prop_oneof![8 => proptest::collection::vec(rule, 0..4), 1 => preset]
}

fn a_node(granting: bool) -> impl Strategy<Value = Node> {
    let layers = proptest::collection::vec(some_rules(), 4);
    let lists = prop_oneof![4 => Just(Vec::new()), 1 => proptest::collection::vec(some_rules(), 1..3)];
    let granted = match granting {
        true => prop_oneof![3 => Just(None), 1 => some_rules().prop_map(Some)].boxed(),
        false => Just(None).boxed(),
    };
    (layers, lists, granted).prop_map(|(layers, lists, granted)| {
        let kinds = LayerKind::ALL.into_iter().zip(layers);
        let node = Node::new("n", kinds.map(|(kind, rules)| Layer { kind, source: None, rules }).collect());
        let listed = lists.into_iter().map(|tools| ToolList { source: None, tools });
        let allows =
            |rules: Vec<Rule>| rules.into_iter().filter(|rule| rule.action == RuleAction::Allow).collect();
        node.with_tools(listed.collect()).granting(granted.map(allows))
    })
}

fn a_chain(granting: bool) -> impl Strategy<Value = Vec<Node>> {
    proptest::collection::vec(a_node(granting), 1..6)
}

fn any_call() -> impl Strategy<Value = ToolCallDescription> {
    let of = |reported: serde_json::Value| ToolCallDescription::of(&reported);
    let select = |from: &'static [&'static str]| proptest::sample::select(from);
    prop_oneof![
        4 => select(COMMANDS).prop_map(move |command| of(json!({"kind": "execute", "rawInput": {"command": command}}))),
        3 => (select(PATHS), select(&["read", "edit", "delete", "move", "search"]))
            .prop_map(move |(path, kind)| of(json!({"kind": kind, "locations": [{"path": path}]}))),
        2 => (select(TOOLS), select(&["x", "reviewer", "other"])).prop_map(move |(tool, agent)| {
            let named = tool == "task" || tool == "spawn_subagent";
            let input = if named { json!({"agent": agent}) } else { json!({}) };
            of(json!({"kind": "other", "name": format!("mcp__subagent__{tool}"), "rawInput": input}))
        }),
        1 => select(&["x", "reviewer"]).prop_map(move |agent| of(json!({"name": "Task", "rawInput": {"subagent_type": agent}}))),
        1 => select(&["edit", "execute", "fetch", "think", "other", "task"]).prop_map(move |kind| of(json!({"kind": kind}))),
        1 => Just(of(json!({"kind": "other", "name": "mcp__a__b", "rawInput": {"command": "rm x"}}))),
        1 => Just(of(json!({"kind": "fetch", "rawInput": {"url": "https://x"}}))),
        1 => Just(of(json!({"name": "TodoWrite"}))),
    ]
}

/// Returns the strictest action for each part of the call, without defaults for parts that no rule matches.
fn said(verdict: &CallVerdict) -> Vec<((ToolKind, Option<String>), RuleAction)> {
    let guards = |part: &Judged| part.note.as_deref().is_some_and(|note| note.starts_with("files that say"));
    let denies = |part: &Judged| part.action == RuleAction::Deny && part.kind != ToolKind::Task;
    let parts = verdict.judged.iter().filter(|part| part.by.is_some() || guards(part) || denies(part));
    grouped(parts)
}

fn grouped<'a>(parts: impl Iterator<Item = &'a Judged>) -> Vec<((ToolKind, Option<String>), RuleAction)> {
    let mut found: Vec<((ToolKind, Option<String>), RuleAction)> = Vec::new();
    for part in parts {
        let what = (part.kind, part.subject.clone());
        match found.iter_mut().find(|(known, _)| *known == what) {
            Some((_, held)) => *held = part.action.max(*held),
            None => found.push((what, part.action)),
        }
    }
    found
}

fn about(
    said: &[((ToolKind, Option<String>), RuleAction)],
    what: &(ToolKind, Option<String>),
) -> Option<RuleAction> {
    said.iter().find(|(known, _)| known == what).map(|(_, action)| *action)
}

fn none_is_weaker_than_one_above(
    chain: &[Node],
    call: &ToolCallDescription,
    decide: JudgeFunction,
) -> Result<(), TestCaseError> {
    let verdicts: Vec<CallVerdict> =
        (1..=chain.len()).map(|to| decide(&of(chain[..to].to_vec()), call)).collect();
    for (above, held) in verdicts.iter().enumerate() {
        for below in &verdicts[above..] {
            let now = said(below);
            for (what, before) in said(held) {
                let still = about(&now, &what);
                prop_assert!(
                    still.is_some_and(|still| still >= before)
                        || before == RuleAction::Allow && still.is_none(),
                    "{what:?} was {before}, and is {still:?}"
                );
                prop_assert!(below.action >= before, "{what:?} is {before}, and all of it {}", below.action);
            }
        }
    }
    Ok(())
}

fn another_never_loosens(
    chain: &[Node],
    at: usize,
    added: &Node,
    call: &ToolCallDescription,
    decide: JudgeFunction,
) -> Result<(), TestCaseError> {
    let mut longer = chain.to_vec();
    longer.insert(at.min(chain.len()), added.clone());
    let (before, after) =
        (decide(&of(chain.to_vec()), call), grouped(decide(&of(longer), call).judged.iter()));
    for (what, before) in said(&before) {
        let still = about(&after, &what);
        prop_assert!(
            still.is_some_and(|still| still >= before) || before == RuleAction::Allow && still.is_none(),
            "{what:?} was {before}, and is {still:?}"
        );
    }
    Ok(())
}

/// The verdict equals the strictest verdict of the single nodes.
fn it_is_the_strictest_of_all(
    chain: &[Node],
    call: &ToolCallDescription,
    decide: JudgeFunction,
) -> Result<(), TestCaseError> {
    let alone: Vec<_> = chain.iter().map(|node| said(&of(vec![node.clone()]).decide(call, &real))).collect();
    let verdict = decide(&of(chain.to_vec()), call);
    for (what, found) in grouped(verdict.judged.iter()) {
        let expected = alone.iter().filter_map(|said| about(said, &what)).max();
        let without_answer = if what.0 == ToolKind::Task { RuleAction::Deny } else { RuleAction::Ask };
        let expected = expected.unwrap_or(without_answer);
        // A call that may be of any kind is also asked because of the rule of a node which does not answer it: on tasks, say.
        match call.is_undeclared() {
            true => prop_assert!(found >= expected, "{what:?} {alone:?}"),
            false => prop_assert_eq!(found, expected, "{:?} {:?}", what, alone),
        }
    }
    Ok(())
}

fn no_node_grants_beyond_its_own(
    chain: &[Node],
    call: &ToolCallDescription,
    decide: JudgeFunction,
) -> Result<(), TestCaseError> {
    let verdict = decide(&of(chain.to_vec()), call);
    let (last, above) = chain.split_last().unwrap();
    if !last.never_asks() {
        return Ok(());
    }
    prop_assert_ne!(verdict.action, RuleAction::Ask);
    let bare: Vec<Node> = above.iter().cloned().chain([last.clone().granting(None)]).collect();
    let without = of(bare).decide(call, &real);
    let parent = of(above.to_vec()).decide(call, &real);
    let (own, of_parent) = (grouped(without.judged.iter()), grouped(parent.judged.iter()));
    for (what, action) in grouped(verdict.judged.iter()) {
        let own = about(&own, &what);
        prop_assert!(own != Some(RuleAction::Deny) || action == RuleAction::Deny, "{what:?} was denied");
        let grants = above.is_empty() || about(&of_parent, &what) == Some(RuleAction::Allow);
        prop_assert!(
            action != RuleAction::Allow || own == Some(RuleAction::Allow) || grants,
            "{what:?} {own:?}"
        );
    }
    Ok(())
}

fn decides(policy: &Policy, call: &ToolCallDescription) -> CallVerdict {
    policy.decide(call, &real)
}

fn decides_of_client(policy: &Policy, call: &ToolCallDescription) -> CallVerdict {
    let mut verdict = policy.decide_of_client(call, &real);
    // The client guards these files without a rule, too.
    verdict.judged.iter_mut().filter(|part| part.by.is_none()).for_each(|part| part.note = None);
    verdict
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// M2, and M3 for grants.
    #[test]
    fn no_node_gets_a_weaker_answer_than_one_above_it(chain in a_chain(true), call in any_call()) {
        none_is_weaker_than_one_above(&chain, &call, decides)?;
        none_is_weaker_than_one_above(&chain, &call, decides_of_client)?;
    }

    /// M2: an additional node loosens nothing.
    #[test]
    fn another_node_loosens_nothing(chain in a_chain(false), at in 0..6_usize, added in a_node(false), call in any_call()) {
        another_never_loosens(&chain, at, &added, &call, decides)?;
        another_never_loosens(&chain, at, &added, &call, decides_of_client)?;
    }

    /// M2: a node without a matching rule has no effect, and the order of nodes does not matter.
    #[test]
    fn the_answer_is_the_strictest_of_those_that_answer(chain in a_chain(false), call in any_call()) {
        it_is_the_strictest_of_all(&chain, &call, decides)?;
        let mut turned = chain.clone();
        turned.reverse();
        prop_assert_eq!(decides(&of(chain), &call).action, decides(&of(turned), &call).action);
    }

    #[test]
    fn who_has_no_rule_for_it_changes_nothing(chain in a_chain(true), at in 0..6_usize, silent in a_node(false), call in any_call()) {
        let speaks = !said(&of(vec![silent.clone()]).decide(&call, &real)).is_empty();
        // The owner grants for a manager's task; a parent grants for its child.
        if speaks || (chain[0].never_asks() && at == 0) {
            return Ok(());
        }
        let mut longer = chain.clone();
        longer.insert(at.min(chain.len()), silent);
        let (before, after) = (decides(&of(chain), &call), decides(&of(longer), &call));
        prop_assert_eq!(grouped(before.judged.iter()), grouped(after.judged.iter()));
    }

    /// M3: a node cannot grant what it does not have.
    #[test]
    fn no_node_approves_beforehand_more_than_it_may(chain in a_chain(true), call in any_call()) {
        no_node_grants_beyond_its_own(&chain, &call, decides)?;
    }

    /// M4: only a rule for tasks allows a task.
    #[test]
    fn tasks_are_denied_unless_a_rule_names_tasks(chain in a_chain(true), call in any_call()) {
        let says_task = |rule: &Rule| ["task", "Task", "*"].iter().any(|word| rule.text().starts_with(word) && rule.text() != "*");
        let none = chain.iter().flat_map(Node::layers).flat_map(|layer| &layer.rules).all(|rule| !says_task(rule));
        if none {
            for part in decides(&of(chain), &call).judged.iter().filter(|part| part.kind == ToolKind::Task) {
                prop_assert_eq!(part.action, RuleAction::Deny);
            }
        }
    }
}

/// Runs a property with a faulty decider and returns whether it fails.
fn is_found_out<S: Strategy>(cases: &S, holds: impl Fn(S::Value) -> Result<(), TestCaseError>) -> bool
where
    S::Value: Debug,
{
    let config = Config { cases: 2000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let seed = TestRng::deterministic_rng(config.rng_algorithm);
    TestRunner::new_with_rng(config, seed).run(cases, holds).is_err()
}

#[test]
fn what_forgets_those_above_is_found_out() {
    let last_alone: JudgeFunction =
        |policy, call| of(policy.chain.last().cloned().into_iter().collect()).decide(call, &real);
    let root_alone: JudgeFunction = |policy, call| of(policy.chain[..1].to_vec()).decide(call, &real);
    let weakest: JudgeFunction = |policy, call| {
        let each = policy.chain.iter().map(|node| of(vec![node.clone()]).decide(call, &real));
        each.min_by_key(|verdict| verdict.action).unwrap()
    };
    for (name, wrong) in [("last alone", last_alone), ("weakest", weakest)] {
        let weaker = |(chain, call): (Vec<Node>, ToolCallDescription)| {
            none_is_weaker_than_one_above(&chain, &call, wrong)
        };
        assert!(is_found_out(&(a_chain(true), any_call()), weaker), "{name}");
    }
    for (name, wrong) in [("last alone", last_alone), ("root alone", root_alone), ("weakest", weakest)] {
        let other = |(chain, call): (Vec<Node>, ToolCallDescription)| {
            it_is_the_strictest_of_all(&chain, &call, wrong)
        };
        assert!(is_found_out(&(a_chain(false), any_call()), other), "{name}");
    }
    let loosens = |(chain, added, call): (Vec<Node>, Node, ToolCallDescription)| {
        another_never_loosens(&chain, 9, &added, &call, last_alone)
    };
    assert!(is_found_out(&(a_chain(false), a_node(false), any_call()), loosens));
    // A faulty decider: all grants apply, and ancestors are ignored.
    let grants_all: JudgeFunction = |policy, call| {
        let last = policy.chain.last().cloned().into_iter().collect();
        let granted = of(last).decide(call, &real);
        let whole = policy.decide(call, &real);
        if granted.action == RuleAction::Allow { granted } else { whole }
    };
    let grants = |(chain, call): (Vec<Node>, ToolCallDescription)| {
        no_node_grants_beyond_its_own(&chain, &call, grants_all)
    };
    assert!(is_found_out(&(a_chain(true), any_call()), grants));
}
