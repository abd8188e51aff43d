//! `schedule run`: fires a schedule once.

use clap::Args;

use super::schedules::SCHEDULES;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Fire a schedule once, now
///
/// Its rule for overlaps holds. A schedule that is paused fires as well, and stays paused.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule run nightly")]
pub(crate) struct ScheduleRunArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &ScheduleRunArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(SCHEDULES.fired("schedule.fired", SCHEDULES.change(&args.one, "run", context)?))
}
