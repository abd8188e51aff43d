//! `worktree diff`: what has changed in worktrees, as `diff` shows it.

use subagent_protocol::api::WorktreeView;

use super::change::GIT_LIMIT;
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::commands::diff::{self, DiffArgs};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Shows the diff of the workers of worktrees.
pub(super) fn run(mut args: DiffArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    for name in &mut args.workers {
        let ask = ApiRequest::get(RequestPath::new(format!("/v1/worktrees/{}", segment(name))))
            .within(Some(GIT_LIMIT));
        let view: WorktreeView = block_on(client.ask_for(&ask))?;
        *name = view.worker_id.to_string();
    }
    diff::run(args, context)
}
