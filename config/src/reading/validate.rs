//! Converts a parsed document to a [`Config`], or returns the place of the first violation. Pure.
//! Unknown keys are ignored for older programs. Null equals absent where commented-out entries
//! leave a null. Where a name shows an intent (such as a launcher), null is an error.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::agents::Tier;
use crate::check::{CheckResult, mismatch, object, refuse, required_string, string, trimmed, without_nul};
use crate::error::FieldPath;
use crate::model::{ACP_STDIO, Config, Defaults, Launcher, LauncherTimeouts, RoleDefaults, RoleHint};
use crate::section::Section;
use crate::{
    approvals, budgets, declared, delegation, hooks, hosts, idle, mcp, notify, placements, policy, prices,
    rate_limits, sandbox, session, titles, worktrees,
};

/// Maximum value of `queueLimit`.
const MAX_QUEUE_LIMIT: u32 = 1_000;

pub(crate) fn config(document: &Value) -> CheckResult<Config> {
    let Some(given) = object(Some(document), || "root".to_owned())? else { return Ok(Config::default()) };
    let root = &Section::root(given);
    let schedules = declared::schedules(given)?;
    let triggers = declared::triggers(given, &schedules)?;
    Ok(Config {
        schedules,
        triggers,
        launchers: root.named("launchers", launcher)?,
        mcp_servers: mcp::servers(root)?,
        permissions: policy::rules(root.value("permissions"))?,
        approvals: approvals::approvals(given)?,
        budgets: budgets::budgets(given)?,
        delegation: delegation::delegation(given)?,
        titles: titles::titles(given)?,
        hooks: hooks::of_config(given)?,
        notify: notify::sinks(given)?,
        prices: prices::prices(given)?,
        worktrees: worktrees::worktrees(given)?,
        role_defaults: role_defaults(root)?,
        role_hints: root.named("roleHints", role_hint)?,
        sandboxes: root.named("sandboxes", sandbox::named)?,
        hosts: hosts::hosts(given)?,
        placements: placements::placements(given)?,
        defaults: defaults(root)?,
    })
}

fn launcher(name: &str, value: &Value) -> CheckResult<Launcher> {
    let launcher = &Section::of(value, format!("launchers.{name}"))?;
    Ok(Launcher {
        backend_kind: backend_kind(launcher)?,
        command: command(launcher, name)?,
        args: launcher.texts("args")?,
        env: launcher.env()?,
        timeouts: timeouts(launcher)?,
        auth_method: launcher.text("authMethod")?,
        prefix_tools: launcher.flag("prefixTools")?.unwrap_or(false),
        options: session::options(launcher)?,
        mcp_servers: mcp::servers(launcher)?,
        idle_timeout: idle::of_launcher(launcher)?,
        on_rate_limit: rate_limits::of_launcher(launcher)?,
        queue_limit: queue_limit(launcher)?,
        tiers: tiers(launcher)?,
        isolation: worktrees::isolation(launcher)?,
        sandbox: sandbox::choice(launcher)?,
        placement: placements::choice(launcher.given, &format!("launchers.{name}"))?,
    })
}

fn tiers(launcher: &Section<'_>) -> CheckResult<BTreeMap<Tier, String>> {
    let mut tiers = BTreeMap::new();
    for (key, value, place) in launcher.entries("tiers")? {
        let Some(tier) = Tier::ALL.into_iter().find(|tier| tier.as_str() == key) else {
            return refuse(place, "is not a tier; write fast, default or strong");
        };
        tiers.extend(trimmed(Some(value), || place.clone())?.map(|model| (tier, model)));
    }
    Ok(tiers)
}

fn backend_kind(launcher: &Section<'_>) -> CheckResult<String> {
    const KEY: &str = "backend";
    // Null is an error here.
    let Some(backend) = launcher.given.get(KEY) else { return Ok(ACP_STDIO.to_owned()) };
    let backend = Section::of(backend, launcher.field(KEY))?;
    match backend.string("kind")? {
        None => Ok(ACP_STDIO.to_owned()),
        Some(kind) if kind.trim().is_empty() => {
            let problem = format!("must not be blank; `{ACP_STDIO}` is the only kind there is");
            refuse(backend.place("kind"), problem)
        }
        Some(kind) => Ok(kind.trim().to_owned()),
    }
}

