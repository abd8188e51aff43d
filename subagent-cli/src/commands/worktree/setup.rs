//! `worktree setup`: makes a worktree usable again.

use clap::Args;

use super::change::{COMMANDS_LIMIT, OneWorktree, changed, plain};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Copy and run again what makes a worktree usable
///
/// These are `worktrees.copy` and `worktrees.setup` of the config, as they were when the worker was started.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worktree setup codex-1")]
pub(crate) struct WorktreeSetupArgs {
    #[command(flatten)]
    pub(crate) one: OneWorktree,
}

pub(super) fn run(args: &WorktreeSetupArgs, context: &CliContext) -> Result<CliOutcome> {
    let shown = ("worktree.ready", &["name", "path"][..]);
    changed(&args.one, ("setup", COMMANDS_LIMIT), shown, &plain(context), context)
}
