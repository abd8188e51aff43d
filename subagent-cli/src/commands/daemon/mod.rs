//! `daemon ...`: the daemon of a workspace, as a person looks after it.

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

pub(super) use status::data as status;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use subagent_protocol::api::DaemonShown;

use crate::client::log_path;
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent daemon ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum DaemonCommand {
    Start(start::DaemonStart),
    Stop(stop::DaemonStop),
    Restart(restart::DaemonRestart),
    Status(status::DaemonStatus),
    List(list::DaemonList),
    Logs(logs::DaemonLogs),
    Install(install::DaemonInstall),
    Uninstall(uninstall::DaemonUninstall),
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

/// Flags of commands that need nothing but the workspace.
#[derive(Debug, Args)]
pub(crate) struct DaemonFlags {
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The facts that are shown about a daemon, in the order of the text.
const FACTS: [&str; 9] =
    ["pid", "version", "mode", "generation", "startedAt", "liveWorkers", "stateDir", "socket", "log"];

fn facts(shown: &DaemonShown) -> Map<String, Value> {
    let DaemonShown { info, live_workers } = shown;
    Map::from_iter(
        [
            ("pid", json!(info.process.pid)),
            ("version", json!(info.version)),
            ("mode", json!(info.mode)),
            ("generation", json!(info.generation)),
            ("startedAt", json!(info.started_at)),
            ("liveWorkers", json!(live_workers)),
            ("stateDir", path_value(&info.state_dir)),
            ("socket", path_value(&info.socket)),
            ("log", path_value(&log_path(&info.state_dir))),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    )
}
