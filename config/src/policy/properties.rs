//! Property tests over all rules and calls.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;

use super::*;

mod lines;
mod trees;

fn real(path: &Path) -> PathBuf {
    path.to_owned()
}

fn action() -> impl Strategy<Value = RuleAction> {
    prop_oneof![Just(RuleAction::Allow), Just(RuleAction::Ask), Just(RuleAction::Deny)]
}

fn a_rule() -> impl Strategy<Value = Rule> {
    let texts = proptest::sample::select(vec![
        "*",
        "read",
        "edit",
        "execute",
        "task",
        "Bash(a*)",
        "execute(a b*)",
        "execute(*c)",
        "execute(rm*)",
        "edit(src/*)",
        "edit(*.env)",
        "edit(.agents/*)",
        "read(~/x)",
        "Write",
        "Task(x)",
        "mcp__a__*",
        "fetch(http*)",
        "other",
    ]);
    (texts, action()).prop_map(|(text, action)| Rule::parse(text, action).unwrap())
}

fn a_node() -> impl Strategy<Value = Node> {
    let layers = proptest::collection::vec(proptest::collection::vec(a_rule(), 0..5), 4);
    let tools = prop_oneof![Just(Vec::new()), proptest::collection::vec(a_rule(), 1..4)];
    (layers, tools).prop_map(|(layers, tools)| {
        let kinds = LayerKind::ALL.into_iter().zip(layers);
        let node = Node::new("n", kinds.map(|(kind, rules)| Layer { kind, source: None, rules }).collect());
        node.with_tools(vec![ToolList { source: None, tools }])
    })
}

fn a_call() -> impl Strategy<Value = ToolCallDescription> {
    let commands = proptest::sample::select(vec![
        "a b c",
        "a; rm x",
        "a $(rm x)",
        "$x",
        "timeout 5 rm x",
        "a > src/x",
        "\"",
        "c",
    ]);
    let paths = proptest::sample::select(vec!["src/a", "b.env", ".agents/x", "../x", "~/x", "/etc/passwd"]);
    prop_oneof![
        commands.prop_map(|command| ToolCallDescription::of(
            &json!({"kind": "execute", "rawInput": {"command": command}})
        )),
        (paths, proptest::sample::select(vec!["read", "edit", "delete", "search"])).prop_map(
            |(path, kind)| ToolCallDescription::of(&json!({"kind": kind, "locations": [{"path": path}]}))
        ),
        Just(ToolCallDescription::of(&json!({"name": "Task", "rawInput": {"subagent_type": "x"}}))),
        Just(ToolCallDescription::of(&json!({"kind": "other", "name": "mcp__a__b"}))),
        Just(ToolCallDescription::of(&json!({"kind": "fetch", "rawInput": {"url": "https://x"}}))),
        Just(ToolCallDescription::of(&json!({"kind": "edit"}))),
    ]
}

fn of(chain: Vec<Node>) -> Policy {
    let places = BaseFolders { workspace: "/ws".into(), cwd: "/ws".into(), home: Some("/home/me".into()) };
    Policy { places, chain }
}

fn says(policy: &Policy, call: &ToolCallDescription) -> RuleAction {
    policy.decide(call, &real).action
}

/// Quotes a text with double quotes so that a shell reads the same text.
fn quoted(text: &str) -> String {
    let special = |letter: char| ['\\', '"', '$', '`'].contains(&letter);
    text.chars().flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter])).collect()
}

/// Contexts of a command.
const AROUND: &[&str] = &[
    "@; ls",
    "ls; @",
    "ls && @",
    "ls | @",
    "@ & ls",
    "( @ )",
    "{ @; }",
    "! { @; }",
    "echo $(@)",
    "echo \"$(@)\"",
    "if @; then ls; fi",
    "if ls; then @; fi",
    "for x in 1; do @; done",
    "while ls; do @; done",
    "case x in y) @;; esac",
    "f() { @; }; ls",
    "ls <(@)",
    "timeout 5 bash -c \"@\"",
    "X=1 eval \"@\"",
    "find . -exec bash -c \"@\" \\;",
];

