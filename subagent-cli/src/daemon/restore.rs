//! `subagentd restore`: executes `subagent restore`.

use std::path::PathBuf;

use serde_json::{Value, json};
use subagent_protocol::api::ControllerHandle;
use subagentd::lifecycle::{self, RestoreOptions, Restored};

use super::args::SubagentdRestoreArgs;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

pub(super) fn restore(
    args: SubagentdRestoreArgs,
    state_dir: PathBuf,
    context: &CliContext,
) -> Result<CliOutcome> {
    let handle: Option<ControllerHandle> = context.handle();
    let options = RestoreOptions {
        state_dir,
        environment: context.env.clone(),
        file: context.env.cwd.join(args.file),
        force: args.force,
        handle,
    };
    let restored = lifecycle::restore(&options).map_err(Failure::from)?;
    Ok(CliOutcome::report("state.restored", data(&restored), lines(&restored)))
}

fn data(restored: &Restored) -> Value {
    json!({
        "path": path_value(&restored.path),
        "stateDbPath": path_value(&restored.state_db_path),
        "replacedPath": restored.replaced_path.as_deref().map(path_value),
        "schema": restored.schema,
        "continued": restored.continued,
        "releasedOwners": restored.released_owners,
        "liveWorkers": restored.live_workers,
        "endedWorkers": restored.ended_workers,
        "setAside": restored.set_aside,
        "setAsidePath": restored.set_aside_path.as_deref().map(path_value),
        "daemon": restored.daemon,
    })
}

/// Returns the text for the user.
fn lines(restored: &Restored) -> String {
    let mut lines = vec![format!("restored {}", restored.path.display())];
    if let Some(replaced) = &restored.replaced_path {
        lines.push(format!("what was there before is kept in {}", replaced.display()));
    }
    if !restored.continued {
        lines.push(
            "it could not be read: numbers of events, turns and owners jump, so that none is given twice"
                .to_owned(),
        );
    }
    if !restored.ended_workers.is_empty() {
        lines.push(format!("ended workers that the backup does not know: {}", join(&restored.ended_workers)));
    }
    if let Some(aside) = &restored.set_aside_path {
        let workers = join(&restored.set_aside);
        lines.push(format!(
            "files of workers that the backup does not know are in {}: {workers}",
            aside.display()
        ));
    }
    if !restored.live_workers.is_empty() {
        lines.push(format!("workers that go on: {}", join(&restored.live_workers)));
    }
    lines.push(format!(
        "every ownership has ended ({}): `subagent controller init` gives a new one",
        restored.released_owners
    ));
    match &restored.daemon {
        Some(daemon) if daemon.mode == "foreground" => lines.push(format!(
            "the daemon in the foreground (pid {}) has ended: start it again where it was started",
            daemon.pid
        )),
        _ => lines.push("the next command starts a daemon".to_owned()),
    }
    lines.join("\n")
}

fn join(workers: &[impl std::fmt::Display]) -> String {
    workers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