fn command(launcher: &Section<'_>, name: &str) -> CheckResult<String> {
    let place = || FieldPath::Command { launcher: name.to_owned() };
    match string(launcher.value("command"), place)? {
        Some(command) if !command.trim().is_empty() => without_nul(command, place),
        Some(_) => refuse(place(), "must not be blank: write the program to start"),
        None => refuse(place(), "is missing: write the program to start"),
    }
}

fn timeouts(launcher: &Section<'_>) -> CheckResult<LauncherTimeouts> {
    let mut timeouts = LauncherTimeouts::default();
    let Some(given) = launcher.section("timeouts")? else { return Ok(timeouts) };
    timeouts.startup = given.seconds("startupSeconds", 1.0)?.unwrap_or(timeouts.startup);
    timeouts.initialize = given.seconds("initializeSeconds", 1.0)?;
    timeouts.session = given.seconds("sessionSeconds", 1.0)?;
    timeouts.turn = given.seconds("turnSeconds", 0.0)?;
    timeouts.cancel_grace = given.seconds("cancelGraceSeconds", 0.0)?.unwrap_or(timeouts.cancel_grace);
    Ok(timeouts)
}

/// Reads `queueLimit`: a whole number.
fn queue_limit(launcher: &Section<'_>) -> CheckResult<Option<u32>> {
    let Some(value) = launcher.value("queueLimit") else { return Ok(None) };
    let place = || launcher.place("queueLimit");
    match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
        Some(number) if number <= MAX_QUEUE_LIMIT => Ok(Some(number)),
        _ if value.is_number() => {
            refuse(place(), format!("must be a whole number of messages, 0 to {MAX_QUEUE_LIMIT}"))
        }
        _ => mismatch(place(), "a number of messages", value),
    }
}

fn role_defaults(root: &Section<'_>) -> CheckResult<RoleDefaults> {
    let mut defaults = RoleDefaults::default();
    let Some(section) = root.section("roleDefaults")? else { return Ok(defaults) };
    let get = |key: &str| {
        let given = section.given.get(key);
        let given = given.map(|value| required_string(value, || section.place(key))).transpose()?;
        Ok(given.filter(|text| !text.trim().is_empty()).map(str::to_owned))
    };
    defaults.prompt_language = get("promptLanguage")?.unwrap_or(defaults.prompt_language);
    defaults.response_language = get("responseLanguage")?.unwrap_or(defaults.response_language);
    Ok(defaults)
}

fn role_hint(name: &str, value: &Value) -> CheckResult<RoleHint> {
    let hint = Section::of(value, format!("roleHints.{name}"))?;
    let place = |key| move || FieldPath::Hint { role: name.to_owned(), key };
    let text = |key| trimmed(hint.value(key), place(key));
    let language = |key| {
        let given = string(hint.value(key), place(key))?;
        Ok(given.filter(|text| !text.trim().is_empty()).map(str::to_owned))
    };
    Ok(RoleHint {
        preferred_launcher: text("preferredLauncher")?,
        prompt_language: language("promptLanguage")?,
        response_language: language("responseLanguage")?,
        delegation_hint: text("delegationHint")?,
        recommended_skills: skills(&hint, name)?,
    })
}

fn skills(hint: &Section<'_>, role: &str) -> CheckResult<Vec<String>> {
    let Some(items) = hint.list("recommendedSkills")? else { return Ok(Vec::new()) };
    let checked = items.iter().enumerate().map(|(index, item)| {
        let place = || FieldPath::Skill { role: role.to_owned(), index };
        match required_string(item, place)?.trim() {
            "" => refuse(place(), "must not be blank"),
            skill => Ok(skill.to_owned()),
        }
    });
    checked.collect()
}

fn defaults(root: &Section<'_>) -> CheckResult<Defaults> {
    let Some(given) = &root.section("defaults")? else { return Ok(Defaults::default()) };
    let mut other = given.given.clone();
    other.retain(|key, _| !["launcher", "role", "isolation", "sandbox", "placement"].contains(&key.as_str()));
    let isolation = worktrees::isolation(given)?;
    let sandbox = sandbox::choice(given)?;
    let placement = placements::choice(given.given, "defaults")?;
    Ok(Defaults {
        launcher: given.text("launcher")?,
        role: given.text("role")?,
        isolation,
        sandbox,
        placement,
        other,
    })
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
