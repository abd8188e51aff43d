//! `worktree discard`: removes a worktree; a ref keeps what was in it.

use clap::Args;

use super::change::{GIT_LIMIT, OneWorktree, changed};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Remove a worktree; a ref keeps all that was in it
///
/// The command prints the ref, below `refs/subagent/retired/`. Commits, the index and uncommitted and untracked files are
/// in it: `git diff REF^ REF` shows the files, and `git worktree add PATH REF` gets them back.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worktree discard codex-1")]
pub(crate) struct WorktreeDiscardArgs {
    #[command(flatten)]
    pub(crate) one: OneWorktree,
}

pub(super) fn run(args: &WorktreeDiscardArgs, context: &CliContext) -> Result<CliOutcome> {
    changed(&args.one, ("discard", GIT_LIMIT), "worktree.discarded", &["name", "branch", "retired"], context)
}
