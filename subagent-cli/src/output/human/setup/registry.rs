//! What the config file holds: launchers and roles.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use subagent_protocol::ask::PhaseTime;
use subagent_protocol::handshake::{AgentInfo, Handshake};
use subagent_protocol::time::Timestamp;

use crate::output::human::view::{PageRenderer, optional};
use crate::output::style::Style;
use crate::output::table::Table;

/// A list of the config, and the file that was looked for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::human) struct Configured<T> {
    items: Vec<T>,
    #[serde(default = "Vec::new")]
    built_in: Vec<T>,
    config_path: String,
    config_loaded: bool,
}

#[derive(Debug, Deserialize)]
pub(in crate::output::human) struct ListedLauncher {
    name: String,
    state: String,
    origin: String,
    file: Option<String>,
    command: String,
    handshake: Option<HandshakeReport>,
}

pub(in crate::output::human) fn launchers(view: &mut PageRenderer, launchers: &Configured<ListedLauncher>) {
    if launchers.built_in.is_empty() && none(view, launchers, "launchers") {
        return;
    }
    let mut table = Table::new(&["LAUNCHER", "STATE", "FROM", "COMMAND", "AGENT"]);
    for launcher in launchers.items.iter().chain(&launchers.built_in) {
        table.row([
            (Style::Strong, launcher.name.as_str()),
            (Style::of_state(&launcher.state), &launcher.state),
            (Style::Plain, &launcher.origin),
            (Style::Plain, &launcher.command),
            (Style::Plain, &optional(launcher.handshake.as_ref().map(HandshakeReport::agent))),
        ]);
    }
    view.put(&table);
    let files = launchers.items.iter();
    let files: BTreeMap<&str, &str> =
        files.filter_map(|launcher| Some((launcher.file.as_deref()?, launcher.origin.as_str()))).collect();
    for (file, origin) in files {
        view.page.word(Style::Dim, origin).plain("  ").word(Style::Dim, file).end();
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::human) struct RoleView {
    name: String,
    preferred_launcher: Option<String>,
    prompt_language: Option<String>,
    response_language: Option<String>,
    delegation_hint: Option<String>,
    recommended_skills: Vec<String>,
}

pub(in crate::output::human) fn roles(view: &mut PageRenderer, roles: &Configured<RoleView>) {
    if none(view, roles, "roles") {
        return;
    }
    let mut table = Table::new(&["ROLE", "LAUNCHER", "HINT"]);
    for role in &roles.items {
        table.row([
            (Style::Strong, role.name.as_str()),
            (Style::Plain, role.preferred_launcher.as_deref().unwrap_or_default()),
            (Style::Plain, role.delegation_hint.as_deref().unwrap_or_default()),
        ]);
    }
    view.put(&table);
}

/// Says that there are none, and where was looked.
fn none<T>(view: &mut PageRenderer, list: &Configured<T>, what: &str) -> bool {
    if !list.items.is_empty() {
        return false;
    }
    let path = &list.config_path;
    let (said, next) = match list.config_loaded {
        true => (format!("No {what} in {path}."), None),
        false => (format!("No {what}: there is no config file {path}."), Some("subagent config init")),
    };
    view.page.word(Style::Plain, &said).end();
    if let Some(command) = next {
        view.next("Make one:", command);
    }
    true
}

#[derive(Debug, Deserialize)]
pub(in crate::output::human) struct ShownLauncher {
    name: String,
    backend: LauncherBackend,
    command: String,
    args: Vec<String>,
    /// The values are not shown.
    env: BTreeMap<String, IgnoredAny>,
    state: String,
    origin: String,
    file: Option<String>,
    handshake: Option<HandshakeReport>,
}

#[derive(Debug, Deserialize)]
struct LauncherBackend {
    kind: String,
}

pub(in crate::output::human) fn launcher(view: &mut PageRenderer, launcher: &ShownLauncher) {
    view.page.word(Style::Strong, &launcher.name).end();
    let env: Vec<&str> = launcher.env.keys().map(String::as_str).collect();
    view.facts(&[
        ("backend", Style::Plain, launcher.backend.kind.clone()),
        ("command", Style::Plain, command_line(&launcher.command, &launcher.args)),
        ("variables", Style::Plain, env.join(", ")),
        ("state", Style::Plain, launcher.state.clone()),
        ("from", Style::Plain, launcher.file.as_ref().unwrap_or(&launcher.origin).clone()),
    ]);
    handshake(view, launcher.handshake.as_ref());
}

/// What an agent said of itself when it was asked, and how that went.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HandshakeReport {
    #[serde(flatten)]
    handshake: Handshake,
    at: Option<Timestamp>,
    #[serde(default)]
    phases: Vec<PhaseTime>,
    #[serde(default)]
    login_wanted: bool,
    error: Option<HandshakeError>,
}

