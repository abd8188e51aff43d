//! Checks the config file, and whether the agents that it names are installed.

use subagent_config::{LoadedConfig, discovery, installed, launcher, unknown};
use subagentd::check_declared;
use subagentd::lifecycle::{idle_exit_seconds, retention_days};

use super::facts::{DoctorFacts, StateDirStatus};
use super::finding::{CheckedPart, Finding};

const GROUP: CheckedPart = CheckedPart::Config;
const VARIABLES: &str = "config.variables";
const FILE: &str = "config.file";
const WORKSPACE: &str = "config.workspace";
const UNKNOWN: &str = "config.unknownKey";
const DECLARED: &str = "config.schedules";
const LAUNCHERS: &str = "config.launchers";

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    let mut found = variables(facts);
    found.extend(file(facts));
    found.extend(workspace(facts));
    found
}

/// Reports the location of a new workspace if there is none.
fn workspace(facts: &DoctorFacts) -> Option<Finding> {
    if facts.state != StateDirStatus::Outside {
        return None;
    }
    let here = facts.cwd.as_ref().unwrap_or(&facts.env.cwd);
    let seen = format!(
        "{} is in no workspace: neither it nor a folder above has a .git, or a .subagent with a config file, a controller.json or a state folder",
        here.display()
    );
    let advice = format!(
        "cd into a project (each git checkout is a workspace), or make this folder one with `subagent controller init --cwd {}`",
        shell_words::quote(&here.to_string_lossy())
    );
    Some(Finding::warning(GROUP, WORKSPACE, seen).advise(advice))
}

/// Checks the variables that prevent a daemon's start if they are invalid.
fn variables(facts: &DoctorFacts) -> Vec<Finding> {
    let wrong = [idle_exit_seconds(&facts.env).err(), retention_days(&facts.env).err()];
    let reported = wrong.into_iter().flatten().map(|error| {
        Finding::problem(GROUP, VARIABLES, error.message).advise("correct it, or unset it: no daemon starts")
    });
    let mut found: Vec<Finding> = reported.collect();
    if found.is_empty() {
        found.push(Finding::ok(GROUP, VARIABLES, "the daemon's settings are valid"));
    }
    found
}

fn file(facts: &DoctorFacts) -> Vec<Finding> {
    let loaded = match discovery::load(None, facts.cwd.as_deref(), &facts.env) {
        Ok(loaded) => loaded,
        Err(error) => {
            return vec![
                Finding::problem(GROUP, FILE, error.message())
                    .advise("correct it; docs/config.md has all keys"),
            ];
        }
    };
    let path = loaded.path.display();
    let mut found = vec![match loaded.loaded {
        true => Finding::ok(GROUP, FILE, format!("{path} is loaded")),
        false => Finding::ok(GROUP, FILE, format!("there is none ({path})"))
            .advise("make one with `subagent init`"),
    }];
    found.extend(loaded.files.iter().flat_map(unknown::of_file).map(|key| {
        Finding::warning(GROUP, UNKNOWN, key.to_string())
            .advise("correct it, or remove it; `subagent config check` names all problems")
    }));
    found.extend(declared(facts, &loaded));
    found.extend(launchers(facts, &loaded));
    found
}

/// Reports declared schedules and triggers that no daemon can take. A daemon reports them itself.
fn declared(facts: &DoctorFacts, loaded: &LoadedConfig) -> Vec<Finding> {
    if facts.schedules.is_some() {
        return Vec::new();
    }
    let file = loaded.user_file().unwrap_or(&loaded.path).display().to_string();
    let finding = |(line, message): (Option<u64>, String)| {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        Finding::warning(GROUP, DECLARED, format!("{file}{line}: {message}"))
            .advise("correct it; `subagent config check` names all problems")
    };
    check_declared(&loaded.config, &facts.env).into_iter().map(finding).collect()
}

/// Reports configured launchers that cannot be started, or else the installed agents.
fn launchers(facts: &DoctorFacts, loaded: &LoadedConfig) -> Vec<Finding> {
    let cwd = facts.cwd.as_ref().unwrap_or(&facts.env.cwd);
    let all = installed::all(&loaded.config, cwd, &facts.env);
    let of_files = loaded.config.launchers.iter().filter(|(name, _)| loaded.file_of_launcher(name).is_some());
    let problems =
        of_files.filter_map(|(name, of)| Some((name, launcher::resolve(name, of, cwd, &facts.env).problem?)));
    let mut found: Vec<Finding> = problems
        .map(|(name, problem)| {
            let quoted = shell_words::quote(name);
            Finding::warning(GROUP, LAUNCHERS, format!("{name} is missing: {problem}"))
                .advise(format!("install it, or change its command; see `subagent launcher probe {quoted}`"))
        })
        .collect();
    if found.is_empty() {
        let of = |word: &str| {
            let names = all.iter().filter(|(_, presence)| presence.as_str() == word).map(|(name, _)| *name);
            let names: Vec<&str> = names.collect();
            (!names.is_empty()).then(|| format!("{word}: {}", names.join(", ")))
        };
        let words = ["available", "fetchable", "missing"].map(of);
        let seen = words.into_iter().flatten().collect::<Vec<_>>().join("; ");
        found.push(Finding::ok(GROUP, LAUNCHERS, seen));
    }
    found
}
