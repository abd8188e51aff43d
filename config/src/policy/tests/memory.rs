//! Permissions of an agent in its memory folder, and their limits.

use std::os::unix::fs::symlink;

use super::*;

const FOLDER: &str = "/ws/.agents/agent-memory/tester";

fn remembering(layers: &[(LayerKind, &str)]) -> Policy {
    let mut policy = policy(layers);
    let node = policy.chain.pop().unwrap();
    policy.chain.push(node.with_memory(Some(FOLDER.into())));
    policy
}

fn says(policy: &Policy, tool: &str, path: &str) -> RuleAction {
    policy.decide(&call(tool, path), &real).action
}

#[test]
fn inside_it_is_allowed_and_nothing_else_is() {
    let own = format!("{FOLDER}/MEMORY.md");
    for rules in ["", "{'*': ask}", "{edit: ask, read: ask}"] {
        let policy = remembering(&[(LayerKind::Definition, rules)]);
        for tool in ["read", "edit"] {
            assert_eq!(says(&policy, tool, &own), RuleAction::Allow, "{rules} {tool}");
            for path in [
                FOLDER,
                "/ws/.agents/agent-memory/tester2/MEMORY.md",
                "/ws/.agents/agent-memory/MEMORY.md",
                "/ws/.agents/agents/tester.md",
                "/ws/.subagent/config.yaml",
                "/ws/file",
                "/etc/passwd",
                &format!("{FOLDER}/../../agents/tester.md"),
                &format!("{FOLDER}/../other/MEMORY.md"),
                &format!("{FOLDER}/sub/../../../agents/x.md"),
            ] {
                assert_eq!(says(&policy, tool, path), RuleAction::Ask, "{rules} {tool} {path}");
            }
        }
        for tool in ["delete", "move", "search"] {
            assert_eq!(says(&policy, tool, &own), RuleAction::Ask, "{rules} {tool}");
        }
        assert_eq!(
            says(&policy, "edit", "../.agents/agent-memory/tester/x.md"),
            RuleAction::Allow,
            "from /ws/sub"
        );
    }
    let verdict = remembering(&[]).decide(&call("edit", &own), &real);
    let by = verdict.decisive().and_then(|part| part.by.clone()).unwrap();
    assert_eq!((by.rule.as_str(), by.layer), ("memory", LayerKind::Definition));
}

#[test]
fn who_denies_or_asks_later_counts() {
    let own = format!("{FOLDER}/MEMORY.md");
    let table = [
        (LayerKind::Definition, "{edit: deny}", RuleAction::Deny),
        (LayerKind::Definition, "{'*': deny, read: allow}", RuleAction::Deny),
        (LayerKind::Definition, "{edit: {'.agents/**': deny}}", RuleAction::Deny),
        (LayerKind::User, "{edit: deny}", RuleAction::Deny),
        (LayerKind::Config, "{edit: deny}", RuleAction::Deny),
        (LayerKind::Config, "{edit: ask}", RuleAction::Ask),
        (LayerKind::Config, "{edit: allow}", RuleAction::Allow),
        (LayerKind::Owner, "{edit: deny}", RuleAction::Deny),
        (LayerKind::Owner, "{edit: ask}", RuleAction::Ask),
        (LayerKind::Owner, "{read: deny}", RuleAction::Allow),
    ];
    for (layer, rules, expected) in table {
        assert_eq!(says(&remembering(&[(layer, rules)]), "edit", &own), expected, "{layer:?} {rules}");
    }
    let tools = vec![Rule::parse("read", RuleAction::Allow).unwrap()];
    let mut listing = remembering(&[]);
    let node = listing.chain.pop().unwrap().with_tools(vec![ToolList { source: None, tools }]);
    listing.chain.push(node);
    assert_eq!(says(&listing, "edit", &own), RuleAction::Deny, "it lists no tool that edits");
}

#[test]
fn it_widens_nothing_that_those_above_forbid() {
    let own = format!("{FOLDER}/MEMORY.md");
    let mut below = policy(&[(LayerKind::Config, "{edit: deny}")]);
    below.chain.extend(remembering(&[]).chain);
    assert_eq!(says(&below, "edit", &own), RuleAction::Deny, "what those above it may not, it may not");
    let mut below = policy(&[(LayerKind::Config, "{edit: allow}")]);
    below.chain.extend(remembering(&[]).chain);
    assert_eq!(says(&below, "edit", &own), RuleAction::Allow);
    assert_eq!(says(&below, "edit", "/ws/.agents/agents/x.md"), RuleAction::Ask);
    let background =
        Node::new("task", Vec::new()).granting(Some(Vec::new())).with_memory(Some(FOLDER.into()));
    let background = Policy { places: places(), chain: vec![Node::new("root", Vec::new()), background] };
    assert_eq!(says(&background, "edit", &own), RuleAction::Allow, "it needs no approval beforehand");
    assert_eq!(says(&background, "edit", "/ws/.agents/agents/x.md"), RuleAction::Deny);
}

#[test]
fn what_its_client_is_asked_is_not_stricter_for_it() {
    let policy = remembering(&[(LayerKind::Definition, "{execute: ask}")]);
    for (path, expected) in [("/ws/file", RuleAction::Allow), ("/ws/.agents/agents/x.md", RuleAction::Ask)] {
        assert_eq!(policy.decide_of_client(&call("edit", path), &real).action, expected, "{path}");
    }
    assert!(!policy.is_about(ToolKind::Edit) && !policy.is_about(ToolKind::Read));
}

#[test]
fn a_link_out_of_it_leads_out() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let folder = base.join(".agents/agent-memory/tester");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir_all(base.join(".agents/agents")).unwrap();
    symlink(base.join(".agents/agents"), folder.join("agents")).unwrap();
    symlink(base.join("none"), folder.join("dangling.md")).unwrap();
    let places = BaseFolders { workspace: base.clone(), cwd: base.clone(), home: None };
    let node = Node::new("worker", Vec::new()).with_memory(Some(folder.clone()));
    let policy = Policy { places, chain: vec![node] };
    let says = |path: PathBuf| policy.decide(&call("edit", path.to_str().unwrap()), &real_path).action;
    assert_eq!(says(folder.join("new/notes.md")), RuleAction::Allow);
    assert_eq!(says(folder.join("agents/x.md")), RuleAction::Ask);
    assert_eq!(says(folder.join("dangling.md")), RuleAction::Ask);
    assert_eq!(says(folder.join("agents/../x.md")), RuleAction::Ask, "as the system goes back from a link");
    std::fs::remove_dir_all(&folder).unwrap();
    symlink(base.join(".agents/agents"), &folder).unwrap();
    assert_eq!(says(folder.join("x.md")), RuleAction::Ask, "the folder is a link by now");
}
