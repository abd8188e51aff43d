//! What is shown of a daemon, and the flags that name one.

use clap::Args;
use serde_json::{Map, Value, json};
use subagent_protocol::api::DaemonShown;

use crate::client::log_path;
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::path_value;

/// Flags of commands that need nothing but the workspace.
#[derive(Debug, Args)]
pub(crate) struct DaemonFlags {
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The facts that are shown about a daemon, in the order of the text.
pub(super) const FACTS: [&str; 9] =
    ["pid", "version", "mode", "generation", "startedAt", "liveWorkers", "stateDir", "socket", "log"];

pub(super) fn facts(shown: &DaemonShown) -> Map<String, Value> {
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
