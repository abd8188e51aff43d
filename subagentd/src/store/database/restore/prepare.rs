//! Turns a backup into a current database: copies, checks and migrates it. The backup file is only
//! read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use subagent_protocol::{Code, Error, Result};

use super::failed;
use crate::store::database::backup::{check, check_space};
use crate::store::database::files::{self, DATABASE};
use crate::store::database::open::{BUSY_TIMEOUT, DatabaseIdentity, read_identity};
use crate::store::database::schema;
use crate::store::error::StoreError;

/// Block size of the copy, in bytes.
const COPY_BYTES: usize = 1024 * 1024;

pub(super) fn copy(file: &Path, state_dir: &Path, to: &Path) -> Result<()> {
    let unreadable = |error: &io::Error| {
        let path = file.display().to_string();
        Error::new(Code::InvalidArgument, format!("the backup {path} cannot be read: {error}"))
            .with("path", path)
            .with("error", error.to_string())
            .recommend(
                "name a file that `subagent backup` has written and that you may read; nothing was changed",
            )
    };
    let meta = fs::metadata(file).map_err(|error| unreadable(&error))?;
    if !meta.is_file() {
        return Err(unreadable(&io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    let database = fs::metadata(state_dir.join(DATABASE));
    if database.is_ok_and(|database| (database.dev(), database.ino()) == (meta.dev(), meta.ino())) {
        return Err(unreadable(&io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is the database of this state dir itself",
        )));
    }
    let wal = files::log(file);
    let bytes = meta.len() + fs::metadata(&wal).map_or(0, |wal| wal.len());
    check_space(state_dir, bytes, "name another state dir with SUBAGENT_STATE_DIR")?;
    let mut sources = vec![(file.to_owned(), to.to_owned())];
    if wal.exists() {
        sources.push((wal, files::log(to)));
    }
    for (from, to) in sources {
        let mut source = File::open(&from).map_err(|error| unreadable(&error))?;
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)
            .map_err(|error| failed(&to, &error));
        let mut target = written?;
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            let length = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unreadable(&error)),
            };
            subagent_failpoint::check("restore.before_write")
                .and_then(|()| target.write_all(&buffer[..length]))
                .map_err(|error| failed(&to, &error))?;
        }
    }
    Ok(())
}

/// Checks the copy of a backup and migrates it to the current schema. Returns also its original
/// schema version.
pub(super) fn ready(file: &Path, path: &Path) -> Result<(Connection, i64)> {
    let invalid = |reason: String| {
        let message = format!("{} cannot be restored: {reason}", file.display());
        Error::new(Code::BackupInvalid, message)
            .with("path", file.display().to_string())
            .with("reason", reason)
            .recommend("restore a file that `subagent backup` has written; nothing was changed")
    };
    let damaged = |error: &dyn std::fmt::Display| invalid(format!("it is damaged or no database: {error}"));
    let version = match read_identity(path).map_err(|error| damaged(&error))? {
        DatabaseIdentity::Ours(version) if version > schema::VERSION => {
            let newest = schema::VERSION;
            return Err(invalid(format!("it has schema {version}, and {newest} is the newest known here"))
                .with("schema", version)
                .with("supported", newest));
        }
        DatabaseIdentity::Ours(version) => version,
        DatabaseIdentity::Empty | DatabaseIdentity::Foreign => {
            return Err(invalid("another program wrote it".to_owned()));
        }
    };
    let mut connection = open(path).map_err(|error| damaged(&error))?;
    let migrated = connection
        .query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
        .and_then(|()| connection.pragma_update(None, "foreign_keys", true))
        .and_then(|()| schema::migrate(&mut connection))
        .and_then(|()| schema::is_current(&connection));
    match migrated {
        Ok(true) => {}
        Ok(false) => return Err(invalid("its tables are not those of subagent".to_owned())),
        Err(error) if is_full(&error) => return Err(StoreError::from(error).into()),
        Err(error) => return Err(damaged(&error)),
    }
    check(&connection).map_err(|error| damaged(&error.message))?;
    Ok((connection, version))
}

fn is_full(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if failure.code == ErrorCode::DiskFull)
}

pub(super) fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        // `ATTACH` takes a URI.
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}
