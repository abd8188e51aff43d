//! Whether the database is sound: what SQLite itself says, within bounds.
//!
//! Looks only. What is found is told, never repaired.

use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use subagent_protocol::Result;
use subagent_protocol::api::ExaminedDatabase;
use tokio::sync::oneshot;

use super::Store;
use super::error::StoreError;
use super::rows::{RowId, WORKER_COLUMNS, WorkerRow};

/// More than these are not told: one damaged page can make thousands.
const MOST_PROBLEMS: usize = 20;

impl Store {
    /// Runs SQLite's checks for at most so long.
    ///
    /// # Errors
    /// `STORAGE_ERROR` when not even the sizes can be read.
    pub async fn examine(&self, time: Duration) -> Result<ExaminedDatabase> {
        let (begun, handle) = oneshot::channel();
        let mut look = std::pin::pin!(self.read(move |connection| {
            // Nobody waits for it any more when the request is gone; the checks end at their own bound then.
            let _ = begun.send(connection.get_interrupt_handle());
            examine(connection).map_err(|error| StoreError::from(error).into())
        }));
        let mut handle = std::pin::pin!(handle);
        let interrupt: Option<InterruptHandle> = tokio::select! {
            found = &mut look => return found,
            handle = &mut handle => handle.ok(),
        };
        tokio::select! {
            found = &mut look => return found,
            () = tokio::time::sleep(time) => {}
        }
        if let Some(interrupt) = interrupt {
            interrupt.interrupt();
        }
        look.await
    }
}

fn examine(connection: &Connection) -> rusqlite::Result<ExaminedDatabase> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let size = |name: &str| pragma(name).map(|number| u64::try_from(number).unwrap_or(0));
    let mut found = ExaminedDatabase {
        schema: pragma("user_version")?,
        page_bytes: size("page_size")?,
        pages: size("page_count")?,
        free_pages: size("freelist_count")?,
        complete: true,
        ..ExaminedDatabase::default()
    };
    // What a check stumbles over is what it has found.
    for check in [quick_check, foreign_keys, readable_workers] {
        match check(connection, &mut found) {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => {
                found.complete = false;
                break;
            }
            Err(error) => found.problems.push(error.to_string()),
            Ok(()) => {}
        }
    }
    found.problems.truncate(MOST_PROBLEMS);
    Ok(found)
}

fn quick_check(connection: &Connection, found: &mut ExaminedDatabase) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA quick_check({MOST_PROBLEMS})"))?;
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
        if found.problems.len() >= MOST_PROBLEMS {
            break;
        }
    }
    Ok(())
}

fn readable_workers(connection: &Connection, found: &mut ExaminedDatabase) -> rusqlite::Result<()> {
    let sql = format!("SELECT {WORKER_COLUMNS} FROM workers w JOIN controllers c ON c.id = w.controller");
    let mut statement = connection.prepare(&sql)?;
    for row in statement.query_map([], WorkerRow::read)? {
        match row {
            Err(rusqlite::Error::FromSqlConversionFailure(..)) => found.unreadable_workers += 1,
            other => drop(other?),
        }
    }
    Ok(())
}

/// How often records of a worker's journal were missing.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn gaps(connection: &Connection, worker: RowId) -> Result<u64> {
    let sql = "SELECT count(*) FROM events INDEXED BY milestones
               WHERE worker = ?1 AND type = 'journal.gap' AND internal = 0 AND kind IS NULL";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let count: i64 = statement.query_row([worker.0], |row| row.get(0)).map_err(StoreError::from)?;
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
        let found = store.examine(Duration::from_secs(60)).await.unwrap();
        assert!(found.complete && found.problems.is_empty() && found.pages > 0, "{found:?}");
        assert_eq!(found.schema, super::super::schema::VERSION);
        store.close().await;
    }

    #[tokio::test]
    async fn a_row_that_refers_to_nothing_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path()).await;
        let other = Connection::open(dir.path().join("state.db")).unwrap();
        other.pragma_update(None, "foreign_keys", false).unwrap();
        let sql =
            "INSERT INTO handoffs (snapshot_id, worker, up_to, handoff_path, checkpoint_path, created_at)
                   VALUES ('hs_1', 99, 0, '', '', 0)";
        other.execute(sql, []).unwrap();
        let found = store.examine(Duration::from_secs(60)).await.unwrap();
        assert!(found.problems.iter().any(|problem| problem.contains("handoffs")), "{found:?}");
        store.close().await;
    }
}
