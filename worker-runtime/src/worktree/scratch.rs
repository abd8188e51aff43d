//! A folder in `.git/subagent` for the files of one operation, such as an index of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use subagent_protocol::Error;

use super::errors;

/// The folder of ours in a repository.
pub(super) const FOLDER: &str = "subagent";

/// A folder that goes with this value. One that a killed operation left goes with the next one.
pub(super) struct Scratch {
    folder: PathBuf,
    /// Held as long as the folder is used.
    _lock: File,
}

impl Scratch {
    pub(super) fn new(repository: &Path) -> Result<Self, Error> {
        let all = repository.join(FOLDER);
        let failed = |error: std::io::Error| errors::file(&all, &error);
        fs::create_dir_all(&all).map_err(failed)?;
        sweep(&all);
        // A number of the system: a process may have several.
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(|error| failed(std::io::Error::other(error)))?;
        let folder = all.join(format!("scratch.{:016x}", u64::from_ne_bytes(random)));
        fs::create_dir(&folder).map_err(failed)?;
        let lock = File::open(&folder).map_err(failed)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed(error.into()))?;
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn sweep(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(b"scratch.") {
            continue;
        }
        let Ok(lock) = File::open(entry.path()) else { continue };
        let age = lock.metadata().and_then(|meta| meta.modified()).ok().and_then(|made| made.elapsed().ok());
        // A younger one may be made just now, and not be locked so far.
        let is_old = age.is_some_and(|age| age.as_secs() > 60);
        if is_old && rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
