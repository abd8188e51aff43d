//! `trigger resume`: lets a trigger fire again.

use clap::Args;

use super::triggers::TRIGGERS;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Let a paused trigger fire again, from now on
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger resume pushed")]
pub(crate) struct TriggerResumeArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &TriggerResumeArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(TRIGGERS.shown("trigger.resumed", TRIGGERS.change(&args.one, "resume", context)?))
}
