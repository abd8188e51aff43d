//! Makes sure that a daemon works on a state dir of its own. In a copy it renews the id and makes every file the copy's
//! own, before any lock is taken: locks, pids and sockets that were copied belong to the original.
//!
//! Guarded by a lock on the folder itself, the only thing of a state dir that cannot be a hard link.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use subagent_config::proc;
use subagent_config::state_identity::{Likeness, STATE_ID, StateIdentity, is_about};
use subagent_protocol::api::StateFolder;
use subagent_protocol::{Code, Error, Result};

use super::error;
use super::files::{DAEMON_INFO, DAEMON_LOCK, STATUS_FILE, announced, replace_unless};
use super::separate::{remove, separate};

/// How long another process may take to make the folder its own; the files of a large one are copied.
const PATIENCE: Duration = Duration::from_secs(25);

/// Bytes of an id.
const ID_BYTES: usize = 16;

/// Gives the folder that a state dir is. In a copy that no daemon has served yet, separates it from its original.
///
/// # Errors
/// `DAEMON_START_FAILED` when the folder cannot be looked at, or cannot be made a state dir of its own.
pub(super) fn settle(state_dir: &Path) -> Result<StateFolder> {
    let failed = |cause| error::at_path("it cannot tell whether this is a copy:", state_dir, &cause);
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

/// The identity in the folder, if it is this folder's.
fn own_identity(state_dir: &Path, folder: &File, boot_id: &str) -> io::Result<Option<StateIdentity>> {
    let meta = folder.metadata()?;
    let found = StateIdentity::read(state_dir);
    Ok(found.filter(|identity| identity.likeness(&meta, boot_id) == Likeness::Same))
}

fn renew(state_dir: &Path, folder: &File, boot_id: &str) -> io::Result<StateFolder> {
    let meta = folder.metadata()?;
    let numbers = |id: String| StateFolder { device: meta.dev(), inode: meta.ino(), id };
    let found = StateIdentity::read(state_dir);
    let original = announced(state_dir).filter(|info| !is_about(info, &meta));
    let copied_from: Option<PathBuf> = original.map(|info| info.state_dir);
    let likeness = found.as_ref().map(|identity| identity.likeness(&meta, boot_id));
    let identity = match (found, likeness) {
        (Some(old), Some(Likeness::Same | Likeness::Renumbered)) => {
            StateIdentity { folder: numbers(old.folder.id), boot_id: boot_id.to_owned(), ..old }
        }
        (None, _) if copied_from.is_none() => StateIdentity {
            folder: numbers(random_id()?),
            boot_id: boot_id.to_owned(),
            copy_of: None,
            copied_from: None,
        },
        // Its daemon lives and its files are nobody else's: only the numbers look different from here.
        (Some(old), _) if is_served(state_dir)? => return Ok(numbers(old.folder.id)),
        (old, _) => {
            let id = random_id()?;
            separate(state_dir)?;
            // What these say is about the original's processes.
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
    // After everything else: until then the next daemon begins anew.
    let content = serde_json::to_vec_pretty(&identity)?;
    replace_unless(state_dir, STATE_ID, &content, || subagent_failpoint::check("state_id.before_rename"))?;
    subagent_failpoint::hit("state_id.after_rename");
    Ok(identity.folder)
}

/// Whether a daemon holds the lock of this folder, and not through a hard link of another one's.
fn is_served(state_dir: &Path) -> io::Result<bool> {
    match File::open(state_dir.join(DAEMON_LOCK)) {
        Ok(file) => Ok(file.metadata()?.nlink() == 1 && file.try_lock_shared().is_err()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks the folder; `None` if another process holds it for too long. The lock goes with the file.
fn lock(folder: &File) -> io::Result<Option<File>> {
    let folder = folder.try_clone()?;
    let (taken, wait) = mpsc::sync_channel(0);
    thread::Builder::new().name("lock".to_owned()).spawn(move || {
        // Nobody may wait any more; then it is let go here.
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
