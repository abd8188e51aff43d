//! `schedule log`: what became of the newest times.

use clap::Args;

use super::schedules::SCHEDULES;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Show what became of the newest times of a schedule, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule log nightly")]
pub(crate) struct ScheduleLogArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &ScheduleLogArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(SCHEDULES.logged("schedule.log", SCHEDULES.get(&args.one, "log", context)?))
}
