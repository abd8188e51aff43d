//! After `subagentd stop --workers` every worker is stopped, no lock is held, and no socket or
//! environment file is left.

use std::fs::{self, File};

use nix::fcntl::{Flock, FlockArg};
use rusqlite::Connection;

use super::evidence::Evidence;
use super::rows::none_of;

pub(super) fn check(evidence: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    if !evidence.ended {
        return Ok(Vec::new());
    }
    let mut violations = none_of(
        database,
        "a worker is not stopped",
        "SELECT worker_id, state, desired FROM workers WHERE state <> 'stopped' AND state <> 'error'",
    )?;
    if evidence.state_dir.join("daemon.json").exists() {
        violations.push("daemon.json is still there".to_owned());
    }
    let mut locks = vec![evidence.state_dir.join("daemon.lock"), evidence.state_dir.join("start.lock")];
    let folders = ["runtimes", "placed"].map(|name| evidence.state_dir.join(name));
    for entry in folders.into_iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten()) {
        locks.extend(["lock", "guard.lock"].map(|name| entry.path().join(name)));
    }
    for path in locks {
        if let Ok(file) = File::open(&path)
            && let Err((_, error)) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        {
            violations.push(format!("{} is still held: {error}", path.display()));
        }
    }
    for folder in &evidence.socket_folders {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            violations.push(format!("{} is left", entry.path().display()));
        }
    }
    Ok(violations)
}
