//! Copies the live database into a file with `VACUUM INTO`, without blocking the writer. The copy
//! is synced and checked before it is renamed, so the target name never holds a partial file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::statvfs::statvfs;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::files;
use super::{open, schema, unfinished};
use crate::store::error::StoreError;
use crate::store::{open_for_reading, requests};

/// Bytes that must stay free on the target file system.
const SPARE_BYTES: u64 = 1024 * 1024;

/// SQLite VM instructions between two checks of the stop flag.
const STEPS: i32 = 1000;

/// A request to copy the database.
#[derive(Debug, Clone)]
pub(crate) struct Backup {
    /// Absolute path of the copy.
    pub file: PathBuf,
    /// Whether a file that exists there is replaced.
    pub force: bool,
    /// Idempotency key and request fingerprint. They are stored in the copy, so that a repeated
    /// request recognizes it.
    pub key: Option<(String, String)>,
    /// Time of the request.
    pub now: Timestamp,
}

/// The result of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackupCopy {
    /// Size of the copy in bytes.
    pub bytes: u64,
    /// Schema version of the copy.
    pub schema: i64,
    /// Sequence number of the newest event in it, 0 for none.
    pub last_seq: i64,
}

impl Backup {
    /// Makes the copy. Blocks the thread. Setting `stop` aborts it at any time.
    ///
    /// # Errors
    /// `BACKUP_ALREADY_EXISTS`, `INVALID_ARGUMENT{path,error}` for an unusable path,
    /// `STORAGE_FULL`, `STORAGE_ERROR`. No file is left after an error.
    pub(in crate::store) fn make(&self, database: &Path, stop: &Arc<AtomicBool>) -> Result<BackupCopy> {
        let (Some(folder), Some(_)) = (self.file.parent(), self.file.file_name()) else {
            return Err(self.error(&io::ErrorKind::InvalidInput.into()));
        };
        if let Some(earlier) = self.look_at_what_is_there()? {
            return Ok(earlier);
        }
        let source = open_for_reading(database)?;
        check_space(folder, size(&source).map_err(StoreError::from)?, "name a file on another disk")?;
        let unfinished = unfinished::make(folder).map_err(|error| self.error(&error))?;
        let made = self.fill(source, &unfinished, stop).and_then(|copied| {
            subagent_failpoint::check("backup.before_rename").map_err(|error| self.error(&error))?;
            self.give_name(&unfinished)?;
            subagent_failpoint::hit("backup.after_rename");
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| self.error(&error))?;
            Ok(copied)
        });
        if made.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        made
    }

    /// Refuses to replace an existing file. Exceptions: the backup made by this same request
    /// (returned as the result), and with `force` any backup.
    fn look_at_what_is_there(&self) -> Result<Option<BackupCopy>> {
        let meta = match fs::symlink_metadata(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.error(&error)),
            Ok(meta) => meta,
        };
        if meta.is_dir() {
            return Err(self.error(&io::ErrorKind::IsADirectory.into()));
        }
        if !meta.is_file() {
            return Err(self.refused("it exists and is not a regular file"));
        }
        if self.force {
            if lies_in_a_state_dir(&self.file) {
                let refused = self.refused("it belongs to a state dir; --force replaces only backups");
                return Err(refused.recommend("name a file outside of every state dir"));
            }
            return match unfinished::is_empty_or_ours(&self.file) {
                Ok(true) => Ok(None),
                Ok(false) => Err(self.refused("it is not a backup; --force replaces only backups")),
                Err(error) => Err(self.error(&error)),
            };
        }
        match self.key.as_ref().and_then(|key| made_by(&self.file, key)) {
            Some((schema, last_seq)) => Ok(Some(BackupCopy { bytes: meta.len(), schema, last_seq })),
            None => Err(self.exists()),
        }
    }

    fn fill(&self, mut source: Connection, unfinished: &Path, stop: &Arc<AtomicBool>) -> Result<BackupCopy> {
        let Some(target) = unfinished.to_str() else {
            return Err(self.refused("the name is not UTF-8"));
        };
        subagent_failpoint::check("backup.before_copy").map_err(|error| self.error(&error))?;
        stop_with(&mut source, stop)?;
        source.execute("VACUUM INTO ?1", [target]).map_err(StoreError::from)?;
        drop(source);
        subagent_failpoint::hit("backup.after_copy");
        let copied = self.finish(unfinished, stop)?;
        File::open(unfinished).and_then(|file| file.sync_all()).map_err(|error| self.error(&error))?;
        Ok(copied)
    }

    /// Stores the idempotency key in the copy, and checks the copy.
    fn finish(&self, unfinished: &Path, stop: &Arc<AtomicBool>) -> Result<BackupCopy> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(unfinished, flags).map_err(StoreError::from)?;
        stop_with(&mut connection, stop)?;
        if let Some((key, fingerprint)) = &self.key {
            // The source may hold this key with another fingerprint.
            requests::recall(&connection, key, fingerprint)?;
            connection
                .execute(
                    "INSERT OR IGNORE INTO requests (key, fingerprint, response, created_at) VALUES (?1, ?2, 'null', ?3)",
                    params![key, fingerprint, self.now.0],
                )
                .map_err(StoreError::from)?;
        }
        check(&connection)?;
        let (schema, last_seq) = facts(&connection).map_err(StoreError::from)?;
        drop(connection);
        let bytes = fs::metadata(unfinished).map_err(|error| self.error(&error))?.len();
        Ok(BackupCopy { bytes, schema, last_seq })
    }

    fn give_name(&self, unfinished: &Path) -> Result<()> {
        if self.force {
            // The target may have changed since the first check.
            self.look_at_what_is_there()?;
            return fs::rename(unfinished, &self.file).map_err(|error| self.error(&error));
        }
        // Unlike a rename, this fails if the name was taken meanwhile.
        match fs::hard_link(unfinished, &self.file) {
            Ok(()) => {
                let _ = fs::remove_file(unfinished);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(self.exists()),
            // The file system has no hard links.
            Err(_) => fs::rename(unfinished, &self.file).map_err(|error| self.error(&error)),
        }
    }

    fn exists(&self) -> Error {
        let path = self.file.display().to_string();
        Error::new(Code::BackupAlreadyExists, format!("{path} exists and was not overwritten"))
            .with("path", path)
            .recommend("name another file, or replace this one with --force")
    }

    fn refused(&self, what: &'static str) -> Error {
        self.error(&io::Error::new(io::ErrorKind::InvalidInput, what))
    }

    fn error(&self, error: &io::Error) -> Error {
        unusable(&self.file, error)
    }
}

