//! `memory list`: the memories of the user and of the workspace.

use clap::Args;
use serde_json::{Value, json};
use subagent_config::memory::Folder;

use super::{described, unusable};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::agent;
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the memories of agents: those of the user and of the workspace
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent memory list
  subagent memory list --json")]
pub(crate) struct MemoryListArgs {
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &MemoryListArgs, context: &CliContext) -> Result<CliOutcome> {
    let root = agent::workspace_of(args.cwd.cwd.as_deref(), context)?;
    let folders = Folder::all(&root, &context.env).map_err(unusable)?;
    // One that cannot be read does not hide the others.
    let item = |folder: &Folder| match folder.entry() {
        Ok(entry) => described(folder, entry.as_ref(), None),
        Err(problem) => described(folder, None, Some(problem)),
    };
    let items: Vec<Value> = folders.iter().map(item).collect();
    let data = json!({"count": items.len(), "items": items, "workspace": path_value(&root)});
    let shown = text::rows(&data, &["agent", "scope", "lines", "bytes", "changedAt", "path"], "");
    Ok(CliOutcome::list("memory.listed", data, shown, "(no memories)"))
}
