//! What the config file holds: launchers and roles.

use std::collections::BTreeMap;

use serde_json::Value;

use super::view::{PageRenderer, items, shown, word};
use crate::output::style::Style;
use crate::output::table::Table;

pub(super) fn launchers(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data)?;
    let built_in = data["builtIn"].as_array().map_or(&[][..], Vec::as_slice);
    if built_in.is_empty() && none(view, data, items, "launchers") {
        return Some(());
    }
    let mut table = Table::new(&["LAUNCHER", "STATE", "FROM", "COMMAND", "AGENT"]);
    for item in items.iter().chain(built_in) {
        let agent = agent(&item["handshake"]);
        let state = word(item, "state");
        table.row([
            (Style::Strong, word(item, "name")),
            (Style::of_state(state), state),
            (Style::Plain, word(item, "origin")),
            (Style::Plain, word(item, "command")),
            (Style::Plain, agent.as_str()),
        ]);
    }
    view.put(&table);
    let files: BTreeMap<&str, &str> =
        items.iter().filter_map(|item| Some((item["file"].as_str()?, word(item, "origin")))).collect();
    for (file, origin) in files {
        view.page.word(Style::Dim, origin).plain("  ").word(Style::Dim, file).end();
    }
    Some(())
}

pub(super) fn roles(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = items(data)?;
    if none(view, data, items, "roles") {
        return Some(());
    }
    let mut table = Table::new(&["ROLE", "LAUNCHER", "HINT"]);
    for item in items {
        table.row([
            (Style::Strong, word(item, "name")),
            (Style::Plain, word(item, "preferredLauncher")),
            (Style::Plain, word(item, "delegationHint")),
        ]);
    }
    view.put(&table);
    Some(())
}

/// Says that there are none, and where was looked.
fn none(view: &mut PageRenderer, data: &Value, items: &[Value], what: &str) -> bool {
    if !items.is_empty() {
        return false;
    }
    let path = word(data, "configPath");
    let (said, next) = match data["configLoaded"] == true {
        true => (format!("No {what} in {path}."), None),
        false => (format!("No {what}: there is no config file {path}."), Some("subagent config init")),
    };
    view.page.word(Style::Plain, &said).end();
    if let Some(command) = next {
        view.next("Make one:", command);
    }
    true
}

pub(super) fn launcher(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["name"].as_str()?).end();
    let env: Vec<&str> = data["env"].as_object()?.keys().map(String::as_str).collect();
    view.facts(&[
        ("backend", Style::Plain, shown(&data["backend"]["kind"])),
        ("command", Style::Plain, command_line(&data["command"], &data["args"])),
        ("variables", Style::Plain, env.join(", ")),
        ("state", Style::Plain, word(data, "state").to_owned()),
        ("from", Style::Plain, data["file"].as_str().unwrap_or_else(|| word(data, "origin")).to_owned()),
    ]);
    handshake(view, &data["handshake"]);
    Some(())
}

/// Who an agent said to be; empty when it was not asked.
fn agent(handshake: &Value) -> String {
    let agent = &handshake["agent"];
    format!("{} {}", word(agent, "name"), word(agent, "version")).trim().to_owned()
}

/// What an agent said of itself; nothing when it was not asked.
fn handshake(view: &mut PageRenderer, report: &Value) {
    if !report.is_object() {
        return;
    }
    let ids = |entries: &Value| {
        let ids = entries.as_array().into_iter().flatten().map(|entry| word(entry, "id"));
        ids.collect::<Vec<_>>().join(", ")
    };
    let current = |of: &Value, current: &str, all: &str| match of[current].as_str() {
        Some(id) => format!("{id} (of {})", ids(&of[all])),
        None => ids(&of[all]),
    };
    let phases = report["phases"].as_array().into_iter().flatten();
    let phases: Vec<_> =
        phases.map(|phase| format!("{} {} ms", word(phase, "phase"), phase["millis"])).collect();
    let error = &report["error"];
    let login = if report["loginWanted"] == true { "wanted" } else { "" };
    view.facts(&[
        ("agent", Style::Plain, agent(report)),
        ("asked", Style::Plain, view.ago(&report["at"])),
        ("log in by", Style::Plain, ids(&report["authMethods"])),
        ("mode", Style::Plain, current(&report["modes"], "currentModeId", "availableModes")),
        ("model", Style::Plain, current(&report["models"], "currentModelId", "availableModels")),
        ("options", Style::Plain, ids(&report["configOptions"])),
        ("phases", Style::Plain, phases.join(", ")),
        ("login", Style::Attention, login.to_owned()),
        ("error", Style::Bad, word(error, "code").to_owned()),
    ]);
    if let Some(command) = error["details"]["recommendedCommand"].as_str() {
        view.next("Log in:", command);
    }
}

pub(super) fn probed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let state = match (data["state"].as_str(), data["available"].as_bool()?) {
        (Some(state), _) => state,
        (None, true) => "available",
        (None, false) => "missing",
    };
    view.page.word(Style::Strong, word(data, "name")).plain("  ");
    view.state(state);
    view.page.end();
    view.facts(&[
        ("backend", Style::Plain, shown(&data["backendKind"])),
        ("command", Style::Plain, command_line(&data["effectiveCommand"], &data["effectiveArgs"])),
        ("program", Style::Plain, shown(&data["resolvedCommandPath"])),
        ("to fetch", Style::Plain, shown(&data["package"])),
        ("variables", Style::Plain, list(&data["envKeys"])),
        ("problem", Style::Bad, shown(&data["problem"])),
    ]);
    handshake(view, &data["handshake"]);
    Some(())
}

pub(super) fn role(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["name"].as_str()?).end();
    view.facts(&[
        ("launcher", Style::Plain, shown(&data["preferredLauncher"])),
        ("prompt language", Style::Plain, shown(&data["promptLanguage"])),
        ("response language", Style::Plain, shown(&data["responseLanguage"])),
        ("hint", Style::Plain, shown(&data["delegationHint"])),
        ("skills", Style::Plain, list(&data["recommendedSkills"])),
    ]);
    Some(())
}

fn list(values: &Value) -> String {
    let words: Vec<&str> = values.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    words.join(", ")
}

/// A command with its arguments, as one would type it.
fn command_line(command: &Value, args: &Value) -> String {
    let args = args.as_array().into_iter().flatten().filter_map(Value::as_str);
    let args: Vec<_> = args.map(|arg| shell_words::quote(arg).into_owned()).collect();
    std::iter::once(shown(command)).chain(args).collect::<Vec<_>>().join(" ")
}
