//! A copy of the database in a file of its own, made while it is written to.
//!
//! `VACUUM INTO` reads one state of the database on a read connection, so the writer goes on. The copy is made under
//! another name beside the file, synced and checked, and only then gets its own name: there is never half a copy under
//! it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use rusqlite::{Connection, InterruptHandle, OpenFlags, OptionalExtension as _, params};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::error::StoreError;
use super::{open, open_for_reading, schema};

/// What stays free on the disk of a copy.
const SPARE_BYTES: u64 = 1024 * 1024;

/// What is to be copied, and where to.
#[derive(Debug, Clone)]
pub struct Backup {
    /// The file, absolute.
    pub file: PathBuf,
    /// Whether a file that is there is replaced.
    pub force: bool,
    /// The key of the request and what tells it from others: kept in the copy, so that a repetition knows it.
    pub key: Option<(String, String)>,
    /// When it was asked for.
    pub now: Timestamp,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The size of the copy.
    pub bytes: u64,
    /// The schema of the copy.
    pub schema: i64,
    /// The number of the newest event in it, 0 for none.
    pub last_seq: i64,
}

impl Backup {
    /// Makes the copy. Blocking. `interruptible` gets the handle that ends it before its time.
    ///
    /// # Errors
    /// `BACKUP_ALREADY_EXISTS`, `INVALID_ARGUMENT{path,error}` for a place that cannot be used, `STORAGE_FULL`,
    /// `STORAGE_ERROR`; nothing is left of it then.
    pub(super) fn make(
        &self,
        database: &Path,
        interruptible: impl FnOnce(InterruptHandle),
    ) -> Result<Copied> {
        let (Some(folder), Some(name)) = (self.file.parent(), self.file.file_name()) else {
            return Err(self.error(&io::ErrorKind::InvalidInput.into()));
        };
        if let Some(earlier) = self.look_at_what_is_there()? {
            return Ok(earlier);
        }
        let mut unfinished = std::ffi::OsString::from(".");
        unfinished.push(name);
        unfinished.push(".unfinished");
        let unfinished = folder.join(unfinished);
        let made = self.fill(database, folder, &unfinished, interruptible).and_then(|copied| {
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

    /// Refuses to write over anything that is not this very backup, which a repeated request finds.
    fn look_at_what_is_there(&self) -> Result<Option<Copied>> {
        match fs::symlink_metadata(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.error(&error)),
            Ok(meta) if meta.is_dir() => Err(self.error(&io::ErrorKind::IsADirectory.into())),
            Ok(_) if self.force => Ok(None),
            Ok(meta) => match &self.key {
                Some(key) if meta.is_file() => match made_by(&self.file, key) {
                    Some((schema, last_seq)) => Ok(Some(Copied { bytes: meta.len(), schema, last_seq })),
                    None => Err(self.exists()),
                },
                _ => Err(self.exists()),
            },
        }
    }

    fn fill(
        &self,
        database: &Path,
        folder: &Path,
        unfinished: &Path,
        interruptible: impl FnOnce(InterruptHandle),
    ) -> Result<Copied> {
        // One that a daemon left that was killed. Nobody else writes under this name.
        let _ = fs::remove_file(unfinished);
        let source = open_for_reading(database)?;
        check_space(folder, size(&source).map_err(StoreError::from)?, &self.file)?;
        // SQLite would make it readable for whoever the mask allows.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(unfinished)
            .map_err(|error| self.error(&error))?;
        let Some(target) = unfinished.to_str() else {
            return Err(self.error(&io::Error::new(io::ErrorKind::InvalidInput, "the name is not UTF-8")));
        };
        interruptible(source.get_interrupt_handle());
        subagent_failpoint::check("backup.before_copy").map_err(|error| self.error(&error))?;
        source.execute("VACUUM INTO ?1", [target]).map_err(StoreError::from)?;
        drop(source);
        subagent_failpoint::hit("backup.after_copy");
        let copied = self.finish(unfinished)?;
        File::open(unfinished).and_then(|file| file.sync_all()).map_err(|error| self.error(&error))?;
        Ok(copied)
    }

    /// Writes down whose the copy is, and checks it.
    fn finish(&self, unfinished: &Path) -> Result<Copied> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(unfinished, flags).map_err(StoreError::from)?;
        if let Some((key, fingerprint)) = &self.key {
            connection
                .execute(
                    "INSERT OR REPLACE INTO requests (key, fingerprint, response, created_at) VALUES (?1, ?2, 'null', ?3)",
                    params![key, fingerprint, self.now.0],
                )
                .map_err(StoreError::from)?;
        }
        check(&connection)?;
        let (schema, last_seq) = facts(&connection).map_err(StoreError::from)?;
        drop(connection);
        let bytes = fs::metadata(unfinished).map_err(|error| self.error(&error))?.len();
        Ok(Copied { bytes, schema, last_seq })
    }

    fn give_name(&self, unfinished: &Path) -> Result<()> {
        if self.force {
            return fs::rename(unfinished, &self.file).map_err(|error| self.error(&error));
        }
        // Unlike a rename this fails if somebody has made a file of that name meanwhile.
        match fs::hard_link(unfinished, &self.file) {
            Ok(()) => {
                let _ = fs::remove_file(unfinished);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(self.exists()),
            // A file system without hard links.
            Err(_) => fs::rename(unfinished, &self.file).map_err(|error| self.error(&error)),
        }
    }

    fn exists(&self) -> Error {
        let path = self.file.display().to_string();
        Error::new(Code::BackupAlreadyExists, format!("{path} exists; nothing was written over it"))
            .with("path", path)
            .recommend("name another file, or replace this one with --force")
    }

    fn error(&self, error: &io::Error) -> Error {
        unusable(&self.file, error)
    }
}

/// The error of a place for a copy.
pub(super) fn unusable(file: &Path, error: &io::Error) -> Error {
    let path = file.display().to_string();
    let (code, advice) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => (Code::StorageFull, "make room there"),
        _ => (Code::InvalidArgument, "name a file in a folder that exists and can be written"),
    };
    Error::new(code, format!("the backup cannot be written to {path}: {error}"))
        .with("path", path)
        .with("error", error.to_string())
        .recommend(advice)
}

/// Refuses before anything is written if there is no room for it.
pub(super) fn check_space(folder: &Path, bytes: u64, file: &Path) -> Result<()> {
    // A file system that counts no blocks says nothing about its room.
    let Some(stat) = statvfs(folder).ok().filter(|stat| stat.blocks() > 0) else { return Ok(()) };
    let free = stat.blocks_available().saturating_mul(stat.fragment_size());
    if free >= bytes.saturating_add(SPARE_BYTES) {
        return Ok(());
    }
    let message = format!("{} has {free} bytes free, and {bytes} are needed", folder.display());
    Err(Error::new(Code::StorageFull, message)
        .with("path", file.display().to_string())
        .with("neededBytes", bytes)
        .with("freeBytes", free)
        .retryable()
        .recommend("make room there, or name a file on another disk"))
}

/// How large a copy can be.
fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = number("page_count")? - number("freelist_count")?;
    Ok((pages * number("page_size")?).unsigned_abs())
}

/// SQLite's own checks of a database.
///
/// # Errors
/// `STORAGE_ERROR` with the first thing that is wrong.
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

/// Whether this file is the backup that a request with this key has made; then its schema and its newest event.
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
