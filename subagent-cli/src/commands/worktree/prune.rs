//! `worktree prune`: removes the worktrees of stopped workers that have no work in them.

use clap::Args;
use subagent_protocol::Code;
use subagent_protocol::api::{PruneWorktrees, WorktreesPruned};
use subagent_runtime::worktree;

use super::change::{GIT_LIMIT, environment, git_environment};
use crate::client::{ApiRequest, DaemonClient, block_on, view};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::command_line::numbers::age;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Remove the worktrees of stopped workers that have no work in them
///
/// With --retired, also delete the refs of worktrees that were discarded or landed longer ago than that: their commits are
/// gone then. The same is true for copies that were discarded.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worktree prune
  subagent worktree prune --retired 30d")]
pub(crate) struct WorktreePruneArgs {
    /// Delete refs of retired worktrees, and discarded copies, that are older than this, as 30d
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) retired: Option<u64>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &WorktreePruneArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let env = git_environment(context);
    let request = match args.retired {
        None => PruneWorktrees { env, ..PruneWorktrees::default() },
        Some(seconds) => {
            let config = context.config(None, args.cwd.cwd.as_deref())?;
            let root = subagent_config::start::worktree::root(&config.config.worktrees, &context.env)?;
            let copies = Some(worktree::copies(&workspace.root, &root)).filter(|folder| folder.is_dir());
            let repository = match worktree::repository(&workspace.root, &environment(context)) {
                Ok(repository) => Some(repository),
                // A folder without git has copies only.
                Err(error) if error.code == Code::WorktreeNeedsGit && copies.is_some() => None,
                Err(error) => return Err(error.into()),
            };
            let retired_older_than_ms = Some(seconds.saturating_mul(1000));
            PruneWorktrees { env, repository, copies, retired_older_than_ms }
        }
    };
    let ask = ApiRequest::change("/v1/worktrees/prune", &request)?.within(Some(GIT_LIMIT));
    let mut client = DaemonClient::new(context, &workspace);
    let data = block_on(async move { client.ask(&ask).await })?;
    let pruned: WorktreesPruned = view(&data)?;
    let removed = pruned.removed.iter().map(|one| format!("removed: {}", one.name));
    let kept = pruned.kept.iter().map(|one| format!("kept: {}", one.name));
    let deleted = pruned.deleted_refs.iter().chain(&pruned.deleted_copies);
    let deleted = deleted.map(|name| format!("deleted: {name}"));
    let shown = removed.chain(kept).chain(deleted).collect::<Vec<_>>().join("\n");
    Ok(CliOutcome::list("worktree.pruned", data, shown, "(nothing to remove)"))
}
