//! The config file, and whether what it names is installed.

use subagent_config::{discovery, launcher};
use subagentd::life::{idle_exit_seconds, retention_days};

use super::database::counted;
use super::facts::{Facts, State};
use super::finding::{Finding, Group};

const GROUP: Group = Group::Config;
const VARIABLES: &str = "config.variables";
const FILE: &str = "config.file";
const WORKSPACE: &str = "config.workspace";
const LAUNCHERS: &str = "config.launchers";

pub(super) fn look(facts: &Facts) -> Vec<Finding> {
    let mut found = variables(facts);
    found.extend(file(facts));
    found.extend(workspace(facts));
    found
}

/// Where the next workspace would be made, and how, if there is none here.
fn workspace(facts: &Facts) -> Option<Finding> {
    if facts.state != State::Outside {
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

/// Variables without which no daemon starts if they are wrong.
fn variables(facts: &Facts) -> Vec<Finding> {
    let wrong = [idle_exit_seconds(&facts.env).err(), retention_days(&facts.env).err()];
    let told = wrong.into_iter().flatten().map(|error| {
        Finding::problem(GROUP, VARIABLES, error.message).advise("correct it, or unset it: no daemon starts")
    });
    let mut found: Vec<Finding> = told.collect();
    if found.is_empty() {
        found.push(Finding::ok(GROUP, VARIABLES, "what is set for the daemon can be understood"));
    }
    found
}

fn file(facts: &Facts) -> Vec<Finding> {
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
    if !loaded.loaded {
        return vec![
            Finding::ok(GROUP, FILE, format!("there is none ({path})"))
                .advise("make one with `subagent config init`"),
        ];
    }
    let mut found = vec![Finding::ok(GROUP, FILE, format!("{path} is loaded"))];
    let cwd = facts.cwd.as_ref().unwrap_or(&facts.env.cwd);
    let before = found.len();
    for (name, launcher) in &loaded.config.launchers {
        if let Some(problem) = launcher::resolve(name, launcher, cwd, &facts.env).problem {
            let quoted = shell_words::quote(name).into_owned();
            found.push(
                Finding::warning(GROUP, LAUNCHERS, format!("{name} cannot be started: {problem}")).advise(
                    format!("install it, or change its command; see `subagent launcher probe {quoted}`"),
                ),
            );
        }
    }
    if found.len() == before {
        let count = loaded.config.launchers.len();
        found.push(Finding::ok(
            GROUP,
            LAUNCHERS,
            format!("{}, all of them installed", counted(count, "launcher")),
        ));
    }
    found
}
