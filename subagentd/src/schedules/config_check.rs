//! Checks declared schedules and triggers without a daemon, for `config check`.

use subagent_config::{Config, Environment};
use subagent_protocol::Result;

use super::checks::{check_form, passed_time, wrong};
use super::declarations::{DeclaredEntry, timezone, trigger_source};
use crate::schedule::template;
use crate::supervisor::entropy;

/// Returns the line and the description of each entry that no daemon can take.
#[must_use]
pub fn check_declared(config: &Config, environment: &Environment) -> Vec<(Option<u64>, String)> {
    let mut found = Vec::new();
    for entry in DeclaredEntry::all(config.clone()) {
        if let Err(error) = check(&entry, environment) {
            let (word, name) = (entry.kind().word(), entry.name());
            found.push((entry.start().at.map(|at| at.line), format!("`{word}s.{name}`: {}", error.message)));
        }
    }
    found.sort();
    found
}

fn check(entry: &DeclaredEntry, environment: &Environment) -> Result<()> {
    let workspace = entry.start().workspace(environment)?;
    match entry {
        DeclaredEntry::Schedule(_, schedule) => {
            // A time that has passed may have fired.
            passed_time(&schedule.when, &timezone(schedule, None), entropy::now()).map(drop)
        }
        DeclaredEntry::Trigger(_, trigger) => {
            template::check(&entry.start().text).map_err(|problem| wrong("text", problem))?;
            check_form(&trigger_source(&trigger.source, workspace.root))
        }
    }
}