/// Words that lose their meaning in quotes, in some shell.
const RESERVED: &[&str] = &[
    "!", "and", "begin", "case", "do", "done", "elif", "else", "end", "esac", "fi", "for", "function", "if",
    "in", "not", "or", "select", "switch", "then", "time", "until", "while",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// M1: a `deny` of the definition is final, even if rules are added.
    #[test]
    fn a_denial_of_the_definition_is_final(
        own in proptest::collection::vec(a_rule(), 0..5), added in proptest::collection::vec(a_rule(), 0..5), call in a_call(),
    ) {
        let definition = Layer { kind: LayerKind::Definition, source: None, rules: own };
        let owner = Layer { kind: LayerKind::Owner, source: None, rules: added };
        let alone = of(vec![Node::new("n", vec![definition.clone()])]).decide(&call, &real);
        let both = of(vec![Node::new("n", vec![owner, definition])]).decide(&call, &real);
        let denied = |part: &&Judged| part.action == RuleAction::Deny && part.by.is_some();
        for part in alone.judged.iter().filter(denied) {
            let still = both.judged.iter().any(|other| other.subject == part.subject && other.action == RuleAction::Deny);
            prop_assert!(still, "{part:?}");
        }
    }

    /// A `deny` of the user file is final: no project rule loosens it.
    #[test]
    fn no_rule_of_a_project_loosens_a_denial_of_the_user(
        own in proptest::collection::vec(a_rule(), 0..5), added in proptest::collection::vec(a_rule(), 0..5), call in a_call(),
    ) {
        let user = Layer { kind: LayerKind::User, source: None, rules: own };
        let project = Layer { kind: LayerKind::Config, source: None, rules: added };
        let alone = of(vec![Node::new("n", vec![user.clone()])]).decide(&call, &real);
        let both = of(vec![Node::new("n", vec![project, user])]).decide(&call, &real);
        let denied = |part: &&Judged| part.action == RuleAction::Deny && part.by.is_some();
        for part in alone.judged.iter().filter(denied) {
            let still = both.judged.iter().any(|other| other.subject == part.subject && other.action == RuleAction::Deny);
            prop_assert!(still, "{part:?}");
        }
    }

    /// M1: a tool list never allows, and denies unlisted tools.
    #[test]
    fn a_list_of_tools_never_allows(node in a_node(), tools in proptest::collection::vec(a_rule(), 1..4), call in a_call()) {
        let bare = node.clone().with_tools(Vec::new());
        let listed = of(vec![bare.clone().with_tools(vec![ToolList { source: None, tools }])]).decide(&call, &real);
        prop_assert!(listed.action >= of(vec![bare]).decide(&call, &real).action);
        let other = ToolList { source: None, tools: vec![Rule::parse("mcp__none__none", RuleAction::Allow).unwrap()] };
        prop_assert_eq!(says(&of(vec![node.with_tools(vec![other])]), &call), RuleAction::Deny);
    }

    /// An additional `deny` never loosens a verdict.
    #[test]
    fn a_further_deny_weakens_nothing(rules in proptest::collection::vec(a_rule(), 0..6), denied in a_rule(), call in a_call()) {
        let node = |rules: Vec<Rule>| Node::new("n", vec![Layer { kind: LayerKind::Owner, source: None, rules }]);
        let Ok(deny) = Rule::parse(&denied.text(), RuleAction::Deny) else { return Ok(()) };
        let before = says(&of(vec![node(rules.clone())]), &call);
        let after = says(&of(vec![node(rules.into_iter().chain([deny]).collect())]), &call);
        prop_assert!(after >= before, "{before} {after}");
    }

    /// Quotes that every shell removes do not change a verdict.
    #[test]
    fn quotes_change_no_answer(words in proptest::collection::vec(("[a-z]{1,5}", 0..4_usize), 1..5), node in a_node()) {
        let quote = |(word, how): &(String, usize)| match how {
            0 => word.clone(),
            1 => format!("'{word}'"),
            2 => format!("\"{word}\""),
            _ => format!("{}''{}", &word[..1], &word[1..]),
        };
        let execute = |command: String| ToolCallDescription::of(&json!({"kind": "execute", "rawInput": {"command": command}}));
        let plain: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
        prop_assume!(!RESERVED.contains(&plain[0]));
        let policy = of(vec![node]);
        let quoted: Vec<String> = words.iter().map(quote).collect();
        prop_assert_eq!(says(&policy, &execute(plain.join(" "))), says(&policy, &execute(quoted.join(" "))));
    }

    /// A verdict has the action of its strictest part, and at least one part.
    #[test]
    fn the_strictest_part_counts(node in a_node(), call in a_call()) {
        let verdict = of(vec![node]).decide(&call, &real);
        prop_assert_eq!(Some(verdict.action), verdict.judged.iter().map(|part| part.action).max());
    }

    /// An additional command in a line never loosens the verdict.
    #[test]
    fn more_commands_are_never_weaker(node in a_node(), more in "[abc ;|&$()]{0,12}") {
        let policy = of(vec![node]);
        let execute = |command: &str| ToolCallDescription::of(&json!({"kind": "execute", "rawInput": {"command": command}}));
        let line = format!("a b c; {more}");
        prop_assert!(says(&policy, &execute(&line)) >= says(&policy, &execute("a b c")).min(RuleAction::Ask));
    }

    /// A line is not allowed if one of its parts is not allowed, in any context.
    #[test]
    fn a_part_that_is_not_allowed_is_not_allowed_inside(
        part in proptest::sample::select(vec![
            "rm x", "PATH=./evil ls", "ls > f", "ls ${a[x]}", "$X", "exec -a ls rm x", "env -u ls rm x", "./ls",
        ]),
        around in proptest::collection::vec(proptest::sample::select(AROUND.to_vec()), 0..6), shells in 0..2_usize,
    ) {
        let mut line = part.to_owned();
        for around in around {
            let inside = if around.contains("\"@\"") { quoted(&line) } else { line };
            line = around.replace("@", &inside);
        }
        if shells > 0 {
            line = format!("bash -c '{}'", line.replace('\'', r"'\''"));
        }
        let rules = ["execute(ls *)", "execute(echo *)", "execute(find *)"].map(|rule| Rule::parse(rule, RuleAction::Allow).unwrap());
        let node = Node::new("n", vec![Layer { kind: LayerKind::Owner, source: None, rules: rules.to_vec() }]);
        let call = ToolCallDescription::of(&json!({"kind": "execute", "rawInput": {"command": line}}));
        // The path names the same program.
        let expected = if part == "./ls" { RuleAction::Allow } else { RuleAction::Ask };
        prop_assert!(says(&of(vec![node]), &call) >= expected, "{line}");
    }

    /// M4: tasks are denied without a rule for tasks.
    #[test]
    fn tasks_are_denied_unless_a_rule_names_them(action in action()) {
        let any = Layer { kind: LayerKind::Owner, source: None, rules: vec![Rule::parse("*", action).unwrap()] };
        let call = ToolCallDescription::of(&json!({"name": "Task", "rawInput": {"subagent_type": "x"}}));
        prop_assert_eq!(says(&of(vec![Node::new("n", vec![any])]), &call), RuleAction::Deny);
    }

    /// M5: only a rule that names protected files allows a change of them.
    #[test]
    fn files_with_rules_are_guarded(rules in proptest::collection::vec(a_rule(), 0..6)) {
        let rules: Vec<Rule> = rules.into_iter().filter(|rule| !rule.text().contains(".agents")).collect();
        let owner = Layer { kind: LayerKind::Owner, source: None, rules };
        let policy = of(vec![Node::new("n", vec![owner])]);
        for path in [".agents/agents/x.md", ".claude/agents/x.md", ".claude/skills/x/SKILL.md", ".subagent/config.yaml", "src/../.agents/x"] {
            let edit = ToolCallDescription::of(&json!({"kind": "edit", "locations": [{"path": path}]}));
            prop_assert!(says(&policy, &edit) > RuleAction::Allow, "{path}");
            let shell = ToolCallDescription::of(&json!({"kind": "execute", "rawInput": {"command": format!("echo x > {path}")}}));
            prop_assert!(says(&policy, &shell) > RuleAction::Allow, "{path}");
        }
    }

    /// Any description gives a verdict.
    #[test]
    fn any_words_are_judged(kind in "\\PC{0,8}", title in "\\PC{0,20}", command in "\\PC{0,20}", path in "\\PC{0,20}") {
        let reported = json!({"kind": kind, "title": title, "name": title, "rawInput": {"command": command, "path": path},
                          "locations": [{"path": path}], "content": [{"type": "diff", "path": path}]});
        let verdict = of(vec![Node::new("n", vec![])]).decide(&ToolCallDescription::of(&reported), &real);
        prop_assert!(!verdict.judged.is_empty());
        prop_assert!(verdict.action > RuleAction::Allow);
    }

    /// Parsing the text of a rule gives the same rule.
    #[test]
    fn the_text_of_a_rule_is_the_rule(rule in a_rule()) {
        prop_assert_eq!(Rule::parse(&rule.text(), rule.action).unwrap(), rule);
    }

    #[test]
    fn any_text_is_a_rule_or_a_problem(text in "\\PC{0,40}", action in action()) {
        if let Err(problem) = Rule::parse(&text, action) {
            prop_assert!(problem.column >= 1 && problem.column <= text.chars().count() + 2, "{problem:?}");
        }
    }
}
