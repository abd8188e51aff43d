//! `launcher`: the agents that can be started.

pub(crate) mod handshake;
mod installed;
mod list;
pub(crate) mod login;
mod logout;
pub(crate) mod probe;
mod show;

use clap::Subcommand;

use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent launcher ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum LauncherCommand {
    List(list::LauncherListArgs),
    Show(show::LauncherShowArgs),
    Probe(probe::LauncherProbeArgs),
    Login(login::LauncherLoginArgs),
    Logout(logout::LauncherLogoutArgs),
}

impl LauncherCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Probe(args) => probe::run(&args, context),
            Self::Login(args) => login::run(&args, context),
            Self::Logout(args) => logout::run(&args, context),
        }
    }
}
