//! `daemon start`: makes sure that a daemon runs.

use super::{FACTS, facts};
use crate::args::daemon::DaemonFlags;
use crate::client::{Client, block_on, running, shown};
use crate::context::Context;
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(flags: &DaemonFlags, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(flags.cwd.cwd.as_deref())?;
    let (before, now) = block_on(async move {
        if let Some(before) = running(&workspace.state_dir).await? {
            return Ok((true, before));
        }
        Ok((false, shown(&mut Client::starting(context, &workspace)).await?))
    })?;
    let mut data = facts(&now);
    data.insert("alreadyRunning".to_owned(), before.into());
    let data = data.into();
    let lines = text::fields(&data, &[&["alreadyRunning"], FACTS.as_slice()].concat());
    Ok(Outcome::report("daemon.started", data, lines))
}
