//! `agent validate`: what is wrong with definitions of agents. No daemon is involved.

use std::path::PathBuf;

use serde_json::{Value, json};
use subagent_config::agents::Catalog;

use crate::args::definitions::AgentValidate;
use crate::commands::agent;
use crate::context::{CliContext, path_value, present_path};
use crate::failure::Result;
use crate::output::CliOutcome;

pub(crate) fn run(args: &AgentValidate, context: &CliContext) -> Result<CliOutcome> {
    let typed = args.paths.iter().filter_map(|path| present_path(Some(path.clone())));
    let paths: Vec<PathBuf> = typed.map(|path| context.env.cwd.join(path)).collect();
    let (mut catalog, root) = match paths.is_empty() {
        true => agent::catalog(&args.place, context)?,
        false => (Catalog::of_paths(&paths), agent::workspace_of(args.place.cwd.as_deref(), context)?),
    };
    catalog.look_at_files(&root, &context.env);
    let problems = agent::problems(&catalog);
    let errors = problems.iter().filter(|problem| problem["severity"] == "error").count();
    let looked: Vec<Value> = paths.iter().map(|path| path_value(path)).collect();
    let data = json!({
        "valid": errors == 0, "count": catalog.found.len(), "errors": errors,
        "notes": problems.len() - errors, "problems": problems, "paths": looked,
    });
    let mut lines: Vec<String> = problems.iter().map(agent::line).collect();
    let notes = problems.len() - errors;
    lines.push(format!("agents: {}, errors: {errors}, notes: {notes}", catalog.found.len()));
    Ok(CliOutcome::Judged {
        kind: "agent.validated",
        data,
        text: lines.join("\n"),
        code: u8::from(errors > 0),
    })
}
