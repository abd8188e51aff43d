//! `controller`: who owns the workers of a workspace.

mod attach;
mod grant;
mod init;
mod recover;
mod release;
mod status;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent controller ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ControllerCommand {
    Init(init::ControllerInitArgs),
    Attach(attach::ControllerAttachArgs),
    Status(status::ControllerStatusArgs),
    Recover(recover::ControllerRecoverArgs),
    Release(release::ControllerReleaseArgs),
}

impl ControllerCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Init(args) => init::run(&args, context),
            Self::Attach(args) => attach::run(&args, context),
            Self::Status(args) => status::run(&args, context),
            Self::Recover(args) => recover::run(&args, context),
            Self::Release(args) => release::run(&args, context),
        }
    }
}
