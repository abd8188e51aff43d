//! `notify test`: sends a test to the sinks.

use clap::Args;
use serde_json::Value;
use subagent_protocol::notification::{SinkTests, TestSinks};

use super::NO_SINKS;
use crate::client::{ApiRequest, DaemonClient, block_on, view};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::{CliContext, present};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Send a test to one sink, or to all of them, and say whether it arrived
///
/// Exits with 1 if a sink did not take it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent notify test
  subagent notify test phone")]
pub(crate) struct NotifyTestArgs {
    /// The name of the sink
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: NotifyTestArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let ask = ApiRequest::change("/v1/notifications/test", &TestSinks { name: present(args.name) })?;
    let mut client = DaemonClient::new(context, &workspace);
    let data: Value = block_on(async move { client.ask(&ask).await })?;
    let SinkTests { items, .. } = view(&data)?;
    if items.is_empty() {
        return Ok(CliOutcome::list("notify.tested", data, String::new(), NO_SINKS));
    }
    let failed = items.iter().any(|item| !item.delivered);
    let shown = text::rows(&data, &["name", "delivered", "error"], "");
    Ok(CliOutcome::Judged {
        kind: "notify.tested",
        text: shown.trim_end().to_owned(),
        code: u8::from(failed),
        data,
    })
}
