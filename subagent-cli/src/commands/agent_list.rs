//! `agent list`: the definitions of agents that count here. No daemon is involved.

use serde_json::{Value, json};

use super::agent_data;
use crate::args::definitions::AgentList;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(super) fn run(args: &AgentList, context: &CliContext) -> Result<CliOutcome> {
    let (catalog, root) = agent_data::catalog(&args.place, context)?;
    let items: Vec<Value> = catalog.found.iter().map(agent_data::brief).collect();
    let problems = agent_data::problems(&catalog);
    let data = json!({
        "count": items.len(), "items": items, "problems": problems, "workspace": agent_data::root(&root),
    });
    // There are always those that are built in.
    let rows = text::rows(&data, &["name", "mode", "level", "description"], "");
    // Only `agent validate` reports notes.
    let errors = problems.iter().filter(|problem| problem["severity"] == "error").map(agent_data::line);
    let shown: Vec<String> = std::iter::once(rows).chain(errors).collect();
    Ok(CliOutcome::report("agent.listed", data, shown.join("\n")))
}
