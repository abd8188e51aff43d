//! A parsed document to a [`Config`]: what is acceptable, and where exactly something is not. Pure.
//!
//! Unknown keys are ignored, so that a newer file works with an older program. Null is the same as absent for
//! a section and most settings: that is what a key has whose entries are all commented out. It is none where the name
//! alone says that something was meant: a launcher, its `backend`, a role hint, a language of `roleDefaults`. Every other
//! wrong type is a problem, empty values included.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::agents::Tier;
use crate::error::Place;
use crate::model::{ACP_STDIO, Config, Defaults, Launcher, RoleDefaults, RoleHint, Timeouts};
use crate::{approvals, budgets, delegation, idle, mcp, policy, session};

/// A value that is not acceptable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) place: Place,
    pub(crate) problem: String,
}

pub(crate) type Checked<T> = Result<T, Violation>;

/// More messages may never wait.
const MOST_QUEUE_LIMIT: u32 = 1_000;

/// Longest timeout that is accepted. Nobody waits a year, and the sum with any clock value must exist.
pub(crate) const LONGEST_SECONDS: f64 = 366.0 * 86_400.0;

/// Checks a whole document.
pub(crate) fn config(document: &Value) -> Checked<Config> {
    let Some(root) = object(Some(document), || "root".to_owned())? else { return Ok(Config::default()) };
    Ok(Config {
        launchers: named(root, "launchers", "launchers", launcher)?,
        mcp_servers: mcp::servers(root, "")?,
        permissions: policy::rules(root.get("permissions"))?,
        approvals: approvals::approvals(root)?,
        budgets: budgets::budgets(root)?,
        delegation: delegation::delegation(root)?,
        role_defaults: role_defaults(root)?,
        role_hints: named(root, "roleHints", "roleHints", role_hint)?,
        defaults: defaults(root)?,
    })
}

fn launcher(name: &str, value: &Value) -> Checked<Launcher> {
    let field = format!("launchers.{name}");
    let launcher = mapping(value, || field.clone())?;
    Ok(Launcher {
        backend_kind: backend_kind(launcher, &field)?,
        command: command(launcher, name)?,
        args: args(launcher, &format!("{field}.args"))?,
        env: env(launcher, &format!("{field}.env"))?,
        timeouts: timeouts(launcher, &format!("{field}.timeouts"))?,
        auth_method: trimmed(launcher.get("authMethod"), || Place::Field(format!("{field}.authMethod")))?,
        options: session::options(launcher, &field)?,
        mcp_servers: mcp::servers(launcher, &field)?,
        idle_timeout: idle::of_launcher(launcher, &field)?,
        queue_limit: queue_limit(launcher, &field)?,
        tiers: tiers(launcher, &format!("{field}.tiers"))?,
    })
}

fn tiers(launcher: &Map<String, Value>, field: &str) -> Checked<BTreeMap<Tier, String>> {
    let mut tiers = BTreeMap::new();
    for (key, value) in object(launcher.get("tiers"), || field.to_owned())?.into_iter().flatten() {
        let place = || Place::Entry { field: field.to_owned(), key: key.clone() };
        let Some(tier) = Tier::ALL.into_iter().find(|tier| tier.as_str() == key) else {
            return refuse(place(), "is no tier; write fast, default or strong");
        };
        tiers.extend(trimmed(Some(value), place)?.map(|model| (tier, model)));
    }
    Ok(tiers)
}

fn backend_kind(launcher: &Map<String, Value>, field: &str) -> Checked<String> {
    let field = format!("{field}.backend");
    let Some(backend) = launcher.get("backend") else { return Ok(ACP_STDIO.to_owned()) };
    let backend = mapping(backend, || field.clone())?;
    let place = || Place::Field(format!("{field}.kind"));
    match string(backend.get("kind"), place)? {
        None => Ok(ACP_STDIO.to_owned()),
        Some(kind) if kind.trim().is_empty() => {
            refuse(place(), format!("must not be blank; `{ACP_STDIO}` is the only kind there is"))
        }
        Some(kind) => Ok(kind.trim().to_owned()),
    }
}

fn command(launcher: &Map<String, Value>, name: &str) -> Checked<String> {
    let place = || Place::Command { launcher: name.to_owned() };
    match string(launcher.get("command"), place)? {
        Some(command) if !command.trim().is_empty() => without_nul(command, place),
        Some(_) => refuse(place(), "must not be blank: write the program to start"),
        None => refuse(place(), "is missing: write the program to start"),
    }
}

