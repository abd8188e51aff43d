//! `trigger rm`: removes a trigger.

use clap::Args;

use super::triggers::TRIGGERS;
use crate::commands::firing;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Remove a trigger, and the log of its firings
///
/// What it has started goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger rm pushed")]
pub(crate) struct TriggerRmArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &TriggerRmArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(firing::removed("trigger.removed", TRIGGERS.change(&args.one, "remove", context)?))
}
