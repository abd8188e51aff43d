//! `turn drop`: takes a message out of the queue.

use clap::Args;
use serde_json::json;

use super::one_turn::{OneTurnArgs, asked, path};
use crate::client::ApiRequest;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Take a message out of the queue; it is not sent
///
/// A turn that is open is ended with `cancel`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent turn drop turn_0123456789")]
pub(crate) struct TurnDropArgs {
    #[command(flatten)]
    pub(crate) one: OneTurnArgs,
}

pub(super) fn run(args: &TurnDropArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let ask = ApiRequest::change(path(&args.one.turn_id, "/drop", &workspace)?, &json!({}))?;
    let data = asked(&ask, &workspace, context)?;
    let shown = text::fields(&data, &["workerId", "turnId"]);
    Ok(CliOutcome::report("turn.dropped", data, shown))
}
