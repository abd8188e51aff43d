//! `prune`: removes what has been over for long.

use clap::Args;
use serde_json::json;
use subagent_protocol::api::{Prune as Request, Pruned};

use crate::client::{ApiRequest, DaemonClient, block_on, view};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::command_line::numbers::age;
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Remove workers that were stopped long ago, and old files
///
/// That is: workers that have been stopped for longer than --older-than, keys of requests that are as old (but never
/// younger than a day), older files of unknown workers (but no journals), and state that a `restore` replaced before
/// then. Restored state counts as new. The daemon does the same by itself after 30 days.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent prune --dry-run
  subagent prune --older-than 12h --json")]
pub(crate) struct PruneArgs {
    /// How old, as 30d, 12h, 90m or 45s
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = age)]
    pub(crate) older_than: u64,
    /// Only show what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &PruneArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let data = if has_state(&workspace) {
        let request = Request { older_than_seconds: args.older_than, dry_run: args.dry_run };
        // Much may have to be counted; it ends by itself.
        let ask = ApiRequest::change("/v1/prune", &request)?.within(None);
        let mut client = DaemonClient::new(context, &workspace);
        block_on(async move { client.ask(&ask).await })?
    } else {
        json!({
            "dryRun": args.dry_run, "olderThanSeconds": args.older_than, "items": [], "count": 0, "events": 0,
            "bytes": 0, "keys": 0, "leftovers": [],
        })
    };
    let Pruned { count, leftovers, .. } = view(&data)?;
    let mut shown = text::fields(&data, &["dryRun"]);
    shown.push_str(&format!("\nworkers: {count}\n"));
    shown.push_str(&text::fields(&data, &["events", "bytes", "keys"]));
    shown.push_str(&format!("\nleftovers: {}", leftovers.len()));
    Ok(CliOutcome::report("state.pruned", data, shown))
}