/// Whether a file belongs to a daemon's state dir, of any state dir. A database with a WAL beside
/// it is in use, or was when its daemon was killed.
fn lies_in_a_state_dir(file: &Path) -> bool {
    let there = |name: &str| fs::symlink_metadata(file.with_file_name(name)).is_ok();
    let is_database = file.file_name().is_some_and(|name| name == "state.db");
    there("daemon.lock")
        || there("start.lock")
        || (is_database && there("runtimes"))
        || fs::symlink_metadata(files::log(file)).is_ok()
}

/// The error for a path that a backup cannot be written to.
pub(super) fn unusable(file: &Path, error: &io::Error) -> Error {
    let path = file.display().to_string();
    Error::new(Code::InvalidArgument, format!("the backup cannot be written to {path}: {error}"))
        .with("path", path)
        .with("error", error.to_string())
        .recommend("name a file in a folder that exists and can be written")
        .or_storage_full(error)
}

/// Makes all work on the connection fail as soon as `stop` is set, or at once if it is set already.
fn stop_with(connection: &mut Connection, stop: &Arc<AtomicBool>) -> Result<()> {
    let set = Arc::clone(stop);
    connection
        .progress_handler(STEPS, Some(move || set.load(Ordering::Relaxed)))
        .map_err(StoreError::from)?;
    if stop.load(Ordering::Relaxed) { Err(StoreError::Closed.into()) } else { Ok(()) }
}

/// Checks that the folder's file system has `bytes` and [`SPARE_BYTES`] free, before anything is
/// written.
pub(super) fn check_space(folder: &Path, bytes: u64, otherwise: &str) -> Result<()> {
    // A file system that reports no blocks does not report its free space either.
    let Some(stat) = statvfs(folder).ok().filter(|stat| stat.blocks() > 0) else { return Ok(()) };
    let free = stat.blocks_available().saturating_mul(stat.fragment_size());
    if free >= bytes.saturating_add(SPARE_BYTES) {
        return Ok(());
    }
    let message = format!("{} has {free} bytes free, and {bytes} are needed", folder.display());
    Err(Error::new(Code::StorageFull, message)
        .with("path", folder.display().to_string())
        .with("neededBytes", bytes)
        .with("freeBytes", free)
        .retryable()
        .recommend(format!("make room on the disk of {}, or {otherwise}", folder.display())))
}

/// Returns an upper bound for the size of a copy, in bytes.
fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = number("page_count")? - number("freelist_count")?;
    Ok((pages * number("page_size")?).unsigned_abs())
}

/// Runs SQLite's integrity checks.
///
/// # Errors
/// `STORAGE_ERROR` with the first problem.
pub(super) fn check(connection: &Connection) -> Result<()> {
    let found: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(StoreError::from)?;
    if found != "ok" {
        return Err(StoreError::BadRow(found).into());
    }
    let reference: Option<String> = connection
        .query_row("PRAGMA foreign_key_check", [], |row| row.get(0))
        .optional()
        .map_err(StoreError::from)?;
    match reference {
        None => Ok(()),
        Some(table) => Err(StoreError::BadRow(format!("a reference of {table} leads nowhere")).into()),
    }
}

/// Returns schema and newest sequence number of this backup if the request with this key made it.
fn made_by(file: &Path, (key, fingerprint): &(String, String)) -> Option<(i64, i64)> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(open::immutable_uri(file), flags).ok()?;
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).ok()?;
    let found: bool = connection
        .query_row(
            "SELECT EXISTS (SELECT 1 FROM requests WHERE key = ?1 AND fingerprint = ?2)",
            params![key, fingerprint],
            |row| row.get(0),
        )
        .ok()?;
    (application == schema::APPLICATION_ID && found).then(|| facts(&connection).ok()).flatten()
}

fn facts(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    Ok((
        connection.pragma_query_value(None, "user_version", |row| row.get(0))?,
        connection
            .query_row("SELECT coalesce(max(seq), 0) FROM events WHERE internal = 0", [], |row| row.get(0))?,
    ))
}
