//! `prune`: removes what has been over for long.

use serde_json::json;
use subagent_protocol::api::Prune as Request;

use crate::args::removal::Prune;
use crate::client::{ApiRequest, DaemonClient, block_on};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(super) fn run(args: &Prune, context: &CliContext) -> Result<CliOutcome> {
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
    let leftovers = data["leftovers"].as_array().map_or(0, Vec::len);
    let mut shown = text::fields(&data, &["dryRun"]);
    shown.push_str(&format!("\nworkers: {}\n", data["count"]));
    shown.push_str(&text::fields(&data, &["events", "bytes", "keys"]));
    shown.push_str(&format!("\nleftovers: {leftovers}"));
    Ok(CliOutcome::report("state.pruned", data, shown))
}
