//! `worktree show`: where a worktree is, and what is in it.

use clap::Args;

use super::change::{GIT_LIMIT, OneWorktree};
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Show a worktree: where it is, and what is in it
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent worktree show codex-1")]
pub(crate) struct WorktreeShowArgs {
    #[command(flatten)]
    pub(crate) one: OneWorktree,
}

pub(super) fn run(one: &OneWorktree, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(one.cwd.cwd.as_deref())?;
    let path = format!("/v1/worktrees/{}", segment(&one.worktree));
    let mut client = DaemonClient::new(context, &workspace);
    let ask = ApiRequest::get(RequestPath::new(path)).within(Some(GIT_LIMIT));
    let data = block_on(async move { client.ask(&ask).await })?;
    let shown = text::fields(&data, &["name", "state", "path", "branch", "sourceBranch", "base", "workerId"]);
    Ok(CliOutcome::report("worktree.shown", data, shown))
}
