//! `turn move`: gives a queued message another place.

use clap::Args;
use subagent_protocol::api::MoveTurn;

use super::one_turn::{OneTurnArgs, asked, path};
use crate::client::ApiRequest;
use crate::command_line::flags::any_value;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// Give a message that waits another place in the queue
#[derive(Debug, Args)]
#[command(mut_args = any_value, after_help = "\
Examples:
  subagent turn move turn_0123456789 --first
  subagent turn move turn_0123456789 --to 3 --json")]
pub(crate) struct TurnMoveArgs {
    #[command(flatten)]
    pub(crate) one: OneTurnArgs,
    /// Which place, from 1
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["first", "last"], value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) to: Option<u32>,
    /// Before all others
    #[arg(long, conflicts_with = "last")]
    pub(crate) first: bool,
    /// Behind all others
    #[arg(long)]
    pub(crate) last: bool,
}

/// The position behind all queued messages.
const LAST: u32 = u32::MAX;

pub(super) fn run(args: &TurnMoveArgs, context: &CliContext) -> Result<CliOutcome> {
    let to = match (args.to, args.first, args.last) {
        (Some(place), ..) => place,
        (None, true, _) => 1,
        (None, false, true) => LAST,
        (None, false, false) => {
            return Err(Failure::argument("where to? give --to PLACE, --first or --last"));
        }
    };
    let workspace = context.workspace(args.one.cwd.cwd.as_deref())?;
    let ask = ApiRequest::change(path(&args.one.turn_id, "/move", &workspace)?, &MoveTurn { to })?;
    let data = asked(&ask, &workspace, context)?;
    let shown = text::fields(&data, &["workerId", "turnId", "position"]);
    Ok(CliOutcome::report("turn.moved", data, shown))
}
