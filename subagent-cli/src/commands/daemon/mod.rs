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

use serde_json::{Map, Value, json};
use subagent_protocol::api::DaemonShown;

use crate::args::daemon::DaemonCommand;
use crate::client::log_path;
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::CliOutcome;

pub(super) use status::data as status;

/// The facts that are shown about a daemon, in the order of the text.
const FACTS: [&str; 9] =
    ["pid", "version", "mode", "generation", "startedAt", "liveWorkers", "stateDir", "socket", "log"];

pub(crate) fn run(command: &DaemonCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        DaemonCommand::Start(start) => start::run(&start.flags, context),
        DaemonCommand::Stop(stop) => stop::run(stop, context),
        DaemonCommand::Restart(restart) => restart::run(&restart.flags, context),
        DaemonCommand::Status(status) => status::run(&status.flags, context),
        DaemonCommand::List(_) => list::run(context),
        DaemonCommand::Logs(logs) => logs::run(logs, context),
        DaemonCommand::Install(install) => install::run(install, context),
        DaemonCommand::Uninstall(uninstall) => uninstall::run(&uninstall.flags, context),
    }
}

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
