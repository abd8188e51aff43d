//! `memory show`: the notes of an agent.

use clap::Args;

use super::{OneMemory, chosen, described, nothing, unusable};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, json};

/// Print the MEMORY.md of an agent
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent memory show reviewer
  subagent memory show reviewer --scope user --json")]
pub(crate) struct MemoryShowArgs {
    #[command(flatten)]
    pub(crate) one: OneMemory,
}

pub(super) fn run(one: &OneMemory, context: &CliContext) -> Result<CliOutcome> {
    let folder = chosen(one, context)?;
    let entry = folder.entry().map_err(unusable)?;
    let Some(entry) = entry.filter(|entry| entry.changed.is_some()) else { return Err(nothing(&folder)) };
    let mut data = described(&folder, Some(&entry), None);
    json::extend(&mut data, [("text", entry.text.as_str().into())]);
    Ok(CliOutcome::report("memory.shown", data, entry.text.trim_end().to_owned()))
}
