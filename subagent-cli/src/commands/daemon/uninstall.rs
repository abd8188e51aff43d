//! `daemon uninstall`: removes the systemd user unit of this state dir. Its daemon ends, its workers go on.

use std::fs;
use std::io;
use std::path::Path;

use clap::Args;
use serde_json::json;
use subagentd::lifecycle::refuse_below_guard;

use super::facts::DaemonFlags;
use super::install::{report, unwritable};
use super::systemctl::{in_words, order, reload};
use super::unit::SystemdUnit;
use crate::client::block_on;
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::CliOutcome;

/// Remove the unit that `install` made; the daemon ends, its workers go on
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  subagent daemon uninstall --json")]
pub(crate) struct DaemonUninstallArgs {
    #[command(flatten)]
    pub(crate) flags: DaemonFlags,
}

pub(super) fn run(flags: &DaemonFlags, context: &CliContext) -> Result<CliOutcome> {
    refuse_below_guard("daemon uninstall")?;
    let state_dir = context.workspace(flags.cwd.cwd.as_deref())?.state_dir;
    let unit = SystemdUnit::of(&state_dir, &context.env)?;
    let was_there = unit.path.symlink_metadata().is_ok();
    let (disabled, missing) = block_on(async {
        if !was_there {
            return Ok((false, None));
        }
        // The manager may never have read it.
        let reached = reload(&context.env).await;
        let disabled = reached.is_ok();
        if disabled {
            order(&["disable", "--now"], &unit, &context.env).await?;
        }
        for path in [&unit.link(), &unit.path] {
            remove(path).map_err(|error| unwritable(path, &error))?;
        }
        let missing = match reached {
            // It has stopped; that its file is gone will be noticed at the latest at the next login.
            Ok(()) => reload(&context.env).await.err(),
            Err(why) => Some(why),
        };
        Ok((disabled, missing))
    })?;
    let left = match &missing {
        None => vec![],
        Some(_) if disabled => vec![in_words(&["daemon-reload"])],
        Some(_) => vec![in_words(&["stop", &unit.name]), in_words(&["daemon-reload"])],
    };
    let data = json!({
        "unit": unit.name, "unitPath": path_value(&unit.path), "stateDir": path_value(&state_dir), "removed": was_there,
        "disabled": disabled,
    });
    Ok(report("daemon.uninstalled", data, &["removed", "disabled"], missing, left))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
