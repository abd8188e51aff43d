//! `daemon status`: whether a daemon runs, and where everything is. Starts none.

use std::path::Path;

use clap::Args;
use serde_json::{Map, Value};

use super::facts::{DaemonFlags, FACTS, facts};
use crate::client::{DaemonClient, block_on, log_path, running_of};
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Show whether a daemon runs, and where everything is
///
/// Exits with 0 whether it runs or not. It is never started by this.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon status
  subagent daemon status --json")]
pub(crate) struct DaemonStatusArgs {
    #[command(flatten)]
    pub(crate) flags: DaemonFlags,
}

pub(super) fn run(flags: &DaemonFlags, context: &CliContext) -> Result<CliOutcome> {
    let data = data(flags.cwd.cwd.as_deref(), context)?.into();
    let lines = text::fields(&data, &[&["running"], FACTS.as_slice()].concat());
    Ok(CliOutcome::report("daemon.shown", data, lines))
}

/// The facts of the daemon of a workspace; null where none runs.
///
/// # Errors
/// Those of the workspace and of a daemon that does not answer.
pub(crate) fn data(cwd: Option<&Path>, context: &CliContext) -> Result<Map<String, Value>> {
    let workspace = context.workspace(cwd)?;
    let shown = block_on(running_of(DaemonClient::looking(context, &workspace)))?;
    let state_dir = workspace.state_dir;
    let mut data = match &shown {
        Some(shown) => facts(shown),
        None => {
            let mut none = Map::from_iter(FACTS.map(|key| (key.to_owned(), Value::Null)));
            none.insert("stateDir".to_owned(), path_value(&state_dir));
            none.insert("log".to_owned(), path_value(&log_path(&state_dir)));
            none
        }
    };
    data.insert("running".to_owned(), shown.is_some().into());
    Ok(data)
}
