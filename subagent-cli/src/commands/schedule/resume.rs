//! `schedule resume`: lets a schedule fire again.

use clap::Args;

use super::schedules::SCHEDULES;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Let a paused schedule fire again, from now on
///
/// Times at which it was paused do not count as missed.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule resume nightly")]
pub(crate) struct ScheduleResumeArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &ScheduleResumeArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(SCHEDULES.shown("schedule.resumed", SCHEDULES.change(&args.one, "resume", context)?))
}
