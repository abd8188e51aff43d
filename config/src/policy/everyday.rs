//! Measures false alarms: the share of everyday command lines that need an approval although all programs
//! are allowed.

use std::path::Path;

use serde_json::json;
use subagent_testkit::say;

use super::*;

/// The page with the table of prices.
const PAGE: &str = include_str!("../../../docs/policy.md");

/// Rules by their name in the docs, and the most everyday lines in a hundred that may be asked under them.
const PRICES: &[(&str, &str, usize)] = &[
    (
        "all allowed except `rm -rf` and `git push`",
        "{'*': allow, execute: {'*': allow, 'rm -rf *': deny, 'git push *': deny}}",
        3,
    ),
    ("a rule for each program", include_str!("data/everyday.yaml"), 5),
];

fn lines() -> Vec<String> {
    include_str!("data/everyday.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn everyday_lines_are_seldom_asked() {
    let lines = lines();
    assert!(lines.len() >= 160, "{}", lines.len());
    let said = format!("Of {} everyday lines", lines.len());
    assert!(PAGE.contains(&said), "docs/policy.md does not say: {said}");
    for (name, rules, most) in PRICES {
        let layer = Layer {
            kind: LayerKind::Owner,
            source: None,
            rules: super::rules(Some(&crate::syntax::parse(rules).unwrap())).unwrap().unwrap(),
        };
        let places =
            BaseFolders { workspace: "/ws".into(), cwd: "/ws".into(), home: Some("/home/me".into()) };
        let policy = Policy { places, chain: vec![Node::new("worker", vec![layer])] };
        let asked: Vec<String> = lines
            .iter()
            .filter_map(|line| {
                let call =
                    ToolCallDescription::of(&json!({"kind": "execute", "rawInput": {"command": line}}));
                let verdict = policy.decide(&call, &Path::to_owned);
                let why = verdict.decisive().and_then(|part| part.note.clone());
                (verdict.action != RuleAction::Allow).then(|| format!("{line}: {why:?}"))
            })
            .collect();
        say(&format!("{name}: {} of {} everyday lines are asked", asked.len(), lines.len()));
        let (count, percent) = (asked.len(), 100.0 * asked.len() as f64 / lines.len() as f64);
        let row = format!("| {name} | {count} ({percent:.1} %) | {most} % |");
        assert!(PAGE.contains(&row), "docs/policy.md lacks this row: {row}");
        let text = asked.join("\n");
        assert!(
            asked.len() * 100 <= lines.len() * most,
            "{name}: {} of {}\n{text}",
            asked.len(),
            lines.len()
        );
    }
}
