//! The two locks of a worker's directory. The holder of `lock` may read the journal to its end and
//! declare the runtime dead. The holder of `guard.lock` knows that no process of the agent is left.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::libc::O_NOFOLLOW;
use subagent_config::regular;
use subagent_protocol::{Code, Error, Result};

use crate::descriptors;

/// The file that the runtime locks while it lives.
pub(crate) const RUNTIME: &str = "lock";
/// The file that the guard locks while it lives.
pub(crate) const GUARD: &str = "guard.lock";

/// Time that a dead runtime's lock may still be held. Its descriptors are closed before it is
/// reaped.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Creates the directory of a worker.
pub(crate) fn make_directory(directory: &Path) -> Result<()> {
    let checked = subagent_failpoint::check("worker_folder.before_create");
    match checked.and_then(|()| DirBuilder::new().recursive(true).mode(0o700).create(directory)) {
        Ok(()) => Ok(()),
        Err(error) => Err(failed(directory, &error)),
    }
}

/// Takes a lock if it is free.
///
/// # Errors
/// `STORAGE_ERROR` if the file cannot be opened.
pub(crate) fn try_lock(directory: &Path, name: &str) -> Result<Option<File>> {
    let path = directory.join(name);
    match name {
        GUARD => subagent_failpoint::check("guard_lock.before_take"),
        _ => subagent_failpoint::check("worker_lock.before_take"),
    }
    .map_err(|error| failed(&path, &error))?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = open(&path, &mut options).map_err(|error| failed(&path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(&path, &error)),
    }
}

/// Takes a lock, retrying until `patience` has passed.
///
/// The kernel reports a free lock only to a thread that blocks on it without a limit, so this polls
/// at growing intervals. It is needed only after a process died.
///
/// # Errors
/// As [`try_lock`].
pub(crate) async fn lock_within(directory: &Path, name: &str, patience: Duration) -> Result<Option<File>> {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(file) = try_lock(directory, name)? {
            return Ok(Some(file));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Checks that an existing lock file can be opened. Takes and creates nothing.
///
/// # Errors
/// `STORAGE_ERROR` if the path is something other than a file.
pub(crate) fn check(directory: &Path, name: &str) -> Result<()> {
    let path = directory.join(name);
    match open(&path, OpenOptions::new().read(true)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path, &error)),
        _ => Ok(()),
    }
}

/// Returns whether a runtime or a guard holds its lock in this directory. A lock that cannot be
/// opened counts as held. Creates nothing.
pub(crate) fn are_held(directory: &Path) -> bool {
    let held = |name| match open(&directory.join(name), OpenOptions::new().read(true).write(true)) {
        Ok(file) => file.try_lock().is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    held(RUNTIME) || held(GUARD)
}

/// Refuses symbolic links and everything except regular files.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    regular::open(path, options, O_NOFOLLOW)
}

/// Returns whether the directory of a worker exists.
pub(crate) fn directory_exists(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|meta| meta.is_dir())
}

fn failed(path: &Path, error: &io::Error) -> Error {
    if descriptors::is_reached(error) {
        return descriptors::too_many(&format!("cannot open {}", path.display()));
    }
    Error::new(Code::StorageError, format!("cannot use {}: {error}", path.display()))
        .with("path", path.display().to_string())
        .recommend(
            "check the file and its owner with `ls -ld`, and run `subagent doctor`; the daemon tries again",
        )
        .or_storage_full(error)
}
