//! What the invariants are checked on.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::acknowledged::Acknowledged;

/// A state dir, what was acknowledged from it, and whether everything was stopped.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The state dir.
    pub state_dir: PathBuf,
    /// Folders for its sockets and for nobody else's.
    pub socket_folders: Vec<PathBuf>,
    /// What the product said that it did.
    pub acknowledged: Acknowledged,
    /// Whether all workers and the daemon were stopped.
    pub ended: bool,
}

impl Evidence {
    /// The database, read only; `None` if there is none.
    pub(super) fn database(&self) -> Option<Connection> {
        let path = self.state_dir.join("state.db");
        path.exists().then(|| {
            // What somebody had begun who was killed, nobody takes back who may only read.
            let flags = match self.state_dir.join("state.db-journal").exists() {
                true => OpenFlags::SQLITE_OPEN_READ_WRITE,
                false => OpenFlags::SQLITE_OPEN_READ_ONLY,
            };
            let database = Connection::open_with_flags(&path, flags).unwrap();
            database.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
            // One view for all checks, although a daemon may go on writing.
            database.execute_batch("BEGIN").unwrap();
            super::kept::narrow(&database).unwrap();
            database
        })
    }

    /// The folder of a worker's journals.
    pub(super) fn journals(&self, worker_id: &str) -> PathBuf {
        self.state_dir.join("runtimes").join(worker_id)
    }

    /// The same state dir somewhere else.
    #[must_use]
    pub fn moved_to(&self, state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned(), ..self.clone() }
    }
}
