//! `prompt`: the prompt for a manager agent.

mod render;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent prompt ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PromptCommand {
    Render(render::PromptRenderArgs),
}

impl PromptCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Render(args) => render::run(&args, context),
        }
    }
}
