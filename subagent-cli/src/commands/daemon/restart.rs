//! `daemon restart`: ends the daemon in the background and starts another one.

use clap::Args;
use subagent_protocol::Code;

use super::facts::{DaemonFlags, FACTS, facts};
use crate::client::{DaemonClient, block_on, running, shown};
use crate::context::CliContext;
use crate::daemon;
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// Replace the daemon by a new one; workers and their turns go on
///
/// A daemon that was started with `subagentd run` is left alone: restart it where it was started.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent daemon restart --json")]
pub(crate) struct DaemonRestartArgs {
    #[command(flatten)]
    pub(crate) flags: DaemonFlags,
}

pub(super) fn run(flags: &DaemonFlags, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(flags.cwd.cwd.as_deref())?;
    let before = block_on(running(&workspace.state_dir))?;
    if let Some(before) = &before {
        let (pid, mode) = (before.info.process.pid, before.info.mode.as_str());
        if mode != "background" {
            return Err(Failure::new(
                Code::DaemonAlreadyRunning,
                format!("the daemon (pid {pid}) runs in the {mode}; only a background one can be replaced"),
            )
            .with("pid", pid)
            .with("mode", mode)
            .recommend("restart it where it was started, or end it with `subagent daemon stop`"));
        }
        daemon::stop(false, None, workspace.state_dir.clone())?;
    }
    let now = block_on(async move { shown(&mut DaemonClient::starting(context, &workspace)).await })?;
    let mut data = facts(&now);
    data.insert("previousPid".to_owned(), before.map(|before| before.info.process.pid).into());
    let data = data.into();
    let lines = text::fields(&data, &[&["previousPid"], FACTS.as_slice()].concat());
    Ok(CliOutcome::report("daemon.restarted", data, lines))
}
