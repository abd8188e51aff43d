//! Flags of `prompt`.

use clap::{Args, Subcommand};

use super::{ConfigFlag, JsonFlag};

/// `subagent prompt ...`
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum PromptCommand {
    Render(PromptRender),
}

/// Print the prompt for a manager agent: workflow, rules, roles
///
/// The same text without the roles is the skill subagent-manager, for agents that take skills.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent prompt render
  subagent prompt render >> AGENTS.md")]
pub struct PromptRender {
    /// `--config`, the path of the config file.
    #[command(flatten)]
    pub config: ConfigFlag,
    /// Which form of output.
    #[command(flatten)]
    pub json: JsonFlag,
}
