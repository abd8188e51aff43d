//! The result of a landing, stored before its worktree is removed. A repetition after a kill
//! returns the same result, also if only the branch had been moved.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use subagent_protocol::Error;
use subagent_protocol::worktree::{Landed, Landing, Worktree};

use super::super::errors;
use super::super::registration::write_whole;
use super::super::scratch;
use super::super::work::step;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LandedRecord {
    /// The name of the worktree.
    #[serde(default)]
    name: String,
    /// A later landing has another id.
    landing: Landing,
    pub(super) landed: Landed,
}

impl LandedRecord {
    pub(super) fn of(worktree: &Worktree, landing: &Landing, landed: Landed) -> Self {
        Self { name: worktree.name.clone(), landing: landing.clone(), landed }
    }

    pub(super) fn store(&self, repository: &Path) -> Result<(), Error> {
        let path = path(repository, &self.name);
        let failed = |error: io::Error| errors::file(&path, &error);
        let text = serde_json::to_vec(self).map_err(|error| failed(error.into()))?;
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        step();
        write_whole(&path, &text).map_err(failed)
    }
}

fn path(repository: &Path, name: &str) -> PathBuf {
    repository.join(scratch::FOLDER).join("landed").join(name)
}

pub(super) fn read(worktree: &Worktree, landing: &Landing) -> Option<Landed> {
    let text = fs::read(path(&worktree.repository, &worktree.name)).ok()?;
    let record: LandedRecord = serde_json::from_slice(&text).ok()?;
    (record.landing == *landing).then_some(record.landed)
}

pub(super) fn write(worktree: &Worktree, landing: &Landing, landed: &Landed) -> Result<(), Error> {
    LandedRecord::of(worktree, landing, landed.clone()).store(&worktree.repository)
}

/// Removes the landing of an earlier worktree with this name.
pub(in super::super) fn forget(worktree: &Worktree) {
    // A remaining record has another id than any later landing.
    let _ = fs::remove_file(path(&worktree.repository, &worktree.name));
}
