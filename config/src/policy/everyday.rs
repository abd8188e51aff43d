//! Measures false alarms: the share of everyday command lines that need an approval although all programs
//! are allowed.

use std::path::Path;

use serde_json::json;
use subagent_testkit::say;

use super::*;

/// Rules, and the maximum percentage of everyday lines that may need an approval under them.
const PRICES: &[(&str, &str, usize)] = &[
    (
        "all allowed but two commands",
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
    for (name, rules, most) in PRICES {
        let layer = Layer {
            kind: LayerKind::Owner,
            source: None,
            rules: super::rules(Some(&crate::syntax::parse(rules).unwrap())).unwrap().unwrap(),
        };
        let places = Places { workspace: "/ws".into(), cwd: "/ws".into(), home: Some("/home/me".into()) };
        let policy = Policy { places, chain: vec![Node::new("worker", vec![layer])] };
        let asked: Vec<String> = lines
            .iter()
            .filter_map(|line| {
                let call = Call::of(&json!({"kind": "execute", "rawInput": {"command": line}}));
                let verdict = policy.decide(&call, &Path::to_owned);
                let why = verdict.decisive().and_then(|part| part.note.clone());
                (verdict.action != Action::Allow).then(|| format!("{line}: {why:?}"))
            })
            .collect();
        say(&format!("{name}: {} of {} everyday lines are asked", asked.len(), lines.len()));
        let text = asked.join("\n");
        assert!(
            asked.len() * 100 <= lines.len() * most,
            "{name}: {} of {}\n{text}",
            asked.len(),
            lines.len()
        );
    }
}
