//! `trigger log`: what became of the newest occurrences.

use clap::Args;

use super::triggers::TRIGGERS;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Show what became of the newest occurrences, newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger log pushed")]
pub(crate) struct TriggerLogArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &TriggerLogArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(TRIGGERS.logged("trigger.log", TRIGGERS.get(&args.one, "log", context)?))
}
