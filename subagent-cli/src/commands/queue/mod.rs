//! `queue`: what waits for a worker as a whole.

mod resume;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent queue ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum QueueCommand {
    Resume(resume::QueueResumeArgs),
}

impl QueueCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Resume(args) => resume::run(&args, context),
        }
    }
}
