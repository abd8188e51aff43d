//! Converts a parsed document to a [`Config`], or returns the place of the first violation. Pure.
//! Unknown keys are ignored for older programs. Null equals absent where commented-out entries
//! leave a null. Where a name shows an intent (such as a launcher), null is an error.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::agents::Tier;
use crate::check::{
    CheckResult, args, env, list, mapping, mismatch, named, object, refuse, required_string, seconds, string,
    trimmed, without_nul,
};
use crate::error::FieldPath;
use crate::model::{ACP_STDIO, Config, Defaults, Launcher, LauncherTimeouts, RoleDefaults, RoleHint};
use crate::{
    approvals, budgets, declared, delegation, hooks, hosts, idle, mcp, notify, placements, policy, prices,
    rate_limits, sandbox, session, titles, worktrees,
};

/// Maximum value of `queueLimit`.
const MAX_QUEUE_LIMIT: u32 = 1_000;

pub(crate) fn config(document: &Value) -> CheckResult<Config> {
    let Some(root) = object(Some(document), || "root".to_owned())? else { return Ok(Config::default()) };
    let schedules = declared::schedules(root)?;
    let triggers = declared::triggers(root, &schedules)?;
    Ok(Config {
        schedules,
        triggers,
        launchers: named(root, "launchers", "launchers", launcher)?,
        mcp_servers: mcp::servers(root, "")?,
        permissions: policy::rules(root.get("permissions"))?,
        approvals: approvals::approvals(root)?,
        budgets: budgets::budgets(root)?,
        delegation: delegation::delegation(root)?,
        titles: titles::titles(root)?,
        hooks: hooks::of_config(root)?,
        notify: notify::sinks(root)?,
        prices: prices::prices(root)?,
        worktrees: worktrees::worktrees(root)?,
        role_defaults: role_defaults(root)?,
        role_hints: named(root, "roleHints", "roleHints", role_hint)?,
        sandboxes: named(root, "sandboxes", "sandboxes", sandbox::named)?,
        hosts: hosts::hosts(root)?,
        placements: placements::placements(root)?,
        defaults: defaults(root)?,
    })
}

fn launcher(name: &str, value: &Value) -> CheckResult<Launcher> {
    let field = format!("launchers.{name}");
    let launcher = mapping(value, || field.clone())?;
    Ok(Launcher {
        backend_kind: backend_kind(launcher, &field)?,
        command: command(launcher, name)?,
        args: args(launcher, &format!("{field}.args"))?,
        env: env(launcher, &format!("{field}.env"))?,
        timeouts: timeouts(launcher, &format!("{field}.timeouts"))?,
        auth_method: trimmed(launcher.get("authMethod"), || FieldPath::Field(format!("{field}.authMethod")))?,
        prefix_tools: prefix_tools(launcher, &field)?,
        options: session::options(launcher, &field)?,
        mcp_servers: mcp::servers(launcher, &field)?,
        idle_timeout: idle::of_launcher(launcher, &field)?,
        on_rate_limit: rate_limits::of_launcher(launcher, &field)?,
        queue_limit: queue_limit(launcher, &field)?,
        tiers: tiers(launcher, &format!("{field}.tiers"))?,
        isolation: worktrees::isolation(launcher, &format!("{field}.isolation"))?,
        sandbox: sandbox::choice(launcher, &field)?,
        placement: placements::choice(launcher, &field)?,
    })
}

fn tiers(launcher: &Map<String, Value>, field: &str) -> CheckResult<BTreeMap<Tier, String>> {
    let mut tiers = BTreeMap::new();
    for (key, value) in object(launcher.get("tiers"), || field.to_owned())?.into_iter().flatten() {
        let place = || FieldPath::Entry { field: field.to_owned(), key: key.clone() };
        let Some(tier) = Tier::ALL.into_iter().find(|tier| tier.as_str() == key) else {
            return refuse(place(), "is not a tier; write fast, default or strong");
        };
        tiers.extend(trimmed(Some(value), place)?.map(|model| (tier, model)));
    }
    Ok(tiers)
}

fn backend_kind(launcher: &Map<String, Value>, field: &str) -> CheckResult<String> {
    let field = format!("{field}.backend");
    let Some(backend) = launcher.get("backend") else { return Ok(ACP_STDIO.to_owned()) };
    let backend = mapping(backend, || field.clone())?;
    let place = || FieldPath::Field(format!("{field}.kind"));
    match string(backend.get("kind"), place)? {
        None => Ok(ACP_STDIO.to_owned()),
        Some(kind) if kind.trim().is_empty() => {
            refuse(place(), format!("must not be blank; `{ACP_STDIO}` is the only kind there is"))
        }
        Some(kind) => Ok(kind.trim().to_owned()),
    }
}

fn command(launcher: &Map<String, Value>, name: &str) -> CheckResult<String> {
    let place = || FieldPath::Command { launcher: name.to_owned() };
    match string(launcher.get("command"), place)? {
        Some(command) if !command.trim().is_empty() => without_nul(command, place),
        Some(_) => refuse(place(), "must not be blank: write the program to start"),
        None => refuse(place(), "is missing: write the program to start"),
    }
}

