//! `notify list`: where notifications go.

use clap::Args;
use serde_json::Value;

use super::NO_SINKS;
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List where notifications go, as the user's config file says under `notify`
///
/// Each sink with what it is notified of, how many notifications wait for it, and its last error.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent notify list")]
pub(crate) struct NotifyListArgs {
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &NotifyListArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    let data: Value =
        block_on(async move { client.ask(&ApiRequest::get(RequestPath::new("/v1/notifications"))).await })?;
    let mut shown = data.clone();
    for item in shown["items"].as_array_mut().into_iter().flatten() {
        let on: Vec<&str> = item["on"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let of_detached = item["doneOfDetached"] == true;
        item["on"] = on
            .into_iter()
            .chain(of_detached.then_some("done of run -d"))
            .collect::<Vec<_>>()
            .join(",")
            .into();
    }
    let lines = text::rows(&shown, &["name", "to", "on", "selector", "pending", "error"], "");
    let problem = data["error"].as_str().map(str::to_owned);
    let outcome = CliOutcome::list("notify.listed", data, lines, NO_SINKS);
    Ok(match problem {
        Some(problem) => outcome.with_note(format!("The config file cannot be used: {problem}")),
        None => outcome,
    })
}
