//! What holds for the cases of the corpus and for everyday lines, under their own rules.

use proptest::sample::{Index, select};
use serde_json::Value;

use super::*;
use crate::syntax;

/// Rules over everyday lines.
const EVERYDAY: [&str; 2] = [
    "{'*': allow, execute: {'*': allow, 'rm -rf *': deny, 'git push *': deny}}",
    include_str!("../data/everyday.yaml"),
];

/// Rules as text, and a call that they judge.
struct CommandLineCase {
    rules: String,
    call: ToolCallDescription,
    line: Option<String>,
}

fn execute(line: &str) -> ToolCallDescription {
    ToolCallDescription::of(&json!({"kind": "execute", "rawInput": {"command": line}}))
}

fn rules_of(text: &str) -> Vec<Rule> {
    rules(Some(&syntax::parse(text).unwrap())).unwrap().unwrap_or_default()
}

fn cases() -> Vec<CommandLineCase> {
    let corpus = include_str!("../data/corpus.jsonl").lines().filter_map(|line| {
        let case: Value = serde_json::from_str(line).unwrap();
        let line = (case["tool"] == "execute").then(|| case["subject"].as_str().unwrap().to_owned());
        let call = line.as_deref().map(execute).or_else(|| case.get("told").map(ToolCallDescription::of))?;
        Some(CommandLineCase { rules: case["rules"].as_str().unwrap().to_owned(), call, line })
    });
    let everyday: Vec<String> = include_str!("../data/everyday.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let everyday = EVERYDAY.iter().flat_map(|rules| {
        let of = |line: &String| CommandLineCase {
            rules: (*rules).to_owned(),
            call: execute(line),
            line: Some(line.clone()),
        };
        everyday.iter().map(of).collect::<Vec<_>>()
    });
    corpus.chain(everyday).collect()
}

/// A `deny` of the corpus or of [`a_rule`].
fn a_deny(cases: &[CommandLineCase]) -> impl Strategy<Value = Rule> + use<> {
    let mut texts: Vec<String> =
        cases.iter().flat_map(|case| rules_of(&case.rules)).map(|rule| rule.text()).collect();
    texts.sort_unstable();
    texts.dedup();
    let any = prop_oneof![select(texts), a_rule().prop_map(|rule| rule.text())];
    any.prop_filter_map("a name of no tool", |text| Rule::parse(&text, RuleAction::Deny).ok())
}

fn layered(layers: Vec<(LayerKind, Vec<Rule>)>) -> Policy {
    let layers = layers.into_iter().map(|(kind, rules)| Layer { kind, source: None, rules });
    of(vec![Node::new("n", layers.collect())])
}

/// Whether a line has nothing but words, and what stands between commands: its words can be quoted. The name behind `for`
/// cannot.
fn is_plain(line: &str) -> bool {
    !line.split(' ').any(|word| word == "for")
        && line.chars().all(|char| char.is_ascii_alphanumeric() || " _-./:,&|;<>".contains(char))
}

/// The words of a plain line that mean the same in quotes.
fn quotable(word: &str) -> bool {
    let is_word = word.chars().all(|char| char.is_ascii_alphanumeric() || "_-./:,".contains(char));
    is_word && !word.is_empty() && !RESERVED.contains(&word)
}

fn quoted_in(word: &str, how: usize) -> String {
    match how {
        0 => word.to_owned(),
        1 => format!("'{word}'"),
        2 => format!("\"{word}\""),
        _ => format!("{}''{}", &word[..1], &word[1..]),
    }
}

#[test]
fn a_further_deny_weakens_no_answer_of_the_corpus() {
    let cases = cases();
    let kinds = select(vec![LayerKind::User, LayerKind::Config, LayerKind::Owner]);
    proptest!(ProptestConfig::with_cases(500), |(
        at in any::<Index>(), denied in a_deny(&cases), own in kinds.clone(), added in kinds,
    )| {
        let case = at.get(&cases);
        let before = says(&layered(vec![(own, rules_of(&case.rules))]), &case.call);
        // In its layer it is the last rule; elsewhere it has a layer of its own.
        let layers = if own == added {
            vec![(own, rules_of(&case.rules).into_iter().chain([denied.clone()]).collect())]
        } else {
            vec![(own, rules_of(&case.rules)), (added, vec![denied.clone()])]
        };
        let after = says(&layered(layers), &case.call);
        prop_assert!(after >= before, "{before} {after}: {} and {}: {:?}", case.rules, denied.text(), case.call);
    });
}

#[test]
fn an_allowed_line_stays_allowed_in_quotes() {
    let lines: Vec<(Policy, String)> = cases()
        .into_iter()
        .filter_map(|case| Some((layered(vec![(LayerKind::Owner, rules_of(&case.rules))]), case.line?)))
        .filter(|(policy, line)| is_plain(line) && says(policy, &execute(line)) == RuleAction::Allow)
        .collect();
    assert!(lines.len() > 100, "{} lines", lines.len());
    proptest!(ProptestConfig::with_cases(500), |(
        at in any::<Index>(), how in proptest::collection::vec(0..4_usize, 32),
    )| {
        let (policy, line) = at.get(&lines);
        let words = line.split(' ').zip(how.iter().cycle());
        let words: Vec<String> = words
            .map(|(word, how)| if quotable(word) { quoted_in(word, *how) } else { word.to_owned() })
            .collect();
        let quoted = words.join(" ");
        prop_assert_eq!(says(policy, &execute(&quoted)), RuleAction::Allow, "{}", quoted);
    });
}
