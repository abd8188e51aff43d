//! `approval`: the inbox of all workers, and one question of it.

mod list;
pub(crate) mod open_request;
mod show;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent approval ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ApprovalCommand {
    List(list::ApprovalListArgs),
    Show(show::ApprovalShowArgs),
}

impl ApprovalCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args, context),
        }
    }
}
