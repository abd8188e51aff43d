//! `schedule show`: one schedule.

use clap::Args;

use super::schedules::SCHEDULES;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Show one schedule
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule show nightly")]
pub(crate) struct ScheduleShowArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &ScheduleShowArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(SCHEDULES.shown("schedule.shown", SCHEDULES.get(&args.one, "", context)?))
}
