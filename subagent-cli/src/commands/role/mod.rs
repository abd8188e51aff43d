//! `role`: the roles of workers.

mod list;
mod show;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent role ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum RoleCommand {
    List(list::RoleListArgs),
    Show(show::RoleShowArgs),
}

impl RoleCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args, context),
        }
    }
}
