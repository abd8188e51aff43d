//! `trigger fire`: fires a trigger with a payload.

use std::io::IsTerminal as _;
use std::path::Path;

use clap::Args;
use subagent_protocol::api::FireTrigger;

use super::triggers::TRIGGERS;
use crate::commands::firing::flags::OneStarter;
use crate::context::CliContext;
use crate::failure::Result;
use crate::input::read_text;
use crate::output::CliOutcome;

/// Fire a trigger, with the payload that stdin holds
///
/// A payload is text of at most 64 KiB. A trigger that is paused does not fire.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  git log --oneline -5 | subagent trigger fire pushed
  subagent trigger fire pushed --occurrence \"$CI_JOB_ID\" < job.json")]
pub(crate) struct TriggerFireArgs {
    #[command(flatten)]
    pub(crate) one: OneStarter,
    /// Identifier of the occurrence: the trigger fires once for each
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub(crate) occurrence: Option<String>,
}

pub(super) fn run(args: TriggerFireArgs, context: &CliContext) -> Result<CliOutcome> {
    let payload = match std::io::stdin().is_terminal() {
        true => None,
        false => Some(read_text(Path::new("-"))?),
    };
    // A daemon refuses a large body before it has read all of it, and the client may miss the answer.
    payload.as_deref().map_or(Ok(()), subagentd::check_payload)?;
    let request = FireTrigger { payload, occurrence: args.occurrence };
    Ok(TRIGGERS.fired("trigger.fired", TRIGGERS.send(&args.one, "fire", &request, context)?))
}
