//! The result of a landing, stored before its worktree is removed. A repetition after a kill
//! returns the same result.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use subagent_protocol::Error;
use subagent_protocol::worktree::{Landed, Landing, Worktree};

use super::super::errors;
use super::super::registration::write_whole;
use super::super::scratch;
use super::super::work::step;

#[derive(Debug, Serialize, Deserialize)]
struct LandedRecord {
    /// A later landing has another id.
    landing: Landing,
    landed: Landed,
}

fn path(worktree: &Worktree) -> PathBuf {
    worktree.repository.join(scratch::FOLDER).join("landed").join(&worktree.name)
}

pub(super) fn read(worktree: &Worktree, landing: &Landing) -> Option<Landed> {
    let text = fs::read(path(worktree)).ok()?;
    let record: LandedRecord = serde_json::from_slice(&text).ok()?;
    (record.landing == *landing).then_some(record.landed)
}

pub(super) fn write(worktree: &Worktree, landing: &Landing, landed: &Landed) -> Result<(), Error> {
    let path = path(worktree);
    let failed = |error: io::Error| errors::file(&path, &error);
    let text = serde_json::to_vec(&LandedRecord { landing: landing.clone(), landed: landed.clone() })
        .map_err(|error| failed(error.into()))?;
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    step();
    write_whole(&path, &text).map_err(failed)
}

/// Removes the landing of an earlier worktree with this name.
pub(in super::super) fn forget(worktree: &Worktree) {
    // A remaining record has another id than any later landing.
    let _ = fs::remove_file(path(worktree));
}
