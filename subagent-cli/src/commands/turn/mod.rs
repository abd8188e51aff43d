//! `turn`: looks at turns, and changes what waits.

mod drop;
mod list;
mod r#move;
mod one_turn;
mod retry;
mod show;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent turn ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TurnCommand {
    List(list::TurnListArgs),
    Show(show::TurnShowArgs),
    Drop(drop::TurnDropArgs),
    Move(r#move::TurnMoveArgs),
    Retry(retry::TurnRetryArgs),
}

impl TurnCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Drop(args) => drop::run(&args, context),
            Self::Move(args) => r#move::run(&args, context),
            Self::Retry(args) => retry::run(&args, context),
        }
    }
}
