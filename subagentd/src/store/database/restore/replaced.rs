//! The database to be replaced: who may replace it, and how much of it is readable. It is changed
//! only to become one file.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::{Connection, ErrorCode};
use subagent_protocol::{Code, Error, Result};

use super::failed;
use super::prepare::open;
use crate::store::database::files::DATABASE;
use crate::store::database::open::{DatabaseIdentity, allow, read_identity};
use crate::store::database::schema;
use crate::store::error::StoreError;
use crate::store::{OwnerCheck, controllers, open_for_reading};

/// Readability of the replaced database.
pub(crate) enum Replaced {
    None,
    /// All tables are readable.
    Readable,
    /// The database is damaged.
    Damaged,
}

/// Checks that the caller may replace this database. The handle must be valid for each controller
/// with workers.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE`; `STORAGE_ERROR` if the database cannot be read now. A damaged or
/// foreign database forbids nothing.
pub(crate) fn may_replace(state_dir: &Path, owner: &OwnerCheck) -> Result<()> {
    let database = state_dir.join(DATABASE);
    // SQLite deletes the WAL of an empty database as soon as it opens it.
    if !fs::metadata(&database).is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    let connection = open_for_reading(&database)?;
    let tables = connection.prepare("SELECT 1 FROM controllers, owners, workers WHERE 0").map(drop);
    match tables {
        Err(error) if is_damage(&error) => return Ok(()),
        tables => tables.map_err(|error| of_database(&database, error))?,
    }
    let checked = controllers::with_workers(&connection).and_then(|concerned| {
        concerned.iter().try_for_each(|row| controllers::check_owner(&connection, owner, row))
    });
    match checked {
        Err(error) if error.code != Code::InvalidControllerHandle && !is_sound(&connection) => Ok(()),
        checked => checked,
    }
}

/// Whether SQLite finds no damage. True also if the check itself fails.
fn is_sound(connection: &Connection) -> bool {
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(said) => said == "ok",
        Err(error) => !is_damage(&error),
    }
}

/// Migrates the replaced database to the current schema and folds all data into its one file. No
/// file beside it can then be mistaken for the new database's.
///
/// # Errors
/// `STATE_DIR_FOREIGN`, `STATE_DIR_TOO_NEW`; `STORAGE_ERROR` if another program keeps it locked for
/// longer than `BUSY_TIMEOUT`.
pub(crate) fn settle_replaced(state_dir: &Path) -> Result<Replaced> {
    let database = state_dir.join(DATABASE);
    match fs::metadata(&database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replaced::None),
        Err(error) => return Err(failed(&database, &error)),
        // Its content was truncated. Opening it would make SQLite delete its WAL.
        Ok(meta) if meta.len() == 0 => return Ok(Replaced::Damaged),
        Ok(_) => {}
    }
    let settled = match read_identity(&database) {
        Ok(DatabaseIdentity::Empty) => return Ok(Replaced::Damaged),
        Ok(identity) => {
            allow(&database, &identity)?;
            into_one_file(&database)
        }
        Err(error) => Err(error),
    };
    match settled {
        Ok(()) => Ok(Replaced::Readable),
        Err(error) if is_damage(&error) => Ok(Replaced::Damaged),
        Err(error) => Err(of_database(&database, error)),
    }
}

/// Whether the error shows damage and not a temporary obstacle.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
                // A table or column is missing.
                || failure.extended_code == rusqlite::ffi::SQLITE_ERROR
        }
        rusqlite::Error::SqlInputError { error, .. } => error.extended_code == rusqlite::ffi::SQLITE_ERROR,
        // A row that all our databases have is missing.
        rusqlite::Error::QueryReturnedNoRows => true,
        _ => false,
    }
}

/// Returns `STORAGE_ERROR` or `STORAGE_FULL` for the replaced database.
pub(super) fn of_database(database: &Path, error: rusqlite::Error) -> Error {
    Error::from(StoreError::from(error)).with("stateDbPath", database.display().to_string())
}

fn into_one_file(database: &Path) -> rusqlite::Result<()> {
    let mut connection = open(database)?;
    // The exclusive lock keeps readers out from the first query on. SQLite waits for readers there,
    // but would not when `journal_mode` changes: a short read would then fail the restore.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    schema::migrate(&mut connection)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let mode: String = connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
    if mode != "delete" {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(busy, None));
    }
    connection.query_row("SELECT value FROM meta WHERE key = 'seq_reserved'", [], |_| Ok(()))
}
