//! Failures of the database, and the error that a user sees for each.

use subagent_protocol::{Code, Error};

use crate::descriptors;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error from SQLite.
    #[error("the database failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A row with a value that this program never writes.
    #[error("a row of the database is invalid: {0}")]
    BadRow(String),
    /// The writer has ended.
    #[error("the daemon is ending")]
    Closed,
    /// The thread of a read failed.
    #[error("a read of the database failed: {0}")]
    Reader(String),
    /// The bundled SQLite is too old.
    #[error("SQLite {0} has a defect that damages databases; 3.51.3 or newer is needed")]
    TooOldSqlite(String),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let full = matches!(
            &error,
            StoreError::Sqlite(rusqlite::Error::SqliteFailure(e, _)) if e.code == rusqlite::ErrorCode::DiskFull
        );
        let cannot_open = matches!(
            &error,
            StoreError::Sqlite(rusqlite::Error::SqliteFailure(e, _)) if e.code == rusqlite::ErrorCode::CannotOpen
        );
        match &error {
            // SQLite does not report why it cannot open a file.
            _ if cannot_open && descriptors::are_used_up() => {
                descriptors::too_many("cannot open the database")
            }
            StoreError::Closed => {
                Self::new(Code::DaemonNotRunning, "the daemon is ending; ask again").retryable()
            }
            _ if full => Self::new(Code::StorageFull, error.to_string())
                .retryable()
                .recommend("make room on the disk of the state dir and try again"),
            _ => {
                let mut of = Self::new(Code::StorageError, error.to_string()).recommend(advice(&error));
                of.retryable = is_locked(&error);
                of
            }
        }
    }
}

/// Returns the next step for a failure without an error code of its own.
fn advice(error: &StoreError) -> &'static str {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error {
        _ if is_locked(error) => {
            "another program keeps state.db locked (fuser or lsof names it); end it and try again"
        }
        StoreError::Sqlite(rusqlite::Error::SqliteFailure(failure, _)) => match failure.code {
            DatabaseCorrupt | NotADatabase => {
                "state.db is damaged: move the state dir away to start over, or put a copy of it back"
            }
            _ => "look at the disk and the permissions of the state dir, and at logs/subagentd.log in it",
        },
        _ => "look at logs/subagentd.log in the state dir",
    }
}

fn is_locked(error: &StoreError) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error, StoreError::Sqlite(rusqlite::Error::SqliteFailure(failure, _)) if matches!(failure.code, DatabaseBusy | DatabaseLocked))
}