pub(crate) fn args(launcher: &Map<String, Value>, field: &str) -> Checked<Vec<String>> {
    let Some(items) = list(launcher.get("args"), || Place::Field(field.to_owned()))? else {
        return Ok(Vec::new());
    };
    let checked = items.iter().enumerate().map(|(index, item)| {
        let place = || Place::Element { field: field.to_owned(), index };
        without_nul(required_string(item, place)?, place)
    });
    checked.collect()
}

pub(crate) fn env(launcher: &Map<String, Value>, field: &str) -> Checked<BTreeMap<String, String>> {
    let Some(entries) = object(launcher.get("env"), || field.to_owned())? else { return Ok(BTreeMap::new()) };
    let checked = entries.iter().map(|(key, value)| {
        let place = || Place::Entry { field: field.to_owned(), key: key.clone() };
        if key.is_empty() || key.contains(['=', '\0']) {
            return refuse(place(), "is not a name that a variable can have");
        }
        Ok((key.clone(), without_nul(required_string(value, place)?, place)?))
    });
    checked.collect()
}

fn timeouts(launcher: &Map<String, Value>, field: &str) -> Checked<Timeouts> {
    let mut timeouts = Timeouts::default();
    let Some(given) = object(launcher.get("timeouts"), || field.to_owned())? else { return Ok(timeouts) };
    let get = |key: &str, least: f64| seconds(given.get(key), &format!("{field}.{key}"), least);
    timeouts.startup = get("startupSeconds", 1.0)?.unwrap_or(timeouts.startup);
    timeouts.initialize = get("initializeSeconds", 1.0)?;
    timeouts.session = get("sessionSeconds", 1.0)?;
    timeouts.turn = get("turnSeconds", 0.0)?;
    timeouts.cancel_grace = get("cancelGraceSeconds", 0.0)?.unwrap_or(timeouts.cancel_grace);
    Ok(timeouts)
}

/// The key `queueLimit`: a whole number.
fn queue_limit(launcher: &Map<String, Value>, field: &str) -> Checked<Option<u32>> {
    let Some(value) = launcher.get("queueLimit").filter(|value| !value.is_null()) else { return Ok(None) };
    let place = || Place::Field(format!("{field}.queueLimit"));
    match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
        Some(number) if number <= MOST_QUEUE_LIMIT => Ok(Some(number)),
        _ if value.is_number() => {
            refuse(place(), format!("must be a whole number of messages, 0 to {MOST_QUEUE_LIMIT}"))
        }
        _ => mismatch(place(), "a number of messages", value),
    }
}

pub(crate) fn seconds(value: Option<&Value>, field: &str, least: f64) -> Checked<Option<Duration>> {
    let place = || Place::Field(field.to_owned());
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let Value::Number(number) = value else { return mismatch(place(), "a number of seconds", value) };
    let number = number.as_f64().unwrap_or(f64::INFINITY);
    if number < least {
        return refuse(place(), format!("is {number} seconds, and must be at least {least}"));
    }
    if number > LONGEST_SECONDS {
        return refuse(place(), "is longer than a year; leave it out to have the default");
    }
    // Below half a nanosecond this rounds to zero, which would be no time at all.
    match Duration::try_from_secs_f64(number) {
        Ok(duration) if !duration.is_zero() => Ok(Some(duration)),
        _ => refuse(place(), "must be more than 0 seconds"),
    }
}

fn role_defaults(root: &Map<String, Value>) -> Checked<RoleDefaults> {
    let mut defaults = RoleDefaults::default();
    let Some(given) = object(root.get("roleDefaults"), || "roleDefaults".to_owned())? else {
        return Ok(defaults);
    };
    let get = |key: &str| {
        let place = || Place::Field(format!("roleDefaults.{key}"));
        let given = given.get(key).map(|value| required_string(value, place)).transpose()?;
        Ok(given.filter(|text| !text.trim().is_empty()).map(str::to_owned))
    };
    defaults.prompt_language = get("promptLanguage")?.unwrap_or(defaults.prompt_language);
    defaults.response_language = get("responseLanguage")?.unwrap_or(defaults.response_language);
    Ok(defaults)
}

