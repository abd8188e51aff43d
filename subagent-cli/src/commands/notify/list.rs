//! `notify list`: where notifications go.

use clap::Args;
use serde_json::Value;
use subagent_protocol::notification::{SinkView, Sinks};

use super::NO_SINKS;
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, view};
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
    let sinks: Sinks = view(&data)?;
    let lines = sinks.items.iter().map(row).collect::<Vec<_>>().join("\n");
    let outcome = CliOutcome::list("notify.listed", data, lines, NO_SINKS);
    Ok(match sinks.error {
        Some(problem) => outcome.with_note(format!("The config file cannot be used: {problem}")),
        None => outcome,
    })
}

/// A sink as a line.
fn row(sink: &SinkView) -> String {
    let on = sink.on.iter().map(|occasion| occasion.as_str());
    let on: Vec<&str> = on.chain(sink.done_of_detached.then_some("done of run -d")).collect();
    let cells = [
        &sink.name,
        &sink.to,
        &on.join(","),
        sink.selector.as_deref().unwrap_or_default(),
        &sink.pending.to_string(),
        sink.error.as_deref().unwrap_or_default(),
    ];
    cells.map(text::plain).join("\t")
}
