//! `daemon start`: makes sure that a daemon runs.

use super::{FACTS, facts};
use crate::args::daemon::DaemonFlags;
use crate::client::{DaemonClient, block_on, running, shown};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(crate) fn run(flags: &DaemonFlags, context: &CliContext) -> Result<CliOutcome> {
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
