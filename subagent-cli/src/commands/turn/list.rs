//! `turn list`: the turns of a worker.

use clap::Args;

use super::one_turn::asked;
use crate::client::{ApiRequest, segment};
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::commands::targets::named_worker;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the turns of a worker: the last that have ended, the open one, those that wait
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent turn list --worker-id w_0123456789
  subagent turn list --worker-id w_0123456789 --ended 0 --json")]
pub(crate) struct TurnListArgs {
    /// The worker's id
    #[arg(long, value_name = "ID")]
    pub(crate) worker_id: String,
    /// How many turns that have ended, at most 1000
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) ended: u32,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &TurnListArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let worker = segment(named_worker(&args.worker_id, &workspace)?);
    let ask = ApiRequest::get(format!("/v1/workers/{worker}/turns?ended={}", args.ended));
    let data = asked(&ask, &workspace, context)?;
    let shown = text::rows(&data, &["turnId", "status", "position", "text"], "");
    Ok(CliOutcome::list("turn.listed", data, shown, "(no turns)"))
}
