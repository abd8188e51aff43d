//! `agent show`: one definition of an agent, as it would count. No daemon is involved.

use clap::Args;
use serde_json::Value;
use subagent_config::agents::CatalogEntry;
use subagent_config::start::agent::named;

use super::{DefinitionPlace, ListedProblem};
use crate::commands::agent;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Show one definition as it would count
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent agent show explore")]
pub(crate) struct AgentShowArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: DefinitionPlace,
}

const KEYS: &[&str] = &[
    "name",
    "description",
    "mode",
    "level",
    "source",
    "launcher",
    "model",
    "startable",
    "tools",
    "permissionMode",
    "maxSteps",
    "timeoutSeconds",
    "skills",
    "memory",
    "mcpServers",
    "hides",
];

pub(super) fn run(args: &AgentShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let (catalog, _) = agent::catalog(&args.place, context)?;
    let found = named(&catalog, &args.name)?;
    let data = agent::whole(found);
    let shown = shown(data.clone(), found);
    Ok(CliOutcome::report("agent.shown", data, shown))
}

/// What is said, then the rules, the problems and the prompt.
fn shown(mut data: Value, found: &CatalogEntry) -> String {
    if let Value::Object(fields) = &mut data {
        fields.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty()));
    }
    let mut lines = vec![text::fields(&data, KEYS)];
    let definition = &found.definition;
    let rules = definition.rules.iter();
    lines.extend(rules.map(|rule| format!("rule: {}: {}", rule.text(), rule.action.as_str())));
    lines.extend(agent::problems_of(found).iter().map(ListedProblem::text));
    let prompt = &definition.prompt;
    if !prompt.is_empty() {
        lines.push(format!("\n{prompt}"));
    }
    lines.join("\n")
}
