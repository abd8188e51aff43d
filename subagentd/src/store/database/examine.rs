//! Checks the integrity of the database with SQLite's own checks, within time and count limits.
//! It only reports problems and never repairs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, InterruptHandle};
use subagent_protocol::Result;
use subagent_protocol::api::ExaminedDatabase;
use tokio::sync::oneshot;

use crate::store::error::StoreError;
use crate::store::rows::{self, RowId};
use crate::store::workers::row::{WORKER_COLUMNS, WORKER_TABLES, WorkerRow};
use crate::store::{Store, open_for_reading};

/// Maximum number of reported problems: one damaged page can cause thousands.
const MAX_PROBLEMS: usize = 20;

impl Store {
    /// Runs SQLite's checks for at most `time`; with `None` only reads sizes and versions. Checks
    /// run one at a time, each on its own connection, so an interrupt at the deadline ends no other
    /// query.
    ///
    /// # Errors
    /// `STORAGE_ERROR` when even the sizes cannot be read.
    pub(crate) async fn examine(&self, time: Option<Duration>) -> Result<ExaminedDatabase> {
        let turn = match time {
            Some(_) => Some(Arc::clone(&self.examining).lock_owned().await),
            None => None,
        };
        let path = Arc::clone(&self.path);
        let (begun, handle) = oneshot::channel();
        let look = tokio::task::spawn_blocking(move || {
            // Kept even if the request is dropped: the next check must not begin before this one
            // has ended.
            let _turn = turn;
            let connection = open_for_reading(&path)?;
            // If the request was dropped, the handle has no receiver.
            let _ = begun.send(Interrupts(connection.get_interrupt_handle()));
            let deadline = time.map(|time| Instant::now() + time);
            Ok(examine(&connection, deadline).map_err(StoreError::from)?)
        });
        let mut look = std::pin::pin!(look);
        // Dropping the request interrupts the checks as well.
        let interrupt = handle.await.ok();
        let ended = tokio::time::timeout(time.unwrap_or(Duration::MAX), &mut look).await;
        let found = match ended {
            Ok(found) => found,
            Err(_) => {
                drop(interrupt);
                look.await
            }
        };
        found.unwrap_or_else(|error| Err(StoreError::Reader(error.to_string()).into()))
    }
}

/// Interrupts the queries of a connection when dropped.
struct Interrupts(InterruptHandle);

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

fn examine(connection: &Connection, deadline: Option<Instant>) -> rusqlite::Result<ExaminedDatabase> {
    let pragma = |name: &str| {
        let ask = || connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        // The interrupt at the deadline may hit this query, which is quick, so it is repeated.
        ask().or_else(|error| if is_interrupt(&error) { ask() } else { Err(error) })
    };
    let size = |name: &str| pragma(name).map(|number| u64::try_from(number).unwrap_or(0));
    let mut found = ExaminedDatabase {
        schema: pragma("user_version")?,
        page_bytes: size("page_size")?,
        pages: size("page_count")?,
        free_pages: size("freelist_count")?,
        complete: deadline.is_some(),
        ..ExaminedDatabase::default()
    };
    let Some(deadline) = deadline else { return Ok(found) };
    // Errors of a check count as findings. Quick checks come first, because a large database may
    // not finish all.
    for check in [readable_workers, quick_check, foreign_keys] {
        // An interrupt between two checks would end neither.
        if Instant::now() >= deadline {
            found.complete = false;
            break;
        }
        match check(connection, &mut found) {
            Err(error) if is_interrupt(&error) => {
                found.complete = false;
                break;
            }
            Err(error) => found.problems.push(error.to_string()),
            Ok(()) => {}
        }
    }
    found.problems.truncate(MAX_PROBLEMS);
    Ok(found)
}

fn is_interrupt(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted)
}

fn quick_check(connection: &Connection, found: &mut ExaminedDatabase) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA quick_check({MAX_PROBLEMS})"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let said: String = row.get(0)?;
        if said != "ok" {
            found.problems.push(said);
        }
    }
    Ok(())
}

