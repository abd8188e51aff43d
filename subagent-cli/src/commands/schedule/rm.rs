//! `schedule rm`: removes a schedule.

use clap::Args;

use super::schedules::SCHEDULES;
use crate::commands::firing;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Remove a schedule, and the log of its firings
///
/// What it has started goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule rm nightly")]
pub(crate) struct ScheduleRmArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &ScheduleRmArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(firing::removed("schedule.removed", SCHEDULES.change(&args.one, "remove", context)?))
}
