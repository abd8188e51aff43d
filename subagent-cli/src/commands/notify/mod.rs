//! `notify`: where notifications go, whether they arrive, and what became of them.

mod list;
mod log;
mod test;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent notify ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum NotifyCommand {
    List(list::NotifyListArgs),
    Test(test::NotifyTestArgs),
    Log(log::NotifyLogArgs),
}

impl NotifyCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Test(args) => test::run(args, context),
            Self::Log(args) => log::run(&args, context),
        }
    }
}

/// What to do where no sink is configured.
const NO_SINKS: &str = "(no sinks; add `notify` to the user's config file)";
