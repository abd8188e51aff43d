//! `diff A B`: the files that several workers have changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subagent_config::Workspace;

use super::{DiffArgs, look, name_of};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

pub(super) fn run(args: DiffArgs, workspace: &Workspace, context: &CliContext) -> Result<CliOutcome> {
    if args.stat {
        return Err(Failure::argument("--stat takes one worker").with("flag", "--stat").wrong_usage());
    }
    let mut workers: Vec<String> = Vec::new();
    let mut touched: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut notes = Vec::new();
    for worker in args.workers {
        let (shown, found) = look(Some(worker), false, workspace, context)?;
        let name = name_of(&shown).to_owned();
        if workers.contains(&name) {
            continue;
        }
        if let Some(reason) = &found.reason {
            notes.push(format!("the files of {name} are those that its agent has reported: {reason}"));
        }
        for change in found.changes {
            for path in [Some(change.path), change.old_path].into_iter().flatten() {
                touched.entry(path).or_default().push(name.clone());
            }
        }
        workers.push(name);
    }
    touched.retain(|_, names| names.len() > 1);
    let line = |(path, workers): (&String, &Vec<String>)| match args.name_only {
        true => text::plain(path),
        false => format!("{}\t{}", text::plain(path), text::plain(&workers.join(" "))),
    };
    let lines = touched.iter().map(line).collect::<Vec<_>>().join("\n");
    let items: Vec<Value> =
        touched.into_iter().map(|(path, workers)| json!({"path": path, "workers": workers})).collect();
    let data = json!({"workers": workers, "count": items.len(), "items": items});
    if lines.is_empty() {
        notes.push("(no file was changed by more than one of them)".to_owned());
    }
    Ok(CliOutcome::report("workers.diff", data, lines).with_notes(&notes))
}
