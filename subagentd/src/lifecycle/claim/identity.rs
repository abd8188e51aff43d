//! Ensures that a daemon uses its own state dir. A copy gets a new id and its own files before any
//! lock is taken, because copied locks, pids and sockets belong to the original. A lock on the
//! folder guards this: a folder has no hard links.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use subagent_config::proc;
use subagent_config::state_identity::{FolderMatch, STATE_ID, StateIdentity, is_about};
use subagent_protocol::api::StateFolder;
use subagent_protocol::{Code, Error, Result};

use super::files::{DAEMON_INFO, DAEMON_LOCK, STATUS_FILE, announced, replace_unless};
use super::separate::{remove, separate};
use crate::lifecycle::error;

/// Maximum wait for another process that separates a copy. Copying a large state dir takes time.
const PATIENCE: Duration = Duration::from_secs(25);

/// Length of a state id in bytes.
const ID_BYTES: usize = 16;

/// Returns the identity of the state dir. Separates a copy that no daemon has served yet.
///
/// # Errors
/// `DAEMON_START_FAILED` when the folder cannot be read or separated.
pub(in crate::lifecycle) fn settle(state_dir: &Path) -> Result<StateFolder> {
    let failed = |cause| error::at_path("it cannot determine whether this is a copy:", state_dir, &cause);
    let folder = File::open(state_dir).map_err(failed)?;
    let boot_id = proc::boot_id().map_err(failed)?;
    let own = || own_identity(state_dir, &folder, &boot_id);
    if let Some(identity) = own().map_err(failed)? {
        return Ok(identity.folder);
    }
    let _held = lock(&folder).map_err(failed)?.ok_or_else(|| busy(state_dir))?;
    if let Some(identity) = own().map_err(failed)? {
        return Ok(identity.folder);
    }
    renew(state_dir, &folder, &boot_id).map_err(|cause| {
        let error = error::at_path("it cannot make the copy a state dir of its own:", state_dir, &cause);
        if cause.kind() == io::ErrorKind::ResourceBusy { error.retryable() } else { error }
    })
}

/// Reads the stored identity, if it belongs to this folder.
fn own_identity(state_dir: &Path, folder: &File, boot_id: &str) -> io::Result<Option<StateIdentity>> {
    let meta = folder.metadata()?;
    let found = StateIdentity::read(state_dir);
    Ok(found.filter(|identity| identity.likeness(&meta, boot_id) == FolderMatch::Same))
}

fn renew(state_dir: &Path, folder: &File, boot_id: &str) -> io::Result<StateFolder> {
    let meta = folder.metadata()?;
    let numbers = |id: String| StateFolder { device: meta.dev(), inode: meta.ino(), id };
    let found = StateIdentity::read(state_dir);
    let original = announced(state_dir).filter(|info| !is_about(info, &meta));
    let copied_from: Option<PathBuf> = original.map(|info| info.state_dir);
    let likeness = found.as_ref().map(|identity| identity.likeness(&meta, boot_id));
    let identity = match (found, likeness) {
        (Some(old), Some(FolderMatch::Same | FolderMatch::Renumbered)) => {
            StateIdentity { folder: numbers(old.folder.id), boot_id: boot_id.to_owned(), ..old }
        }
        (None, _) if copied_from.is_none() => StateIdentity {
            folder: numbers(random_id()?),
            boot_id: boot_id.to_owned(),
            copy_of: None,
            copied_from: None,
        },
        // A daemon serves this folder and its files are not shared: only the device numbers differ
        // for this process.
        (Some(old), _) if is_served(state_dir)? => return Ok(numbers(old.folder.id)),
        (old, _) => {
            let id = random_id()?;
            separate(state_dir)?;
            // These files describe processes of the original.
            for name in [DAEMON_INFO, STATUS_FILE, DAEMON_LOCK] {
                remove(&state_dir.join(name))?;
            }
            StateIdentity {
                folder: numbers(id),
                boot_id: boot_id.to_owned(),
                copy_of: Some(old.map(|old| old.folder.id).unwrap_or_default()),
                copied_from,
            }
        }
    };
    // Written last: after a crash before this, the next daemon starts over.
    let content = serde_json::to_vec_pretty(&identity)?;
    replace_unless(state_dir, STATE_ID, &content, || subagent_failpoint::check("state_id.before_rename"))?;
    subagent_failpoint::hit("state_id.after_rename");
    Ok(identity.folder)
}

/// Whether a daemon holds the lock of this folder, and the lock file is not a hard link to the
/// original's.
fn is_served(state_dir: &Path) -> io::Result<bool> {
    match File::open(state_dir.join(DAEMON_LOCK)) {
        Ok(file) => Ok(file.metadata()?.nlink() == 1 && file.try_lock_shared().is_err()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks the folder; `None` on timeout. The lock lives as long as the returned file.
fn lock(folder: &File) -> io::Result<Option<File>> {
    let folder = folder.try_clone()?;
    let (taken, wait) = mpsc::sync_channel(0);
    thread::Builder::new().name("lock".to_owned()).spawn(move || {
        // After a timeout no receiver exists. The lock is then released here.
        let _ = taken.send(folder.lock().map(|()| folder));
    })?;
    wait.recv_timeout(PATIENCE).ok().transpose()
}

fn busy(state_dir: &Path) -> Error {
    let message = format!(
        "the daemon cannot start: another process has held a lock on {} for {} s",
        state_dir.display(),
        PATIENCE.as_secs()
    );
    Error::new(Code::DaemonStartFailed, message)
        .with("path", state_dir.display().to_string())
        .retryable()
        .recommend("Wait for its end and try again; `lslocks` names it.")
}

fn random_id() -> io::Result<String> {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests;
