//! `trigger list`: triggers with their newest firing.

use clap::Args;

use super::triggers::TRIGGERS;
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// List triggers with their newest firing
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger list")]
pub(crate) struct TriggerListArgs {
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &TriggerListArgs, context: &CliContext) -> Result<CliOutcome> {
    TRIGGERS.list(args.cwd.cwd.as_deref(), ("trigger.listed", "(no triggers)"), context)
}
