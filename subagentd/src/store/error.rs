//! What can go wrong with the database, and the error that a user sees for it.

use subagent_protocol::{Code, Error};

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite's own.
    #[error("the database failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A value in a row that this program never writes.
    #[error("a row of the database holds what cannot be: {0}")]
    BadRow(String),
    /// The writer is gone.
    #[error("the daemon is ending")]
    Closed,
    /// A reader's thread failed.
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
        match &error {
            StoreError::Closed => {
                Self::new(Code::DaemonNotRunning, "the daemon is ending; ask again").retryable()
            }
            _ if full => Self::new(Code::StorageFull, error.to_string())
                .retryable()
                .recommend("make room on the disk of the state dir and try again"),
            _ => Self::new(Code::StorageError, error.to_string()),
        }
    }
}
