//! SQLite: the only module that opens `state.db`. One thread writes; short reads run on tokio's
//! blocking threads.
//! It holds no rules about workers, only the form of their rows.

pub(crate) mod accounts;
pub(crate) mod controllers;
pub(crate) mod database;
pub(crate) mod deliveries;
mod error;
pub(crate) mod events;
pub(crate) mod facts;
pub(crate) mod handoffs;
pub(crate) mod hook_events;
pub(crate) mod hook_trust;
pub(crate) mod questions;
mod recent_workers;
pub(crate) mod removal;
pub(crate) mod requests;
pub(crate) mod retention;
mod rows;
pub(crate) mod schedules;
pub(crate) mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod turns;
mod tx;
pub(crate) mod workers;
pub(crate) mod worktrees;
mod write_queue;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use rusqlite::Connection;
use rusqlite::OpenFlags;
use subagent_protocol::{Code, Result};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, watch};

use super::descriptors;

pub(crate) use controllers::{ControllerRow, HandleValidity, NewOwner, OwnerCheck, OwnerRow};
pub(crate) use database::backup::{Backup, BackupCopy};
pub(crate) use database::examine::{gaps, known_workers};
pub use database::schema::{APPLICATION_ID, VERSION as SCHEMA};
pub(crate) use error::StoreError;
pub(crate) use events::{EventPage, EventQuery};
#[cfg(test)]
pub(crate) use recent_workers::RecentWorkers;
pub(crate) use requests::Execution;
pub(crate) use rows::{Cursor, NewEvent, NewWorker, RowId};
pub(crate) use tx::Tx;
pub(crate) use workers::names::NewName;
pub(crate) use workers::row::WorkerRow;
#[cfg(test)]
pub(crate) use writer::{BATCH_WEIGHT, PROGRESS_INTERVAL, SYNC_AFTER};
pub(crate) use writer::{Durability, ForeignKeys};

/// Maximum number of parallel queries, each on its own connection. Some also access files, which
/// may hang.
const READERS: usize = 32;
/// Number of idle read connections that are kept.
const IDLE_READERS: usize = 4;

/// The database of a state dir. A clone is cheap; dropping the last one ends the writer.
#[derive(Clone)]
pub(crate) struct Store {
    path: Arc<PathBuf>,
    writer: Arc<writer::Writer>,
    readers: Arc<Mutex<Vec<Connection>>>,
    /// One permit per running query.
    reading: Arc<Semaphore>,
    /// Held while the integrity checks run.
    examining: Arc<tokio::sync::Mutex<()>>,
}

impl Store {
    /// Opens or creates the database. It leaves a foreign or newer database untouched.
    ///
    /// # Errors
    /// `STATE_DIR_FOREIGN`, `STATE_DIR_TOO_NEW`, or `STORAGE_ERROR` with SQLite's message.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let left_behind = database::files::log(path).metadata().is_ok_and(|wal| wal.len() > 0);
        let connection = database::open::open_for_writing(path).map_err(|mut error| {
            if error.code == Code::StorageError {
                error.message = format!("{}: {}", path.display(), error.message);
            }
            error.with("stateDbPath", path.display().to_string())
        })?;
        let writer = writer::Writer::start(connection, left_behind)?;
        Ok(Self {
            path: Arc::new(path.to_owned()),
            writer: Arc::new(writer),
            readers: Arc::default(),
            reading: Arc::new(Semaphore::new(descriptors::max_readers(descriptors::limit(), READERS))),
            examining: Arc::default(),
        })
    }

    /// Path of the database file.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `job` in the writer's next transaction, and returns after the commit.
    ///
    /// Each job has its own savepoint, so a failing job does not undo others. `weight` is the
    /// approximate number of events that it adds; it bounds the size of a transaction. Dropping the
    /// future does not undo the job.
    ///
    /// # Errors
    /// The job's own error, or `STORAGE_ERROR`/`STORAGE_FULL` when the commit failed.
    pub(crate) async fn write<T, F>(&self, durability: Durability, weight: usize, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.writer.submit(durability, weight, job).await
    }

    /// Runs `job` in a low-priority transaction of its own: waiting jobs go first. The commit
    /// survives the death of any process, but a power loss may undo it.
    ///
    /// # Errors
    /// The job's own error, `STORAGE_ERROR`, `STORAGE_FULL`, or `DAEMON_NOT_RUNNING` when the store
    /// is closing.
    pub(crate) async fn chore<T, F>(&self, references: ForeignKeys, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.writer.chore(references, job).await
    }

    /// Runs a query on a read connection, on the thread of the caller: waking another thread takes
    /// longer than most queries. Nearly all are short, so it waits for a connection without a
    /// deadline.
    ///
    /// # Errors
    /// The query's own error, or `STORAGE_ERROR`.
    pub(crate) async fn read<T, F>(&self, query: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let Ok(_permit) = self.reading.acquire().await else {
            return Err(StoreError::Closed.into());
        };
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::CurrentThread => self.read_here(query),
            _ => tokio::task::block_in_place(|| self.read_here(query)),
        }
    }

    fn read_here<T>(&self, query: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open_for_reading(&self.path)?,
        };
        let result = query(&connection);
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < IDLE_READERS {
            readers.push(connection);
        }
        result
    }

    /// Copies the database into a file while the daemon runs. `stop` aborts the copy.
    ///
    /// # Errors
    /// Those of making the copy; `DAEMON_NOT_RUNNING` if it was stopped.
    pub(crate) async fn back_up(
        &self,
        backup: Backup,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<BackupCopy> {
        let path = Arc::clone(&self.path);
        let stopped = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stopped);
        let copying = tokio::task::spawn_blocking(move || backup.make(&path, &stopping));
        tokio::pin!(copying);
        let done = tokio::select! {
            done = &mut copying => done,
            () = stop => {
                stopped.store(true, Ordering::Relaxed);
                // The unfinished copy is removed before the daemon ends.
                return match copying.await {
                    Ok(Ok(copied)) => Ok(copied),
                    _ => Err(StoreError::Closed.into()),
                };
            }
        };
        done.unwrap_or_else(|error| Err(StoreError::Reader(error.to_string()).into()))
    }

    /// Watches the sequence number of the newest committed event that its worker's ancestors
    /// receive. It starts at 0 on open.
    pub(crate) fn newest_task_event(&self) -> watch::Receiver<i64> {
        self.writer.newest_task_event()
    }

    /// Watches the sequence number of the newest committed question. It starts at 0 on open.
    pub(crate) fn asked(&self) -> watch::Receiver<i64> {
        self.writer.asked()
    }

    /// Commits waiting jobs and ends the writer. Later writes fail.
    pub(crate) async fn close(&self) {
        self.writer.close().await;
    }
}

fn open_for_reading(path: &Path) -> Result<Connection> {
    database::open::check_kind(path)?;
    database::open::roll_back(path).map_err(StoreError::from)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(StoreError::from)?;
    connection.busy_timeout(database::open::BUSY_TIMEOUT).map_err(StoreError::from)?;
    database::open::keep_statements(&connection).map_err(StoreError::from)?;
    Ok(connection)
}
