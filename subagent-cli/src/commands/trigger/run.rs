//! `trigger run`: fires a trigger once.

use clap::Args;

use super::triggers::TRIGGERS;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// Fire a trigger once, now, without a payload
///
/// Its rule for overlaps holds. A trigger that is paused fires as well, and stays paused.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent trigger run pushed")]
pub(crate) struct TriggerRunArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
}

pub(super) fn run(args: &TriggerRunArgs, context: &CliContext) -> Result<CliOutcome> {
    Ok(TRIGGERS.fired("trigger.fired", TRIGGERS.change(&args.one, "run", context)?))
}
