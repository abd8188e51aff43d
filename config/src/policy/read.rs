//! Reads `permissions` of a config file: a preset, or rules in file order. Pure.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::preset::{PRESETS, preset};
use super::rule::{MAX_RULES, Position, Rule, RuleAction, RuleProblem};
use crate::check::{CheckResult, mismatch, refuse};
use crate::error::FieldPath;

const KEY: &str = "permissions";

/// Reads the value of `permissions`.
pub(crate) fn rules(value: Option<&Value>) -> CheckResult<Option<Vec<Rule>>> {
    let found = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(word)) => of_preset(word)?,
        Some(Value::Object(tools)) => {
            let mut found = Vec::new();
            for (tool, answer) in tools {
                of_tool(tool, answer, &mut found)?;
            }
            found
        }
        Some(other) => {
            return mismatch(FieldPath::Field(KEY.to_owned()), "a preset or a mapping of rules", other);
        }
    };
    if found.len() > MAX_RULES {
        return refuse(FieldPath::Field(KEY.to_owned()), format!("has more than {MAX_RULES} rules"));
    }
    Ok(Some(found))
}

fn of_preset(word: &str) -> CheckResult<Vec<Rule>> {
    let Some(rules) = preset(word) else {
        let known: Vec<&str> = PRESETS.iter().map(|(word, _)| *word).collect();
        let problem = format!("`{word}` is not a preset; write {} or a mapping of rules", known.join(", "));
        return refuse(FieldPath::Field(KEY.to_owned()), problem);
    };
    let read = |(rule, action): &(&str, &str)| {
        let action = RuleAction::parse(action).unwrap_or(RuleAction::Ask);
        Rule::parse(rule, action).or_else(|problem| refuse(FieldPath::Field(KEY.to_owned()), problem.problem))
    };
    rules.iter().map(read).collect()
}

fn of_tool(tool: &str, answer: &Value, found: &mut Vec<Rule>) -> CheckResult<()> {
    let entry = || FieldPath::Entry { field: KEY.to_owned(), key: tool.to_owned() };
    match answer {
        Value::Object(patterns) => {
            let field = format!("{KEY}.{tool}");
            if patterns.is_empty() {
                return refuse(entry(), "has no rule; write PATTERN: allow, ask or deny");
            }
            for (pattern, word) in patterns {
                let place = || FieldPath::Entry { field: field.clone(), key: pattern.clone() };
                let rule = Rule::new(tool, Some(pattern), action(word, place)?);
                found.push(rule.or_else(|problem| refuse(place(), worded(&problem)))?);
            }
            Ok(())
        }
        word => {
            let rule = Rule::parse(tool, action(word, entry)?);
            found.push(rule.or_else(|problem| refuse(entry(), worded(&problem)))?);
            Ok(())
        }
    }
}

fn action(word: &Value, place: impl Fn() -> FieldPath) -> CheckResult<RuleAction> {
    match word {
        Value::String(text) => match RuleAction::parse(text) {
            Some(action) => Ok(action),
            None => refuse(place(), format!("says `{text}`; write allow, ask or deny")),
        },
        other => mismatch(place(), "allow, ask or deny", other),
    }
}

fn worded(problem: &RuleProblem) -> String {
    format!("is not a rule: {}", problem.problem)
}

/// Positions of the keys of `permissions` in a text, by tool and pattern. Empty if the text cannot be
/// parsed.
#[derive(Default)]
pub(crate) struct Positions(BTreeMap<(String, Option<String>), Position>);

impl Positions {
    /// Returns the position of the rule at this place.
    pub(crate) fn of(&self, place: &FieldPath) -> Option<Position> {
        let FieldPath::Entry { field, key } = place else { return None };
        match field.strip_prefix(KEY)?.strip_prefix('.') {
            None => self.0.get(&(key.clone(), None)).copied(),
            Some(tool) => self.0.get(&(tool.to_owned(), Some(key.clone()))).copied(),
        }
    }
}

/// Returns the positions of the rules in a text.
pub(crate) fn located(text: &str) -> Positions {
    if !text.contains(KEY) {
        return Positions::default();
    }
    serde_saphyr::from_str::<PermissionsDocument>(text)
        .map(|document| document.permissions.0)
        .unwrap_or_default()
}

/// Adds positions to rules that were read from the same text.
pub(crate) fn place_rules(rules: Vec<Rule>, value: &Value, positions: &Positions) -> Vec<Rule> {
    let Value::Object(tools) = value else { return rules };
    let places = tools.iter().flat_map(|(tool, answer)| match answer {
        Value::Object(patterns) => {
            patterns.keys().map(|pattern| (tool.clone(), Some(pattern.clone()))).collect::<Vec<_>>()
        }
        _ => vec![(tool.clone(), None)],
    });
    rules.into_iter().zip(places).map(|(rule, place)| rule.at(positions.0.get(&place).copied())).collect()
}

#[derive(serde::Deserialize)]
struct PermissionsDocument {
    #[serde(default)]
    permissions: RuleLocations,
}

#[derive(Default)]
struct RuleLocations(Positions);

impl<'de> Deserialize<'de> for RuleLocations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ToolKeyVisitor)
    }
}

struct ToolKeyVisitor;

fn position(key: &Spanned<String>) -> Position {
    Position { line: key.referenced.line(), column: key.referenced.column() }
}

impl<'de> Visitor<'de> for ToolKeyVisitor {
    type Value = RuleLocations;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rules")
    }

    fn visit_str<E>(self, _: &str) -> Result<RuleLocations, E> {
        Ok(RuleLocations::default())
    }

    fn visit_unit<E>(self) -> Result<RuleLocations, E> {
        Ok(RuleLocations::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RuleLocations, A::Error> {
        let mut found = Positions::default();
        while let Some(tool) = map.next_key::<Spanned<String>>()? {
            found.0.insert((tool.value.clone(), None), position(&tool));
            let Patterns(patterns) = map.next_value()?;
            for (pattern, at) in patterns {
                found.0.insert((tool.value.clone(), Some(pattern)), at);
            }
        }
        Ok(RuleLocations(found))
    }
}

struct Patterns(Vec<(String, Position)>);

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PatternsVisitor)
    }
}

struct PatternsVisitor;

impl<'de> Visitor<'de> for PatternsVisitor {
    type Value = Patterns;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rule")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Patterns, E> {
        Ok(Patterns(Vec::new()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Patterns, E> {
        Ok(Patterns(Vec::new()))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Patterns, E> {
        Ok(Patterns(Vec::new()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Patterns, E> {
        Ok(Patterns(Vec::new()))
    }

    fn visit_str<E>(self, _: &str) -> Result<Patterns, E> {
        Ok(Patterns(Vec::new()))
    }

    fn visit_unit<E>(self) -> Result<Patterns, E> {
        Ok(Patterns(Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Patterns, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Patterns(Vec::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Patterns, A::Error> {
        let mut found = Vec::new();
        while let Some(pattern) = map.next_key::<Spanned<String>>()? {
            let at = position(&pattern);
            found.push((pattern.value, at));
            map.next_value::<IgnoredAny>()?;
        }
        Ok(Patterns(found))
    }
}