fn foreign_keys(connection: &Connection, found: &mut ExaminedDatabase) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, id, parent): (String, Option<i64>, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        found.problems.push(format!(
            "row {} of {table} refers to a row of {parent} that does not exist",
            id.unwrap_or(0)
        ));
        if found.problems.len() >= MAX_PROBLEMS {
            break;
        }
    }
    Ok(())
}

fn readable_workers(connection: &Connection, found: &mut ExaminedDatabase) -> rusqlite::Result<()> {
    let sql = format!("SELECT {WORKER_COLUMNS} FROM {WORKER_TABLES}");
    let mut statement = connection.prepare(&sql)?;
    for row in statement.query_map([], WorkerRow::read)? {
        match row {
            Err(rusqlite::Error::FromSqlConversionFailure(..)) => found.unreadable_workers += 1,
            other => drop(other?),
        }
    }
    Ok(())
}

/// Returns the ids of all workers that were not removed, even with unreadable columns. It reads the
/// table, because an index may lack rows.
pub(crate) fn known_workers(connection: &Connection) -> Result<Vec<String>> {
    let sql = "SELECT CAST(worker_id AS TEXT) FROM workers NOT INDEXED WHERE removed_at IS NULL";
    let mut statement = connection.prepare(sql).map_err(StoreError::from)?;
    let ids = statement.query_map([], |row| row.get(0)).map_err(StoreError::from)?;
    Ok(ids.collect::<rusqlite::Result<_>>().map_err(StoreError::from)?)
}

/// Counts the gaps in the records of a worker's journal.
pub(crate) fn gaps(connection: &Connection, worker: RowId) -> Result<u64> {
    let sql = "SELECT count(*) FROM events INDEXED BY milestones
               WHERE worker = ?1 AND type = 'journal.gap' AND internal = 0 AND kind IS NULL";
    let count: i64 = rows::one(connection, sql, [worker.0], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn store(dir: &std::path::Path) -> Store {
        Store::open(&dir.join("state.db")).unwrap()
    }

    #[tokio::test]
    async fn a_new_database_is_sound() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        let found = store.examine(Some(Duration::from_secs(60))).await.unwrap();
        assert!(found.complete && found.problems.is_empty() && found.pages > 0, "{found:?}");
        assert_eq!(found.schema, crate::store::database::schema::VERSION);
        store.close().await;
    }

    #[tokio::test]
    async fn a_row_that_refers_to_nothing_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        let other = Connection::open(dir.path().join("state.db")).unwrap();
        other.pragma_update(None, "foreign_keys", false).unwrap();
        let sql =
            "INSERT INTO handoffs (snapshot_id, worker, up_to, handoff_path, checkpoint_path, created_at)
                   VALUES ('hs_1', 99, 0, '', '', 0)";
        other.execute(sql, []).unwrap();
        let found = store.examine(Some(Duration::from_secs(60))).await.unwrap();
        assert!(found.problems.iter().any(|problem| problem.contains("handoffs")), "{found:?}");
        store.close().await;
    }

    #[tokio::test]
    async fn without_a_time_nothing_is_checked_and_one_waits_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        let turn = Arc::clone(&store.examining).lock_owned().await;
        let found = store.examine(None).await.unwrap();
        assert!(!found.complete && found.pages > 0, "{found:?}");
        let mut waits = std::pin::pin!(store.examine(Some(Duration::from_secs(60))));
        let at_once = tokio::time::timeout(Duration::from_millis(50), &mut waits).await;
        assert!(at_once.is_err(), "two ran at the same time");
        drop(turn);
        assert!(waits.await.unwrap().complete);
        store.close().await;
    }

    #[tokio::test]
    async fn checks_whose_time_is_over_are_ended() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        let found = store.examine(Some(Duration::ZERO)).await.unwrap();
        assert!(!found.complete && found.problems.is_empty(), "{found:?}");
        store.close().await;
    }
}
