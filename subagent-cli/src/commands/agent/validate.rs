//! `agent validate`: what is wrong with definitions of agents. No daemon is involved.

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use serde_json::{Value, json};
use subagent_config::agents::Catalog;

use super::{DefinitionPlace, ListedProblem};
use crate::command_line::flags::path;
use crate::commands::agent;
use crate::context::{CliContext, path_value, present_path};
use crate::failure::Result;
use crate::output::CliOutcome;

/// Say what is wrong with definitions, by file, line and column
///
/// Without a PATH all definitions are looked at that `agent list` knows. The exit code is 1 if one cannot be started.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent agent validate
  subagent agent validate .agents/agents/reviewer.md")]
pub(crate) struct AgentValidateArgs {
    /// Files, or folders with files
    #[arg(value_name = "PATH", value_parser = existing())]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) place: DefinitionPlace,
}

/// A path that leads somewhere, or an empty one.
fn existing() -> impl TypedValueParser<Value = PathBuf> {
    path().try_map(|path| match path.as_os_str().is_empty() || path.exists() {
        true => Ok(path),
        false => Err("there is no such file or folder"),
    })
}

pub(super) fn run(args: &AgentValidateArgs, context: &CliContext) -> Result<CliOutcome> {
    let typed = args.paths.iter().filter_map(|path| present_path(Some(path.clone())));
    let paths: Vec<PathBuf> = typed.map(|path| context.env.cwd.join(path)).collect();
    let (mut catalog, root) = match paths.is_empty() {
        true => agent::catalog(&args.place, context)?,
        false => (Catalog::of_paths(&paths), agent::workspace_of(args.place.cwd.as_deref(), context)?),
    };
    catalog.look_at_files(&root, &context.env);
    let problems = agent::problems(&catalog);
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    let looked: Vec<Value> = paths.iter().map(|path| path_value(path)).collect();
    let data = json!({
        "valid": errors == 0, "count": catalog.found.len(), "errors": errors,
        "notes": problems.len() - errors, "problems": problems, "paths": looked,
    });
    let mut lines: Vec<String> = problems.iter().map(ListedProblem::text).collect();
    let notes = problems.len() - errors;
    lines.push(format!("agents: {}, errors: {errors}, notes: {notes}", catalog.found.len()));
    Ok(CliOutcome::Judged {
        kind: "agent.validated",
        data,
        text: lines.join("\n"),
        code: u8::from(errors > 0),
    })
}
