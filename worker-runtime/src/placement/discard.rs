//! `subagent-runtime discard WORKER [ROOT]`: removes the files of a removed worker on another machine
//! or on a shared file system. Must not remove those of a live runtime or guard.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;

use super::folder::{PlacedFolder, WorkerLock};
use super::there;

/// Removes the folder of a worker.
///
/// # Errors
///
/// If one of its processes still runs, or a file cannot be removed.
pub(crate) fn run(worker: Option<OsString>, root: Option<OsString>) -> io::Result<()> {
    let worker = super::worker_id(worker)?;
    let root = there::root(root.map(PathBuf::from))?;
    if root.join(worker.as_str()).exists() {
        let folder = PlacedFolder::create(&root, &worker)?;
        let locks = (folder.try_lock(WorkerLock::Runtime)?, folder.try_lock(WorkerLock::Guard)?);
        let (Some(_runtime), Some(_guard)) = locks else {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "processes of this worker still run"));
        };
        fs::remove_dir_all(folder.path())?;
    }
    Ok(())
}
