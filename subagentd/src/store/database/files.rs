//! The file of the database, and those that SQLite keeps beside it.

use std::path::{Path, PathBuf};

/// File name of the database in a state dir.
pub(crate) const DATABASE: &str = "state.db";

/// Suffix of the write-ahead log, which has the newest content.
const LOG: &str = "-wal";
/// Suffix of the index of the log, which is built from the other files.
pub(super) const INDEX: &str = "-shm";
/// Suffix of the rollback journal.
const JOURNAL: &str = "-journal";

/// Suffixes of all files beside a database.
pub(super) const SUFFIXES: [&str; 3] = [LOG, INDEX, JOURNAL];

/// The write-ahead log of this database.
pub(crate) fn log(database: &Path) -> PathBuf {
    beside(database, LOG)
}

/// The index of the log of this database.
pub(crate) fn index(database: &Path) -> PathBuf {
    beside(database, INDEX)
}

/// The rollback journal of this database.
pub(super) fn journal(database: &Path) -> PathBuf {
    beside(database, JOURNAL)
}

/// The file with the same name and this suffix.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
