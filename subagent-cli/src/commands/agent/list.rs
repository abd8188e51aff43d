//! `agent list`: the definitions of agents that count here. No daemon is involved.

use clap::Args;
use serde_json::{Value, json};

use super::{DefinitionPlace, ListedProblem};
use crate::commands::agent;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the definitions of agents, where each is from and what it hides
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent agent list
  subagent agent list --cwd ~/src/thing --json")]
pub(crate) struct AgentListArgs {
    #[command(flatten)]
    pub(crate) place: DefinitionPlace,
}

pub(super) fn run(args: &AgentListArgs, context: &CliContext) -> Result<CliOutcome> {
    let (catalog, root) = agent::catalog(&args.place, context)?;
    let items: Vec<Value> = catalog.found.iter().map(agent::brief).collect();
    let problems = agent::problems(&catalog);
    let data = json!({
        "count": items.len(), "items": items, "problems": problems, "workspace": agent::root(&root),
    });
    // There are always those that are built in.
    let rows = text::rows(&data, &["name", "mode", "level", "description"], "");
    // Only `agent validate` reports notes.
    let errors = problems.iter().filter(|problem| problem.is_error()).map(ListedProblem::text);
    let shown: Vec<String> = std::iter::once(rows).chain(errors).collect();
    Ok(CliOutcome::report("agent.listed", data, shown.join("\n")))
}
