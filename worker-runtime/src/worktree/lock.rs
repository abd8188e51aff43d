//! Locks between our own operations. The lock file names the running operation, so that the next
//! one detects a kill.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use nix::libc;
use rustix::fs::FlockOperation;
use subagent_protocol::Error;

use super::errors;

/// A lock that is held.
pub(super) struct Lock {
    file: File,
    /// Start of the last operation, if it was killed.
    pub(super) killed: Option<SystemTime>,
}

impl Lock {
    /// Takes the lock. Creates its file and folder.
    pub(super) fn take(path: &Path, operation: &str, timeout: Duration) -> Result<Self, Error> {
        let failed = |error: std::io::Error| errors::file(path, &error);
        let until = Instant::now() + timeout;
        loop {
            path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file =
                std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW).open(path);
            let mut file =
                lock(file.map_err(failed)?, until).map_err(failed)?.ok_or_else(|| errors::locked(path))?;
            // Its last holder may have deleted it.
            let is_same = |meta: fs::Metadata| Some(meta.ino()) == file.metadata().ok().map(|own| own.ino());
            if !fs::symlink_metadata(path).is_ok_and(is_same) {
                continue;
            }
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(failed)?;
            let killed = (!text.is_empty()).then(|| began(&text));
            file.set_len(0).map_err(failed)?;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let began = killed.unwrap_or(SystemTime::UNIX_EPOCH + now);
            let began = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).map_err(|error| failed(error.into()))?;
            file.write_all(format!("{} {operation}\n", began.as_millis()).as_bytes()).map_err(failed)?;
            return Ok(Self { file, killed });
        }
    }

    /// Returns a descriptor for child processes, which then hold the lock too.
    pub(super) fn inherited(&self) -> std::io::Result<OwnedFd> {
        self.file.try_clone().map(OwnedFd::from)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Only a killed operation leaves its text.
        let _ = self.file.set_len(0);
    }
}

/// Waits in a thread: the system call has no deadline.
fn lock(file: File, until: Instant) -> std::io::Result<Option<File>> {
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => {}
        Err(error) => return Err(error.into()),
    }
    let (sender, locked) = mpsc::channel();
    std::thread::spawn(move || {
        let result = loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        // A lock that arrives too late is dropped with the message.
        let _ = sender.send(result.map(|()| file));
    });
    match locked.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(result) => Ok(Some(result?)),
        Err(_) => Ok(None),
    }
}

fn began(text: &str) -> SystemTime {
    let millis = text.split(' ').next().and_then(|millis| millis.parse().ok()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}
