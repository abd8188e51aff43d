//! `memory clear`: deletes the notes of an agent.

use clap::Args;
use serde_json::json;

use super::{OneMemory, chosen, nothing, unusable};
use crate::context::{CliContext, path_value};
use crate::dialog::confirm;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// Delete everything in the memory of an agent
///
/// Asks at a terminal. The folder itself stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent memory clear reviewer
  subagent memory clear reviewer --scope local --yes")]
pub(crate) struct MemoryClearArgs {
    #[command(flatten)]
    pub(crate) one: OneMemory,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

pub(super) fn run(args: &MemoryClearArgs, context: &CliContext) -> Result<CliOutcome> {
    let folder = chosen(&args.one, context)?;
    if folder.entry().is_ok_and(|entry| entry.is_none()) {
        return Err(nothing(&folder));
    }
    if !args.yes {
        confirm::needs_terminal("to clear a memory").map_err(|failure| {
            failure.with("path", path_value(&folder.path())).recommend("repeat the command with --yes")
        })?;
        if !confirm::says_yes(&format!("Delete everything in {}?", folder.path().display())) {
            return Err(Failure::argument("nothing was deleted").with("path", path_value(&folder.path())));
        }
    }
    let removed = folder.clear().map_err(unusable)?;
    let data = json!({
        "agent": folder.agent(), "scope": folder.scope().as_str(), "path": path_value(&folder.path()),
        "removed": removed,
    });
    let shown = text::fields(&data, &["agent", "scope", "removed", "path"]);
    Ok(CliOutcome::report("memory.cleared", data, shown))
}
