//! `placement`: other machines where workers run. No daemon is involved.

mod check;
mod list;
mod prepare;
mod remote;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// The commands of `subagent placement`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PlacementCommand {
    List(list::PlacementListArgs),
    Check(check::PlacementCheckArgs),
    Prepare(prepare::PlacementPrepareArgs),
}

impl PlacementCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Check(args) => check::run(&args, context),
            Self::Prepare(args) => prepare::run(&args, context),
        }
    }
}
