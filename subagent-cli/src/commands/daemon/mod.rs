//! `daemon ...`: the daemon of a workspace, as a person looks after it.

mod facts;
mod install;
mod list;
mod logs;
mod restart;
mod start;
mod status;
mod stop;
mod systemctl;
mod uninstall;
mod unit;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

pub(super) use status::data as status;

/// `subagent daemon ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum DaemonCommand {
    Start(start::DaemonStartArgs),
    Stop(stop::DaemonStopArgs),
    Restart(restart::DaemonRestartArgs),
    Status(status::DaemonStatusArgs),
    List(list::DaemonListArgs),
    Logs(logs::DaemonLogsArgs),
    Install(install::DaemonInstallArgs),
    Uninstall(uninstall::DaemonUninstallArgs),
}

impl DaemonCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::Start(args) => start::run(&args.flags, context),
            Self::Stop(args) => stop::run(&args, context),
            Self::Restart(args) => restart::run(&args.flags, context),
            Self::Status(args) => status::run(&args.flags, context),
            Self::List(_) => list::run(context),
            Self::Logs(args) => logs::run(&args, context),
            Self::Install(args) => install::run(&args, context),
            Self::Uninstall(args) => uninstall::run(&args.flags, context),
        }
    }
}
