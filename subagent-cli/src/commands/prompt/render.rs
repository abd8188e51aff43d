//! `prompt render`: what a manager agent should know. No daemon is involved.

use clap::Args;
use serde_json::json;

use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;
use crate::prompt;

/// Print the prompt for a manager agent: workflow, rules, roles
///
/// The same text without the roles is the skill subagent-manager, for agents that take skills.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent prompt render
  subagent prompt render >> AGENTS.md")]
pub(crate) struct PromptRenderArgs {
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &PromptRenderArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let prompt = prompt::render(&loaded.config);
    let data = json!({"target": "manager", "prompt": prompt});
    Ok(CliOutcome::report("prompt.rendered", data, prompt))
}
