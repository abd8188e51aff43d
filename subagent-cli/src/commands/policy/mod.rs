//! `policy`: the rules for what agents may do.

mod rules;
mod test;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent policy ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum PolicyCommand {
    Test(test::PolicyTestArgs),
    /// The rules that decisions became (approve --always)
    #[command(subcommand)]
    Rules(rules::RulesCommand),
}

impl PolicyCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Test(args) => test::run(&args, context),
            Self::Rules(command) => command.run(context),
        }
    }
}
