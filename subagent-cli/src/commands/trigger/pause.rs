//! `trigger pause`: keeps a trigger from firing.

use clap::Args;

use super::triggers::TRIGGERS;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Keep a trigger from firing
///
/// What it has started goes on. What waits for an earlier firing is left out.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger pause pushed")]
pub(crate) struct TriggerPauseArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &TriggerPauseArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(TRIGGERS.shown("trigger.paused", TRIGGERS.change(&args.one, "pause", context)?))
}
