//! `daemon start`: makes sure that a daemon runs.

use clap::Args;

use super::facts::{DaemonFlags, FACTS, facts};
use crate::client::{DaemonClient, block_on, running, shown};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// Start the daemon in the background, unless it runs already
///
/// Commands start it by themselves; this is for seeing that it works. It also starts it where
/// SUBAGENT_NO_AUTOSTART is set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent daemon start
  subagent daemon start --cwd ~/src/thing --json")]
pub(crate) struct DaemonStartArgs {
    #[command(flatten)]
    pub(crate) flags: DaemonFlags,
}

pub(super) fn run(flags: &DaemonFlags, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(flags.cwd.cwd.as_deref())?;
    let (before, now) = block_on(async move {
        if let Some(before) = running(&workspace.state_dir).await? {
            return Ok((true, before));
        }
        Ok((false, shown(&mut DaemonClient::starting(context, &workspace)).await?))
    })?;
    let mut data = facts(&now);
    data.insert("alreadyRunning".to_owned(), before.into());
    let data = data.into();
    let lines = text::fields(&data, &[&["alreadyRunning"], FACTS.as_slice()].concat());
    Ok(CliOutcome::report("daemon.started", data, lines))
}
