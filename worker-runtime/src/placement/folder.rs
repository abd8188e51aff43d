//! The folder of a placed worker: its locks, and the record that decides which runtime may still be
//! started and which daemon is served. The record is read and written under its own lock.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::libc::O_NOFOLLOW;
use serde::{Deserialize, Serialize};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::PLACED_LOG;
use subagent_protocol::stream::DaemonEpoch;

use crate::startup;

const RECORD: &str = "placed.json";
/// Time that another process may use the record.
const RECORD_TIMEOUT: Duration = Duration::from_secs(5);

/// Which of the two locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkerLock {
    /// Held while the runtime lives.
    Runtime,
    /// Held while the guard lives.
    Guard,
    /// Held while the record is used.
    Record,
}

/// The place serves another daemon, of this generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fenced {
    pub(super) generation: u64,
}

/// What `submit` and `dial` know of the worker's runtimes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlacedRecord {
    /// The newest daemon that spoke here.
    pub(super) epoch: DaemonEpoch,
    /// The newest runtime that was started or learned to be gone. None up to it is started again.
    pub(super) incarnation: u64,
}

pub(super) struct PlacedFolder {
    path: PathBuf,
}

impl PlacedFolder {
    /// Creates the folder of a worker below `root`, private to the user.
    ///
    /// # Errors
    ///
    /// The system's error, with the path.
    pub(super) fn create(root: &Path, worker: &WorkerId) -> io::Result<Self> {
        if !root.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the root must be an absolute path"));
        }
        let path = root.join(worker.as_str());
        let create = || {
            if !path.is_dir() {
                DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
                sync_folder(root)?;
            }
            Ok(())
        };
        create().map_err(|error| named(&path, &error))?;
        Ok(Self { path })
    }

    /// Returns the folder of a worker, which must exist.
    ///
    /// # Errors
    ///
    /// The system's error, with the path.
    pub(super) fn at(path: PathBuf) -> io::Result<Self> {
        match path.is_absolute() && path.is_dir() {
            true => Ok(Self { path }),
            false => Err(named(&path, &io::Error::from(io::ErrorKind::NotADirectory))),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file to which the agent's stderr is appended.
    pub(super) fn log(&self) -> PathBuf {
        self.path.join(PLACED_LOG)
    }

    /// The command socket of the runtime.
    pub(super) fn socket(&self) -> PathBuf {
        self.path.join("socket")
    }

    /// The folder in which the task server of the agent finds its socket, like a state dir.
    pub(super) fn task_folder(&self) -> PathBuf {
        task_folder(&self.path)
    }

    /// Takes a lock if it is free.
    ///
    /// # Errors
    ///
    /// The system's error, with the path.
    pub(super) fn try_lock(&self, which: WorkerLock) -> io::Result<Option<File>> {
        let (file, path) = self.open(which)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(named(&path, &error)),
        }
    }

    /// Takes a lock, retrying until `patience` has passed. Polls, because the kernel reports a free
    /// lock only to a thread that waits without a limit.
    ///
    /// # Errors
    ///
    /// As [`Self::try_lock`].
    pub(super) fn lock_within(&self, which: WorkerLock, patience: Duration) -> io::Result<Option<File>> {
        let mut pauses = Pauses::new(patience);
        loop {
            if let Some(file) = self.try_lock(which)? {
                return Ok(Some(file));
            }
            if !pauses.pause() {
                return Ok(None);
            }
        }
    }

    /// Takes a lock, however long that takes: its holder may live for days.
    ///
    /// # Errors
    ///
    /// As [`Self::try_lock`].
    pub(super) fn lock(&self, which: WorkerLock) -> io::Result<File> {
        loop {
            let (file, path) = self.open(which)?;
            file.lock().map_err(|error| named(&path, &error))?;
            // The lock of a file that was replaced proves nothing.
            if startup::is_same_file(&file, &path) {
                return Ok(file);
            }
        }
    }

    fn open(&self, which: WorkerLock) -> io::Result<(File, PathBuf)> {
        let path = match which {
            WorkerLock::Runtime => startup::lock_path(&self.path),
            WorkerLock::Guard => self.path.join("guard.lock"),
            WorkerLock::Record => self.path.join("record.lock"),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(O_NOFOLLOW);
        let file = options.open(&path).map_err(|error| named(&path, &error))?;
        Ok((file, path))
    }

    /// Takes the lock of the record.
    ///
    /// # Errors
    ///
    /// As [`Self::try_lock`], and if it is not free in time.
    pub(super) fn lock_record(&self) -> io::Result<File> {
        let busy = || io::Error::new(io::ErrorKind::TimedOut, "the record of the worker is in use");
        self.lock_within(WorkerLock::Record, RECORD_TIMEOUT)?.ok_or_else(busy)
    }

    /// Reads the record; the default if none was written.
    ///
    /// # Errors
    ///
    /// The system's error, with the path; also if the file is damaged.
    pub(super) fn record(&self) -> io::Result<PlacedRecord> {
        let path = self.path.join(RECORD);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| named(&path, &error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PlacedRecord::default()),
            Err(error) => Err(named(&path, &error)),
        }
    }

    /// Does something for a daemon, unless the place serves another one. The record names this
    /// daemon afterwards, so that no older one is served any more. `act` may change the runtime's
    /// number in the record; then the caller holds the runtime's lock.
    ///
    /// # Errors
    ///
    /// The system's error, with the path, or that of `act`.
    pub(super) fn serve<T>(
        &self,
        epoch: &DaemonEpoch,
        act: impl FnOnce(&mut PlacedRecord) -> io::Result<T>,
    ) -> io::Result<Result<T, Fenced>> {
        let _lock = self.lock_record()?;
        let known = self.record()?;
        if known.epoch.fences(epoch) {
            return Ok(Err(Fenced { generation: known.epoch.generation }));
        }
        let mut next = PlacedRecord { epoch: epoch.clone(), ..known.clone() };
        let done = act(&mut next)?;
        if next != known {
            self.write_record(&next)?;
        }
        Ok(Ok(done))
    }

    /// Writes the record so that a power failure leaves this one or the one before.
    fn write_record(&self, record: &PlacedRecord) -> io::Result<()> {
        let (path, new) = (self.path.join(RECORD), self.path.join("placed.json.new"));
        let write = || {
            subagent_failpoint::check("placed_record.before_write")?;
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            sync_folder(&self.path)?;
            subagent_failpoint::hit("placed_record.after_write");
            Ok(())
        };
        write().map_err(|error| named(&path, &error))
    }
}

/// Returns [`PlacedFolder::task_folder`] of the worker's folder.
pub(super) fn task_folder(folder: &Path) -> PathBuf {
    folder.join("tasks")
}

/// Growing pauses until a deadline.
pub(super) struct Pauses {
    deadline: Instant,
    next: Duration,
}

impl Pauses {
    pub(super) fn new(patience: Duration) -> Self {
        Self { deadline: Instant::now() + patience, next: Duration::from_millis(1) }
    }

    /// Pauses, or returns false after the deadline.
    pub(super) fn pause(&mut self) -> bool {
        if Instant::now() >= self.deadline {
            return false;
        }
        std::thread::sleep(self.next);
        self.next = (self.next * 2).min(Duration::from_millis(50));
        true
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