fn role_hint(name: &str, value: &Value) -> Checked<RoleHint> {
    let field = format!("roleHints.{name}");
    let hint = mapping(value, || field.clone())?;
    let place = |key| move || Place::Hint { role: name.to_owned(), key };
    Ok(RoleHint {
        preferred_launcher: trimmed(hint.get("preferredLauncher"), place("preferredLauncher"))?,
        prompt_language: language(hint.get("promptLanguage"), place("promptLanguage"))?,
        response_language: language(hint.get("responseLanguage"), place("responseLanguage"))?,
        delegation_hint: trimmed(hint.get("delegationHint"), place("delegationHint"))?,
        recommended_skills: skills(hint.get("recommendedSkills"), name)?,
    })
}

fn skills(value: Option<&Value>, role: &str) -> Checked<Vec<String>> {
    let place = || Place::Field(format!("roleHints.{role}.recommendedSkills"));
    let Some(items) = list(value, place)? else { return Ok(Vec::new()) };
    let checked = items.iter().enumerate().map(|(index, item)| {
        let place = || Place::Skill { role: role.to_owned(), index };
        match required_string(item, place)?.trim() {
            "" => refuse(place(), "must not be blank"),
            skill => Ok(skill.to_owned()),
        }
    });
    checked.collect()
}

fn defaults(root: &Map<String, Value>) -> Checked<Defaults> {
    let Some(given) = object(root.get("defaults"), || "defaults".to_owned())? else {
        return Ok(Defaults::default());
    };
    let get = |key: &str| trimmed(given.get(key), || Place::Field(format!("defaults.{key}")));
    let mut other = given.clone();
    other.retain(|key, _| key != "launcher" && key != "role");
    Ok(Defaults { launcher: get("launcher")?, role: get("role")?, other })
}

/// The entries of a mapping whose keys are names that the user chose.
pub(crate) fn named<T>(
    root: &Map<String, Value>,
    key: &str,
    field: &str,
    check: impl Fn(&str, &Value) -> Checked<T>,
) -> Checked<BTreeMap<String, T>> {
    let Some(entries) = object(root.get(key), || field.to_owned())? else { return Ok(BTreeMap::new()) };
    let checked = entries.iter().map(|(name, value)| {
        if name.trim().is_empty() {
            return refuse(Place::Entry { field: field.to_owned(), key: name.clone() }, "has a blank name");
        }
        Ok((name.clone(), check(name, value)?))
    });
    checked.collect()
}

pub(crate) fn object(
    value: Option<&Value>,
    field: impl Fn() -> String,
) -> Checked<Option<&Map<String, Value>>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => mapping(value, field).map(Some),
    }
}

pub(crate) fn mapping(value: &Value, field: impl Fn() -> String) -> Checked<&Map<String, Value>> {
    match value {
        Value::Object(object) => Ok(object),
        other => mismatch(Place::Field(field()), "a mapping", other),
    }
}

fn list(value: Option<&Value>, place: impl Fn() -> Place) -> Checked<Option<&Vec<Value>>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => mismatch(place(), "a list", other),
    }
}

pub(crate) fn string(value: Option<&Value>, place: impl Fn() -> Place) -> Checked<Option<&str>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => required_string(value, place).map(Some),
    }
}

pub(crate) fn required_string(value: &Value, place: impl Fn() -> Place) -> Checked<&str> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(_) | Value::Number(_) => mismatch(place(), "a string (put it in quotes)", value),
        other => mismatch(place(), "a string", other),
    }
}

pub(crate) fn trimmed(value: Option<&Value>, place: impl Fn() -> Place) -> Checked<Option<String>> {
    Ok(string(value, place)?.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned))
}

fn language(value: Option<&Value>, place: impl Fn() -> Place) -> Checked<Option<String>> {
    Ok(string(value, place)?.filter(|text| !text.trim().is_empty()).map(str::to_owned))
}

/// The system ends every argument and variable at a NUL, so a text that holds one cannot be passed on.
fn without_nul(text: &str, place: impl Fn() -> Place) -> Checked<String> {
    if text.contains('\0') {
        refuse(place(), "must not contain a NUL character")
    } else {
        Ok(text.to_owned())
    }
}

pub(crate) fn mismatch<T>(place: Place, expected: &str, found: &Value) -> Checked<T> {
    // Only the type is named: a misplaced value may be a secret.
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    };
    refuse(place, format!("must be {expected}, not {found}"))
}

pub(crate) fn refuse<T>(place: Place, problem: impl Into<String>) -> Checked<T> {
    Err(Violation { place, problem: problem.into() })
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
