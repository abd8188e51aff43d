//! `session`: the sessions that an agent keeps.

mod delete;
mod list;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent session ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SessionCommand {
    List(list::SessionListArgs),
    Delete(delete::SessionDeleteArgs),
}

impl SessionCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Delete(args) => delete::run(&args, context),
        }
    }
}
