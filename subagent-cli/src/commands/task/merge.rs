//! `task merge`: brings the files of a task to the main work tree.

use clap::Args;
use subagent_protocol::api::WorktreeMerged;

use super::one_task::{OneTaskArgs, shown};
use crate::client::view;
use crate::commands::worktree;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Bring the files that a task changed in its worktree to your work tree
///
/// File by file, without a commit. A file that you have changed too is refused and named; all others are merged. Commit
/// with land instead if you want commits.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent task merge 'Fix Login'")]
pub(crate) struct TaskMergeArgs {
    #[command(flatten)]
    pub(crate) one: OneTaskArgs,
}

/// Brings the changed files of a task to the main work tree.
pub(super) fn run(one: &OneTaskArgs, context: &CliContext) -> Result<CliOutcome> {
    let (_, task) = shown(one, false, context)?;
    let workspace = context.workspace(one.cwd.cwd.as_deref())?;
    let data = worktree::merged(task.task.task_id.as_str(), &workspace, context)?;
    let merged: WorktreeMerged = view(&data)?;
    Ok(CliOutcome::list("worktree.merged", data, merged.files.join("\n"), "(nothing to merge)"))
}
