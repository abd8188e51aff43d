//! `policy rules`: the rules that decisions became.

mod list;
mod remove;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent policy rules ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum RulesCommand {
    List(list::RulesListArgs),
    Remove(remove::RulesRemoveArgs),
}

impl RulesCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Remove(args) => remove::run(&args, context),
        }
    }
}
