//! The data on which the invariants are checked.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::acknowledged::Acknowledged;

/// A state directory, what was acknowledged from it, and whether everything was stopped.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The state directory's path.
    pub state_dir: PathBuf,
    /// The folders of workers that are placed on other machines or in pods.
    pub there: Vec<PathBuf>,
    /// Folders that contain only its sockets.
    pub socket_folders: Vec<PathBuf>,
    /// What the product has acknowledged.
    pub acknowledged: Acknowledged,
    /// Whether all workers and the daemon were stopped.
    pub ended: bool,
}

impl Evidence {
    /// Opens the database read-only; `None` if there is none.
    pub(super) fn database(&self) -> Option<Connection> {
        let path = self.state_dir.join("state.db");
        path.exists().then(|| {
            // A read-only connection cannot roll back the transaction of a killed process.
            let flags = match self.state_dir.join("state.db-journal").exists() {
                true => OpenFlags::SQLITE_OPEN_READ_WRITE,
                false => OpenFlags::SQLITE_OPEN_READ_ONLY,
            };
            let database = Connection::open_with_flags(&path, flags).unwrap();
            database.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
            // All checks see one snapshot, although a daemon may keep writing.
            database.execute_batch("BEGIN").unwrap();
            super::remains::narrow(&database).unwrap();
            database
        })
    }

    /// Returns the folder of a worker's journals.
    pub(super) fn journals(&self, worker_id: &str) -> PathBuf {
        self.state_dir.join("runtimes").join(worker_id)
    }

    /// Returns the same evidence for a moved state directory.
    #[must_use]
    pub fn moved_to(&self, state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned(), ..self.clone() }
    }
}
