//! Opens the database: checks owner and version, and applies the settings that durability depends
//! on.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use subagent_protocol::{Code, Error, Result};

use super::files;
use super::schema;
use crate::store::error::StoreError;

/// No other process writes, but a reader that recovers the WAL may hold the lock briefly.
pub(in crate::store) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Size of a connection's statement cache; larger than the number of statements.
const STATEMENTS: usize = 256;

/// Size to which a reset WAL file is truncated. It equals the checkpoint size, so nearly every
/// commit overwrites existing blocks. Syncing a growing file takes twice the time.
const WAL_BYTES: i64 = 5 * 1024 * 1024;

/// SQLite before 3.51.3 could damage the database on a WAL reset (<https://sqlite.org/wal.html>,
/// "WAL-reset bug").
const OLDEST_SQLITE: i32 = 3_051_003;

pub(in crate::store) fn open_for_writing(path: &Path) -> Result<Connection> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(StoreError::TooOldSqlite(rusqlite::version().to_owned()).into());
    }
    check_kind(path)?;
    let exists = path.metadata().is_ok_and(|meta| meta.len() > 0);
    if exists {
        inspect(path)?;
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(StoreError::from)?;
    configure(&connection, exists).map_err(StoreError::from)?;
    schema::migrate(&mut connection).map_err(StoreError::from)?;
    // A statement journal for many rows is a few pages, which would otherwise go to a file. This is
    // set after migration, whose sorts may exceed memory.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(StoreError::from)?;
    Ok(connection)
}

/// Refuses anything but a regular file: opening a pipe would block forever.
pub(in crate::store) fn check_kind(path: &Path) -> Result<()> {
    if path.metadata().map_or(true, |meta| meta.is_file()) {
        return Ok(());
    }
    let message = format!("{} is not a regular file; no database can be stored there", path.display());
    Err(Error::new(Code::StorageError, message)
        .with("stateDbPath", path.display().to_string())
        .recommend("find out who has put it there, and move it away; `subagent doctor` says more"))
}

/// Checks a database without changing any byte of it.
pub(super) fn inspect(path: &Path) -> Result<()> {
    allow(path, &read_identity(path).map_err(StoreError::from)?)
}

/// Refuses the database of another program or of a newer version.
pub(super) fn allow(path: &Path, identity: &DatabaseIdentity) -> Result<()> {
    match *identity {
        DatabaseIdentity::Empty => Ok(()),
        DatabaseIdentity::Foreign => Err(Error::new(
            Code::StateDirForeign,
            format!("{} was written by another program, probably by the Python subagent-cli", path.display()),
        )
        .with("stateDbPath", path.display().to_string())
        .recommend(
            "move the folder away (its content is left untouched), or set SUBAGENT_STATE_DIR to another one",
        )),
        DatabaseIdentity::Ours(version) if version > schema::VERSION => Err(Error::new(
            Code::StateDirTooNew,
            format!(
                "{} has schema {version}, this version of subagent knows schemas up to {}",
                path.display(),
                schema::VERSION
            ),
        )
        .with("schema", version)
        .with("supported", schema::VERSION)
        .recommend("use the newer subagent that wrote it")),
        DatabaseIdentity::Ours(_) => Ok(()),
    }
}

pub(super) enum DatabaseIdentity {
    Empty,
    Foreign,
    Ours(i64),
}

pub(super) fn read_identity(path: &Path) -> rusqlite::Result<DatabaseIdentity> {
    roll_back(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let has_wal = files::log(path).metadata().is_ok_and(|meta| meta.len() > 0);
    let connection = if has_wal {
        Connection::open_with_flags(path, flags)?
    } else {
        // `immutable` reads only the file itself, so that SQLite leaves no empty WAL beside it.
        Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)?
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, tables) {
        (schema::APPLICATION_ID, _) => DatabaseIdentity::Ours(version),
        (_, 0) => DatabaseIdentity::Empty,
        _ => DatabaseIdentity::Foreign,
    })
}

/// Rolls back a hot journal of a restore that died while the database was in rollback mode. Only a
/// writer can do that; until then every read fails.
///
/// <https://sqlite.org/lockingv3.html#hot_journals>
pub(in crate::store) fn roll_back(path: &Path) -> rusqlite::Result<()> {
    if !files::journal(path).metadata().is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// Percent-encodes characters with a meaning in a URI: <https://sqlite.org/uri.html>.
pub(super) fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte))
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

fn configure(connection: &Connection, exists: bool) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    if !exists {
        // Takes effect only before the first table exists.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The writer checkpoints when it is idle.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
    keep_statements(connection)
}

/// Makes a connection compile each statement once. Without this setting, SQLite plans with the
/// values of some parameters (a `LIMIT`, a compared column) and recompiles for each new value.
///
/// <https://sqlite.org/queryplanner-ng.html#qpstab>
pub(in crate::store) fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}
