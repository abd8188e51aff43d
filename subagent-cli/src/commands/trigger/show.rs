//! `trigger show`: one trigger.

use clap::Args;

use super::triggers::TRIGGERS;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Show one trigger
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger show pushed")]
pub(crate) struct TriggerShowArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &TriggerShowArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(TRIGGERS.shown("trigger.shown", TRIGGERS.get(&args.one, "", context)?))
}
