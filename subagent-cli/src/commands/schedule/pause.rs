//! `schedule pause`: keeps a schedule from firing.

use clap::Args;

use super::schedules::SCHEDULES;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Keep a schedule from firing
///
/// What it has started goes on. What waits for an earlier firing is left out.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent schedule pause nightly")]
pub(crate) struct SchedulePauseArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &SchedulePauseArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(SCHEDULES.shown("schedule.paused", SCHEDULES.change(&args.one, "pause", context)?))
}
