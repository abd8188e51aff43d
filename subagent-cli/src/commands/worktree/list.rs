//! `worktree list`: the worktrees of workers, the newest first.

use clap::Args;
use serde_json::json;

use super::change::GIT_LIMIT;
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the worktrees of workers, the newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worktree list
  subagent worktree list --json")]
pub(crate) struct WorktreeListArgs {
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &WorktreeListArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let data = match has_state(&workspace) {
        true => {
            let mut client = DaemonClient::new(context, &workspace);
            let ask = ApiRequest::get(RequestPath::new("/v1/worktrees").with("contents", Some("true")));
            block_on(async move { client.ask(&ask.within(Some(GIT_LIMIT))).await })?
        }
        false => json!({"items": [], "count": 0}),
    };
    let shown = text::rows(&data, &["name", "state", "branch", "path"], "");
    Ok(CliOutcome::list("worktree.listed", data, shown, "(no worktrees)"))
}
