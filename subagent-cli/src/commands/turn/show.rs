//! `turn show`: one turn.

use clap::Args;
use subagent_protocol::api::TurnShown;

use super::one_turn::{OneTurnArgs, asked, path};
use crate::client::{ApiRequest, view};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Show one turn: its whole message, its times, how it ended
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent turn show turn_0123456789 --json")]
pub(crate) struct TurnShowArgs {
    #[command(flatten)]
    pub(crate) one: OneTurnArgs,
}

pub(super) fn run(args: &TurnShowArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let ask = ApiRequest::get(path(&args.one.turn_id, "", &workspace)?);
    let data = asked(&ask, &workspace, context)?;
    let mut shown = text::fields(&data, &["workerId", "turnId", "status", "position", "dispatched"]);
    let turn: TurnShown = view(&data)?;
    if let Some(said) = turn.turn.text {
        shown.push_str(&format!("\ntext: {said}"));
    }
    Ok(CliOutcome::report("turn.shown", data, shown))
}
