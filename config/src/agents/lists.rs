//! Tools and other names in a definition: a list, a line with commas, or a mapping to true and false. Pure.

use serde_json::Value;

use crate::error::Place;
use crate::policy::{Action, Rule};
use crate::validate::{Checked, mismatch, refuse, required_string};

/// More entries are in no list that somebody wrote.
const MOST: usize = 500;

/// The entries that are wanted, and those that are set to false.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) yes: Vec<String>,
    pub(super) no: Vec<String>,
}

/// The names of this key; none of one that is absent, null or empty.
pub(super) fn names(value: Option<&Value>, key: &str) -> Checked<Names> {
    let place = || Place::Field(key.to_owned());
    let mut names = Names::default();
    match value {
        None | Some(Value::Null) => {}
        Some(Value::String(line)) => names.yes = parts(line),
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let text = required_string(item, || Place::Element { field: key.to_owned(), index })?;
                names.yes.extend(parts(text));
            }
        }
        Some(Value::Object(entries)) => {
            for (name, wanted) in entries {
                match wanted {
                    Value::Bool(true) => names.yes.push(name.clone()),
                    Value::Bool(false) => names.no.push(name.clone()),
                    other => {
                        let place = Place::Entry { field: key.to_owned(), key: name.clone() };
                        return mismatch(place, "true or false", other);
                    }
                }
            }
            // As a mapping it says what is not there; what is true in it is as it would be anyway.
            names.yes.clear();
        }
        Some(other) => return mismatch(place(), "a list of names", other),
    }
    if names.yes.len() + names.no.len() > MOST {
        return refuse(place(), format!("has more than {MOST} entries"));
    }
    Ok(names)
}

/// The parts of a line between commas, but not those within brackets.
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

/// A tool as a rule. Others write `Bash(git:*)` for what is `Bash(git *)` here.
///
/// # Errors
/// What is wrong with it.
pub(super) fn rule(name: &str, action: Action) -> Result<Rule, String> {
    let ours = name.strip_suffix(":*)").map(|before| format!("{before} *)"));
    Rule::parse(ours.as_deref().unwrap_or(name), action)
        .map_err(|found| format!("`{name}` is no tool: character {}: {}", found.column, found.problem))
}