#[derive(Debug, Deserialize)]
struct HandshakeError {
    code: String,
    #[serde(default)]
    details: Advice,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Advice {
    recommended_command: Option<String>,
}

impl HandshakeReport {
    /// Who an agent said to be.
    fn agent(&self) -> String {
        let Some(AgentInfo { name, version, .. }) = &self.handshake.agent else { return String::new() };
        let words = [name, version].map(|word| word.as_deref().unwrap_or_default());
        words.join(" ").trim().to_owned()
    }
}

fn handshake(view: &mut PageRenderer, report: Option<&HandshakeReport>) {
    let Some(report) = report else { return };
    let Handshake { auth_methods, modes, models, config_options, .. } = &report.handshake;
    let current = |current: Option<&String>, all: String| match current {
        Some(id) => format!("{id} (of {all})"),
        None => all,
    };
    let mode = modes.as_ref().map(|modes| {
        let all = modes.available_modes.iter().map(|mode| mode.id.as_str());
        current(modes.current_mode_id.as_ref(), joined(all))
    });
    let model = models.as_ref().map(|models| {
        let all = models.available_models.iter().map(|model| model.id.as_str());
        current(models.current_model_id.as_ref(), joined(all))
    });
    let phases: Vec<String> =
        report.phases.iter().map(|phase| format!("{} {} ms", phase.phase, phase.millis)).collect();
    let error = report.error.as_ref();
    let login = if report.login_wanted { "wanted" } else { "" };
    view.facts(&[
        ("agent", Style::Plain, report.agent()),
        ("asked", Style::Plain, view.ago(report.at)),
        ("log in by", Style::Plain, joined(auth_methods.iter().map(|method| method.id.as_str()))),
        ("mode", Style::Plain, optional(mode)),
        ("model", Style::Plain, optional(model)),
        ("options", Style::Plain, joined(config_options.iter().map(|option| option.id.as_str()))),
        ("phases", Style::Plain, phases.join(", ")),
        ("login", Style::Attention, login.to_owned()),
        ("error", Style::Bad, optional(error.map(|error| &error.code))),
    ]);
    if let Some(command) = error.and_then(|error| error.details.recommended_command.as_deref()) {
        view.next("Log in:", command);
    }
}

fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::output::human) struct ProbedLauncher {
    name: String,
    state: Option<String>,
    available: bool,
    backend_kind: String,
    effective_command: String,
    effective_args: Vec<String>,
    resolved_command_path: Option<String>,
    package: Option<String>,
    env_keys: Vec<String>,
    problem: Option<String>,
    handshake: Option<HandshakeReport>,
}

pub(in crate::output::human) fn probed(view: &mut PageRenderer, launcher: &ProbedLauncher) {
    let known = if launcher.available { "available" } else { "missing" };
    view.page.word(Style::Strong, &launcher.name).plain("  ");
    view.state(launcher.state.as_deref().unwrap_or(known));
    view.page.end();
    view.facts(&[
        ("backend", Style::Plain, launcher.backend_kind.clone()),
        ("command", Style::Plain, command_line(&launcher.effective_command, &launcher.effective_args)),
        ("program", Style::Plain, optional(launcher.resolved_command_path.as_ref())),
        ("to fetch", Style::Plain, optional(launcher.package.as_ref())),
        ("variables", Style::Plain, launcher.env_keys.join(", ")),
        ("problem", Style::Bad, optional(launcher.problem.as_ref())),
    ]);
    handshake(view, launcher.handshake.as_ref());
}

pub(in crate::output::human) fn role(view: &mut PageRenderer, role: &RoleView) {
    view.page.word(Style::Strong, &role.name).end();
    view.facts(&[
        ("launcher", Style::Plain, optional(role.preferred_launcher.as_ref())),
        ("prompt language", Style::Plain, optional(role.prompt_language.as_ref())),
        ("response language", Style::Plain, optional(role.response_language.as_ref())),
        ("hint", Style::Plain, optional(role.delegation_hint.as_ref())),
        ("skills", Style::Plain, role.recommended_skills.join(", ")),
    ]);
}

/// A command with its arguments, as one would type it.
fn command_line(command: &str, args: &[String]) -> String {
    let args = args.iter().map(|arg| shell_words::quote(arg).into_owned());
    std::iter::once(command.to_owned()).chain(args).collect::<Vec<_>>().join(" ")
}
