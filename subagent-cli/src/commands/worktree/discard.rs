//! `worktree discard`: removes a worktree; a ref keeps what was in it.

use clap::Args;
use subagent_protocol::api::DiscardWorktree;

use super::change::{GIT_LIMIT, OneWorktree, changed, git_environment};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Remove a worktree; a ref keeps all that was in it
///
/// The command prints the ref, below `refs/subagent/retired/`. Commits, the index and uncommitted and untracked files are
/// in it: `git diff REF^ REF` shows the files, and `git worktree add PATH REF` gets them back.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worktree discard codex-1
  subagent worktree discard trainer --without-host")]
pub(crate) struct WorktreeDiscardArgs {
    /// Give up the host of the worktree, and keep what is known of it here
    ///
    /// For a host that does not come back. The host is not asked: what only it has stays there.
    #[arg(long)]
    pub(crate) without_host: bool,
    #[command(flatten)]
    pub(crate) one: OneWorktree,
}

pub(super) fn run(args: &WorktreeDiscardArgs, context: &CliContext) -> Result<CliOutcome> {
    let request = DiscardWorktree { env: git_environment(context), without_host: args.without_host };
    let shown = ("worktree.discarded", &["name", "branch", "retired"][..]);
    changed(&args.one, ("discard", GIT_LIMIT), shown, &request, context)
}
