//! `diff A B`: the files that several workers have changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use subagent_config::Workspace;

use super::{DiffArgs, look};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, human, text};

pub(super) fn run(args: DiffArgs, workspace: &Workspace, context: &CliContext) -> Result<CliOutcome> {
    if args.stat {
        return Err(Failure::argument("--stat takes one worker").with("flag", "--stat").wrong_usage());
    }
    let mut workers: Vec<String> = Vec::new();
    let mut touched: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut notes = Vec::new();
    for worker in args.workers {
        let (shown, found) = look(Some(worker), false, workspace, context)?;
        let name = human::named(&shown).to_owned();
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
    let items: Vec<Value> =
        touched.into_iter().map(|(path, workers)| json!({"path": path, "workers": workers})).collect();
    let keys: &[&str] = if args.name_only { &["path"] } else { &["path", "workers"] };
    let data = json!({"workers": workers, "count": items.len(), "items": items});
    let mut shown = data.clone();
    for item in shown["items"].as_array_mut().into_iter().flatten() {
        let names: Vec<&str> =
            item["workers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        item["workers"] = names.join(" ").into();
    }
    let lines = text::rows(&shown, keys, "");
    if lines.is_empty() {
        notes.push("(no file was changed by more than one of them)".to_owned());
    }
    Ok(CliOutcome::report("workers.diff", data, lines).with_notes(&notes))
}
