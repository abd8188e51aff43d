//! `config`: shows, checks and creates the config file.

mod check;
mod init;
mod show;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent config ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ConfigCommand {
    Init(init::ConfigInitArgs),
    Show(show::ConfigShowArgs),
    Check(check::ConfigCheckArgs),
}

impl ConfigCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Init(args) => init::run(&args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Check(args) => check::run(&args, context),
        }
    }
}
