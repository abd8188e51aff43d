//! `notify log`: what became of the newest notifications.

use clap::Args;
use serde_json::json;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Show what became of the newest notifications, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent notify log")]
pub(crate) struct NotifyLogArgs {
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &NotifyLogArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let data = if has_state(&workspace) {
        let mut client = DaemonClient::new(context, &workspace);
        block_on(
            async move { client.ask(&ApiRequest::get(RequestPath::new("/v1/notifications/log"))).await },
        )?
    } else {
        json!({"items": [], "count": 0})
    };
    let keys = ["changedAt", "sink", "occasion", "status", "attempts", "eventId", "workerId", "error"];
    let lines = text::rows(&data, &keys, "");
    Ok(CliOutcome::list("notify.log", data, lines, "(no notifications)"))
}
