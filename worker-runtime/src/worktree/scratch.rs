//! A folder in `.git/subagent` for one operation's files, such as a temporary index.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use subagent_protocol::Error;

use super::errors;

/// The name of our folder in a repository.
pub(super) const FOLDER: &str = "subagent";

/// A folder that is removed on drop. The next operation removes the remains of a killed one.
pub(super) struct Scratch {
    folder: PathBuf,
    /// Held while the folder is used.
    _lock: File,
}

impl Scratch {
    pub(super) fn new(repository: &Path) -> Result<Self, Error> {
        let all = repository.join(FOLDER);
        let failed = |error: std::io::Error| errors::file(&all, &error);
        fs::create_dir_all(&all).map_err(failed)?;
        sweep(&all);
        // Random, because a process may have several.
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
        // A newer one may have been created just now and not be locked yet.
        let is_old = age.is_some_and(|age| age.as_secs() > 60);
        if is_old && rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
