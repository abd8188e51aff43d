//! `worktree remove`: removes a worktree in which nothing would be lost.

use clap::Args;

use super::change::{GIT_LIMIT, OneWorktree, changed, plain};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Remove a worktree in which nothing would be lost
///
/// It is refused while there are changes that are not committed, new files, or commits that no other branch has.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worktree remove codex-1")]
pub(crate) struct WorktreeRemoveArgs {
    #[command(flatten)]
    pub(crate) one: OneWorktree,
}

pub(super) fn run(args: &WorktreeRemoveArgs, context: &CliContext) -> Result<CliOutcome> {
    let shown = ("worktree.removed", &["name", "branch"][..]);
    changed(&args.one, ("remove", GIT_LIMIT), shown, &plain(context), context)
}
