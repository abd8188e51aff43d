//! `schedule list`: schedules with their next time.

use clap::Args;

use super::schedules::SCHEDULES;
use crate::command_line::flags::{CwdFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// List schedules with their next time, and who will be there to fire them
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule list")]
pub(crate) struct ScheduleListArgs {
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ScheduleListArgs, context: &CliContext) -> Result<CliOutcome> {
    SCHEDULES.list(args.cwd.cwd.as_deref(), ("schedule.listed", "(no schedules)"), context)
}