fn timeouts(launcher: &Map<String, Value>, field: &str) -> CheckResult<LauncherTimeouts> {
    let mut timeouts = LauncherTimeouts::default();
    let Some(given) = object(launcher.get("timeouts"), || field.to_owned())? else { return Ok(timeouts) };
    let get = |key: &str, least: f64| seconds(given.get(key), &format!("{field}.{key}"), least);
    timeouts.startup = get("startupSeconds", 1.0)?.unwrap_or(timeouts.startup);
    timeouts.initialize = get("initializeSeconds", 1.0)?;
    timeouts.session = get("sessionSeconds", 1.0)?;
    timeouts.turn = get("turnSeconds", 0.0)?;
    timeouts.cancel_grace = get("cancelGraceSeconds", 0.0)?.unwrap_or(timeouts.cancel_grace);
    Ok(timeouts)
}

/// Reads `prefixTools`: a boolean.
fn prefix_tools(launcher: &Map<String, Value>, field: &str) -> CheckResult<bool> {
    match launcher.get("prefixTools") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(prefix)) => Ok(*prefix),
        Some(value) => mismatch(FieldPath::Field(format!("{field}.prefixTools")), "true or false", value),
    }
}

/// Reads `queueLimit`: a whole number.
fn queue_limit(launcher: &Map<String, Value>, field: &str) -> CheckResult<Option<u32>> {
    let Some(value) = launcher.get("queueLimit").filter(|value| !value.is_null()) else { return Ok(None) };
    let place = || FieldPath::Field(format!("{field}.queueLimit"));
    match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
        Some(number) if number <= MAX_QUEUE_LIMIT => Ok(Some(number)),
        _ if value.is_number() => {
            refuse(place(), format!("must be a whole number of messages, 0 to {MAX_QUEUE_LIMIT}"))
        }
        _ => mismatch(place(), "a number of messages", value),
    }
}

fn role_defaults(root: &Map<String, Value>) -> CheckResult<RoleDefaults> {
    let mut defaults = RoleDefaults::default();
    let Some(given) = object(root.get("roleDefaults"), || "roleDefaults".to_owned())? else {
        return Ok(defaults);
    };
    let get = |key: &str| {
        let place = || FieldPath::Field(format!("roleDefaults.{key}"));
        let given = given.get(key).map(|value| required_string(value, place)).transpose()?;
        Ok(given.filter(|text| !text.trim().is_empty()).map(str::to_owned))
    };
    defaults.prompt_language = get("promptLanguage")?.unwrap_or(defaults.prompt_language);
    defaults.response_language = get("responseLanguage")?.unwrap_or(defaults.response_language);
    Ok(defaults)
}

fn role_hint(name: &str, value: &Value) -> CheckResult<RoleHint> {
    let field = format!("roleHints.{name}");
    let hint = mapping(value, || field.clone())?;
    let place = |key| move || FieldPath::Hint { role: name.to_owned(), key };
    Ok(RoleHint {
        preferred_launcher: trimmed(hint.get("preferredLauncher"), place("preferredLauncher"))?,
        prompt_language: language(hint.get("promptLanguage"), place("promptLanguage"))?,
        response_language: language(hint.get("responseLanguage"), place("responseLanguage"))?,
        delegation_hint: trimmed(hint.get("delegationHint"), place("delegationHint"))?,
        recommended_skills: skills(hint.get("recommendedSkills"), name)?,
    })
}

fn skills(value: Option<&Value>, role: &str) -> CheckResult<Vec<String>> {
    let place = || FieldPath::Field(format!("roleHints.{role}.recommendedSkills"));
    let Some(items) = list(value, place)? else { return Ok(Vec::new()) };
    let checked = items.iter().enumerate().map(|(index, item)| {
        let place = || FieldPath::Skill { role: role.to_owned(), index };
        match required_string(item, place)?.trim() {
            "" => refuse(place(), "must not be blank"),
            skill => Ok(skill.to_owned()),
        }
    });
    checked.collect()
}

fn defaults(root: &Map<String, Value>) -> CheckResult<Defaults> {
    let Some(given) = object(root.get("defaults"), || "defaults".to_owned())? else {
        return Ok(Defaults::default());
    };
    let get = |key: &str| trimmed(given.get(key), || FieldPath::Field(format!("defaults.{key}")));
    let mut other = given.clone();
    other.retain(|key, _| !["launcher", "role", "isolation", "sandbox", "placement"].contains(&key.as_str()));
    let isolation = worktrees::isolation(given, "defaults.isolation")?;
    let sandbox = sandbox::choice(given, "defaults")?;
    let placement = placements::choice(given, "defaults")?;
    Ok(Defaults { launcher: get("launcher")?, role: get("role")?, isolation, sandbox, placement, other })
}

fn language(value: Option<&Value>, place: impl Fn() -> FieldPath) -> CheckResult<Option<String>> {
    Ok(string(value, place)?.filter(|text| !text.trim().is_empty()).map(str::to_owned))
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
