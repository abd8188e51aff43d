//! Opening the database: whose it is, which version it has, and the settings that the promises rest on.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use subagent_protocol::{Code, Error, Result};

use super::error::StoreError;
use super::schema;

/// Nobody else writes; a reader that recovers the WAL may hold the lock for a moment.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How many compiled statements a connection keeps: more than there are.
const STATEMENTS: usize = 256;

/// What is kept of the WAL file when it begins anew: as much as it has when it is checkpointed, so that nearly every commit
/// writes over what is there. To sync a file that grows takes twice the time.
const WAL_BYTES: i64 = 5 * 1024 * 1024;

/// Before 3.51.3 a WAL reset could damage the database (<https://sqlite.org/wal.html>, "WAL-reset bug").
const OLDEST_SQLITE: i32 = 3_051_003;

pub(super) fn open_for_writing(path: &Path) -> Result<Connection> {
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
    // What a statement for many rows would have to undo is some pages, which would else be written into a file. Only now: a
    // migration may have to sort more than there is memory.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(StoreError::from)?;
    Ok(connection)
}

/// Refuses what is no file: a pipe would be waited for without end.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) fn check_kind(path: &Path) -> Result<()> {
    if path.metadata().map_or(true, |meta| meta.is_file()) {
        return Ok(());
    }
    let message = format!("{} is no regular file; no database can be kept there", path.display());
    Err(Error::new(Code::StorageError, message)
        .with("stateDbPath", path.display().to_string())
        .recommend("find out who has put it there, and move it away; `subagent doctor` says more"))
}

/// Looks at a database without changing a byte of it.
pub(super) fn inspect(path: &Path) -> Result<()> {
    allow(path, &read_identity(path).map_err(StoreError::from)?)
}

/// Refuses the database of another program, and one of a newer version.
pub(super) fn allow(path: &Path, identity: &Identity) -> Result<()> {
    match *identity {
        Identity::Empty => Ok(()),
        Identity::Foreign => Err(Error::new(
            Code::StateDirForeign,
            format!("{} was written by another program, probably by the Python subagent-cli", path.display()),
        )
        .with("stateDbPath", path.display().to_string())
        .recommend(
            "move the folder away (its content is left untouched), or set SUBAGENT_STATE_DIR to another one",
        )),
        Identity::Ours(version) if version > schema::VERSION => Err(Error::new(
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
        Identity::Ours(_) => Ok(()),
    }
}

pub(super) enum Identity {
    Empty,
    Foreign,
    Ours(i64),
}

pub(super) fn read_identity(path: &Path) -> rusqlite::Result<Identity> {
    roll_back(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let has_wal = wal_path(path).metadata().is_ok_and(|meta| meta.len() > 0);
    let connection = if has_wal {
        Connection::open_with_flags(path, flags)?
    } else {
        // Nothing but the file itself is looked at, so that not even an empty WAL is left beside it.
        Connection::open_with_flags(immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI)?
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(match (application, tables) {
        (schema::APPLICATION_ID, _) => Identity::Ours(version),
        (_, 0) => Identity::Empty,
        _ => Identity::Foreign,
    })
}

pub(super) fn wal_path(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Takes back what somebody had begun who died while the database lay in one file: only who may write can do that, so every
/// look at it would fail until then. A restore is the only one who changes it there.
///
/// <https://sqlite.org/lockingv3.html#hot_journals>
pub(super) fn roll_back(path: &Path) -> rusqlite::Result<()> {
    if !beside(path, "-journal").metadata().is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// <https://sqlite.org/uri.html>: what has a meaning of its own in a URI is escaped.
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
        // Works only before the first table.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // The writer checkpoints when it has nothing else to do.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
    keep_statements(connection)
}

/// Has each statement compiled once for a connection. Without the guarantee SQLite looks at the values of some parameters (a
/// `LIMIT`, what a column equals) when it plans, and compiles the statement anew each time that another one is bound.
///
/// <https://sqlite.org/queryplanner-ng.html#qpstab>
pub(super) fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}
