//! `task prune`: removes tasks that are archived.

use clap::Args;
use serde_json::{Value, json};
use subagent_protocol::api::{PruneTasks, PrunedTasks};

use crate::client::{ApiRequest, DaemonClient, block_on, view};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::command_line::numbers::age;
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Remove tasks that are archived
///
/// Abandoned tasks are archived and kept, because they may hold work. This removes them for good,
/// with all their data. A task that has not ended is kept, and so is one with such a task below it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent task prune --dry-run
  subagent task prune --older-than 30d --json")]
pub(crate) struct TaskPruneArgs {
    /// Only tasks that were archived at least this long ago, as 30d, 12h, 90m or 45s
    #[arg(long, value_name = "AGE", default_value = "0s", value_parser = age)]
    pub(crate) older_than: u64,
    /// Only show what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &TaskPruneArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let data = if has_state(&workspace) {
        let request = PruneTasks { older_than_seconds: args.older_than, dry_run: args.dry_run };
        // Much may have to be counted; it ends by itself.
        let ask = ApiRequest::change("/v1/prune/tasks", &request)?.within(None);
        let mut client = DaemonClient::new(context, &workspace);
        block_on(async move { client.ask(&ask).await })?
    } else {
        json!({
            "dryRun": args.dry_run, "olderThanSeconds": args.older_than, "items": [], "count": 0, "events": 0, "bytes": 0,
            "kept": [],
        })
    };
    let what = if args.dry_run { "would be removed" } else { "removed" };
    let pruned: PrunedTasks = view(&data)?;
    let mut shown = format!("{what}: {}", pruned.count);
    let mut rows = |items: &Value, keys: &[&str]| {
        let rows = text::rows(items, keys, "");
        if !rows.is_empty() {
            shown.push('\n');
            shown.push_str(&rows);
        }
    };
    rows(&data, &["taskId", "status", "name"]);
    rows(&json!({"items": pruned.kept}), &["taskId", "status", "name", "reason", "recommendedCommand"]);
    Ok(CliOutcome::report("tasks.pruned", data, shown))
}
