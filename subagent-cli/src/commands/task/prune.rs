//! `task prune`: removes tasks that are archived.

use serde_json::json;
use subagent_protocol::api::PruneTasks;

use crate::args::tasks::TaskPrune;
use crate::client::{ApiRequest, DaemonClient, block_on};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(crate) fn run(args: &TaskPrune, context: &CliContext) -> Result<CliOutcome> {
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
    let mut shown = format!("{what}: {}", data["count"]);
    let mut rows = |items: &serde_json::Value, keys: &[&str]| {
        let items = json!({"items": items});
        let rows = text::rows(&items, keys, "");
        if !rows.is_empty() {
            shown.push('\n');
            shown.push_str(&rows);
        }
    };
    rows(&data["items"], &["taskId", "status", "name"]);
    rows(&data["kept"], &["taskId", "status", "name", "reason", "recommendedCommand"]);
    Ok(CliOutcome::report("tasks.pruned", data, shown))
}
