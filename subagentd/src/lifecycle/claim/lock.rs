//! Lock files: the kernel releases a lock when its holder dies. A lock file is never removed by us.
//! If another program removes it, two processes could lock different files, so a lock counts only
//! while the name leads to the locked file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc::O_NOFOLLOW;
use serde::{Deserialize, Serialize};
use subagent_config::{proc, regular};
use subagent_protocol::process::ProcessId;

/// Maximum attempts to take a lock whose file is being replaced.
const MAX_TRIES: usize = 100;

/// Time between two checks of the condition to give up.
const LOOK: Duration = Duration::from_millis(50);

/// Longer notes are not ours.
const MAX_NOTE_BYTES: usize = 4096;

/// A lock that this process holds.
#[derive(Debug)]
pub(in crate::lifecycle) struct FileLock {
    file: File,
    path: PathBuf,
}

/// The holder's note in `daemon.lock`, or a restore's in `start.lock`, for messages to people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::lifecycle) struct Note {
    /// Process of the holder.
    pub(in crate::lifecycle) process: ProcessId,
    /// `foreground`, `background`, `once` or `restore`.
    pub(in crate::lifecycle) mode: String,
}

impl FileLock {
    /// Takes the lock if it is free; `None` if another process holds it.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub(in crate::lifecycle) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        if subagent_failpoint::sabotaged("daemon.no_lock") {
            return take(path, |_| Ok(true));
        }
        take(path, |file| match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        })
    }

    /// Takes the lock as soon as it is free; `None` after `time`.
    ///
    /// The kernel wakes a waiting thread; it does not poll. A thread still waiting at the deadline
    /// ends with the process, or releases the lock as soon as it gets it.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub(in crate::lifecycle) fn take_within(path: &Path, time: Duration) -> io::Result<Option<Self>> {
        Self::take_unless(path, time, || false)
    }

    /// Same as [`FileLock::take_within`]; `None` also when `in_vain` returns true, which is checked
    /// periodically.
    ///
    /// # Errors
    /// The file cannot be opened or locked.
    pub(in crate::lifecycle) fn take_unless(
        path: &Path,
        time: Duration,
        in_vain: impl Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        if let Some(lock) = Self::try_take(path)? {
            return Ok(Some(lock));
        }
        let deadline = Instant::now() + time;
        let (taken, wait) = mpsc::sync_channel(0);
        let path = path.to_owned();
        thread::Builder::new().name("lock".to_owned()).spawn(move || {
            // After a timeout no receiver exists. The lock is then dropped here.
            let _ = taken.send(take(&path, |file| file.lock().map(|()| true)));
        })?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match wait.recv_timeout(left.min(LOOK)) {
                Ok(outcome) => return outcome,
                Err(_) if left.is_zero() || in_vain() => return Ok(None),
                Err(_) => {}
            }
        }
    }

    /// Whether the name still leads to the locked file.
    pub(in crate::lifecycle) fn is_own(&self) -> bool {
        leads_to(&self.path, &self.file).unwrap_or(false)
    }

    /// Path of the lock file.
    pub(in crate::lifecycle) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the holder's note into the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(in crate::lifecycle) fn write_note(&self, note: &Note) -> io::Result<()> {
        let text = serde_json::to_vec(note)?;
        subagent_failpoint::check("daemon_lock.before_note")?;
        self.file.set_len(0)?;
        self.file.write_all_at(&text, 0)?;
        (&self.file).flush()
    }
}

impl FileLock {
    /// Releases the lock only when the process exits, so that the next holder finds this process
    /// gone.
    pub(in crate::lifecycle) fn release_at_exit(self) {
        let _ = self.file.set_len(0);
        std::mem::forget(self);
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // The lock is still held, so no other holder's note is lost. A remaining note belongs to a
        // killed process.
        let _ = self.file.set_len(0);
    }
}

impl Note {
    /// Reads the holder's note, if it is already written.
    pub(in crate::lifecycle) fn read(path: &Path) -> Option<Self> {
        let mut buffer = [0; MAX_NOTE_BYTES];
        let length = regular::open_to_read(path).and_then(|file| file.read_at(&mut buffer, 0)).ok()?;
        serde_json::from_slice(&buffer[..length]).ok()
    }

    /// Whether the process that wrote the note is alive.
    pub(in crate::lifecycle) fn process_lives(&self) -> bool {
        proc::start_time(self.process.pid).is_ok_and(|start_time| start_time == self.process.start_time)
    }
}

fn take(path: &Path, lock: impl Fn(&File) -> io::Result<bool>) -> io::Result<Option<FileLock>> {
    subagent_failpoint::check("daemon_lock.before_take")?;
    for _ in 0..MAX_TRIES {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = regular::open(path, &mut options, O_NOFOLLOW)?;
        if !lock(&file)? {
            return Ok(None);
        }
        if leads_to(path, &file)? {
            subagent_failpoint::hit("daemon_lock.after_take");
            return Ok(Some(FileLock { file, path: path.to_owned() }));
        }
    }
    Err(io::Error::other("the lock file is replaced again and again"))
}

fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    let locked = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (locked.dev(), locked.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn path() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.lock");
        (dir, path)
    }

    #[test]
    fn only_one_of_many_holds_it() {
        let (_dir, path) = path();
        let (start, held, winners) = (Barrier::new(16), Barrier::new(16), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    start.wait();
                    let lock = FileLock::try_take(&path).unwrap();
                    winners.fetch_add(usize::from(lock.is_some()), Ordering::Relaxed);
                    // Every thread tries before any lock is released.
                    held.wait();
                });
            }
        });
        assert_eq!(winners.into_inner(), 1);
        assert!(FileLock::try_take(&path).unwrap().is_some());
    }

    #[test]
    fn who_waits_gets_it_when_it_is_let_go() {
        let (_dir, path) = path();
        let held = FileLock::try_take(&path).unwrap().unwrap();
        assert!(FileLock::take_within(&path, Duration::from_millis(20)).unwrap().is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| FileLock::take_within(&path, LONG).unwrap());
            drop(held);
            assert!(waiting.join().unwrap().unwrap().is_own());
        });
    }

    #[test]
    fn a_replaced_file_is_not_own_and_can_be_taken_by_another() {
        let (_dir, path) = path();
        let first = FileLock::try_take(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!first.is_own());
        let second = FileLock::try_take(&path).unwrap().unwrap();
        assert!(second.is_own() && !first.is_own());
    }

    #[test]
    fn who_waited_on_a_replaced_file_takes_the_new_one() {
        let (_dir, path) = path();
        let first = FileLock::try_take(&path).unwrap().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| FileLock::take_within(&path, LONG).unwrap());
            fs::remove_file(&path).unwrap();
            drop(first);
            assert!(waiting.join().unwrap().unwrap().is_own());
        });
    }

    #[test]
    fn a_note_says_who_holds_it() {
        let (_dir, path) = path();
        assert_eq!(Note::read(&path), None);
        let lock = FileLock::try_take(&path).unwrap().unwrap();
        assert_eq!(Note::read(&path), None);
        for mode in ["background", "foreground"] {
            let note = Note { process: ProcessId { pid: 7, start_time: 8 }, mode: mode.to_owned() };
            lock.write_note(&note).unwrap();
            assert_eq!(Note::read(&path), Some(note));
        }
        drop(lock);
        assert_eq!(Note::read(&path), None);
    }
}
