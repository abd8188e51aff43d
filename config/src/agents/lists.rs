//! Reads lists of tools and names in a definition: a list, a comma-separated line, or a mapping to
//! booleans. Pure.

use serde_json::Value;

use crate::check::{CheckResult, mismatch, refuse, required_string};
use crate::error::FieldPath;
use crate::policy::{Rule, RuleAction};

/// Maximum number of entries per list.
const MOST: usize = 500;

/// The value of the key `tools`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ToolsKey {
    /// The allowed tools; empty allows all.
    pub(super) only: Vec<String>,
    /// The tools that are set to `false`.
    pub(super) denied: Vec<String>,
}

/// In a mapping only `false` has an effect: it denies the tool. `true` is the default.
pub(super) fn tools(value: Option<&Value>) -> CheckResult<ToolsKey> {
    const KEY: &str = "tools";
    let Some(Value::Object(entries)) = value else {
        return Ok(ToolsKey { only: names(value, KEY)?, denied: Vec::new() });
    };
    let mut denied = Vec::new();
    for (name, wanted) in entries {
        match wanted {
            Value::Bool(true) => {}
            Value::Bool(false) => denied.push(name.clone()),
            other => {
                let place = FieldPath::Entry { field: KEY.to_owned(), key: name.clone() };
                return mismatch(place, "true or false", other);
            }
        }
    }
    Ok(ToolsKey { only: Vec::new(), denied: few(denied, KEY)? })
}

/// Returns the names under this key; none if it is absent, null or empty. A mapping is an error, because
/// the meaning of its booleans differs between keys.
pub(super) fn names(value: Option<&Value>, key: &str) -> CheckResult<Vec<String>> {
    let mut names = Vec::new();
    match value {
        None | Some(Value::Null) => {}
        Some(Value::String(line)) => names = parts(line),
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let text = required_string(item, || FieldPath::Element { field: key.to_owned(), index })?;
                names.extend(parts(text));
            }
        }
        Some(other) => return mismatch(FieldPath::Field(key.to_owned()), "a list of names", other),
    }
    few(names, key)
}

fn few(names: Vec<String>, key: &str) -> CheckResult<Vec<String>> {
    match names.len() > MOST {
        true => refuse(FieldPath::Field(key.to_owned()), format!("has more than {MOST} entries")),
        false => Ok(names),
    }
}

/// Splits a line at commas outside of brackets.
fn parts(line: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut part, mut depth) = (String::new(), 0_usize);
    for char in line.chars() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if char == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(char);
        }
    }
    parts.push(part);
    parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Reads a tool as a rule. Claude Code's `Bash(git:*)` means `Bash(git *)`, and its `mcp__github` means all
/// tools of that server.
pub(super) fn rule(name: &str, action: RuleAction) -> Result<Rule, String> {
    let is_server =
        name.strip_prefix("mcp__").is_some_and(|server| !server.is_empty() && !server.contains("__"));
    let ours = match name.strip_suffix(":*)") {
        Some(before) => Some(format!("{before} *)")),
        None => is_server.then(|| format!("{name}__*")),
    };
    Rule::parse(ours.as_deref().unwrap_or(name), action)
        .map_err(|found| format!("`{name}` is not a tool: character {}: {}", found.column, found.problem))
}
