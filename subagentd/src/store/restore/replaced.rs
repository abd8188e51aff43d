//! The database that is replaced: whether it may be, and what it can still say. It is changed only to lie in one file.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::{Connection, ErrorCode};
use subagent_protocol::{Code, Error, Result};

use super::prepare::open;
use super::{DATABASE, failed};
use crate::store::error::StoreError;
use crate::store::open::{Identity, allow, read_identity};
use crate::store::{OwnerCheck, controllers, open_for_reading, schema};

/// What the database that is replaced can still say.
pub(crate) enum Replaced {
    /// There is none.
    None,
    /// Everything.
    Readable,
    /// Nothing: it is damaged.
    Damaged,
}

/// Whether the caller may replace this database: with a handle that is current for all that has workers.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE`; `STORAGE_ERROR` if it cannot be read just now. A damaged database forbids nothing, and
/// neither does one of another program here.
pub(crate) fn may_replace(state_dir: &Path, owner: &OwnerCheck) -> Result<()> {
    let database = state_dir.join(DATABASE);
    // SQLite removes the WAL of an empty database as soon as it looks at it.
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

/// Whether SQLite finds no damage; also if it cannot look.
fn is_sound(connection: &Connection) -> bool {
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(said) => said == "ok",
        Err(error) => !is_damage(&error),
    }
}

/// Writes everything of the replaced database into its one file, in the schema of today, so that nothing beside it is
/// taken for the new one's, and all that must go on can be read from it.
///
/// # Errors
/// `STATE_DIR_FOREIGN`, `STATE_DIR_TOO_NEW`; `STORAGE_ERROR` if another program keeps it locked for longer
/// than `BUSY_TIMEOUT`.
pub(crate) fn settle_replaced(state_dir: &Path) -> Result<Replaced> {
    let database = state_dir.join(DATABASE);
    match fs::metadata(&database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Replaced::None),
        Err(error) => return Err(failed(&database, &error)),
        // Something has taken its content away. SQLite would remove its WAL as soon as it looks at it.
        Ok(meta) if meta.len() == 0 => return Ok(Replaced::Damaged),
        Ok(_) => {}
    }
    let settled = match read_identity(&database) {
        Ok(Identity::Empty) => return Ok(Replaced::Damaged),
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

/// Whether this says what the database is, and not what hinders just now.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
                // A table or a column is not there.
                || failure.extended_code == rusqlite::ffi::SQLITE_ERROR
        }
        rusqlite::Error::SqlInputError { error, .. } => error.extended_code == rusqlite::ffi::SQLITE_ERROR,
        // A row that every database of ours has.
        rusqlite::Error::QueryReturnedNoRows => true,
        _ => false,
    }
}

/// `STORAGE_ERROR` or `STORAGE_FULL` about the database that was to be replaced.
pub(super) fn of_database(database: &Path, error: rusqlite::Error) -> Error {
    Error::from(StoreError::from(error)).with("stateDbPath", database.display().to_string())
}

fn into_one_file(database: &Path) -> rusqlite::Result<()> {
    let mut connection = open(database)?;
    // From the first look on nobody else reads it. SQLite waits for readers to end there, and would not wait for one in
    // `journal_mode`: somebody who looks into the database for a moment would fail the restore.
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
