//! `PruneCopies`: deletes discarded copies of a folder that are old enough.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use subagent_protocol::Error;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::WorktreeResult;

use super::super::errors;
use super::super::work::step;
use super::{RETIRED, delete};

/// Lists the discarded copies in the folder of all copies, and deletes those from before a time.
pub(in super::super) fn prune(folder: &Path, before: Option<Timestamp>) -> Result<WorktreeResult, Error> {
    let (mut kept, mut deleted) = (Vec::new(), Vec::new());
    for name in folders(&folder.join(RETIRED))? {
        for copy in folders(&name)? {
            // A folder without a time as its name is not ours.
            let time = copy.file_name().and_then(|name| name.to_str()?.parse().ok()).map(Timestamp);
            let is_old = before.is_some_and(|before| time.is_some_and(|time| time < before));
            if is_old {
                step();
                delete(&copy)?;
            }
            if is_old { &mut deleted } else { &mut kept }.push(copy.display().to_string());
        }
        // Stays unless it is empty.
        let _ = fs::remove_dir(&name);
    }
    Ok(WorktreeResult::Pruned { kept, deleted })
}

/// Returns the folders in a folder, sorted. Follows no links.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error: io::Error| errors::file(folder, &error);
    match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
        Ok(meta) if !meta.is_dir() => return Ok(Vec::new()),
        Ok(_) => {}
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}
