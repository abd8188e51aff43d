//! Which tasks are over for good: they are kept, and hidden; their names are free.
//!
//! Must not look at a clock: what time it is is said by the caller.

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::delegation::TTL_HOURS;
use subagent_protocol::time::Timestamp;

use super::WorkerRow;
use super::error::StoreError;
use super::rows::{self, WORKER_COLUMNS};
use super::tx::Tx;

const HOUR: i64 = 3_600_000;
/// What has not ended and has lost its root is given so long.
const ORPHANED: i64 = 7 * 24 * HOUR;

/// Until when a task that has ended can be gone on with.
fn until() -> String {
    format!("t.completed_at + {HOUR} * coalesce(json_extract(t.terms, '$.ttlHours'), {TTL_HOURS})")
}

/// What is to be archived at `?1`: what has ended for long, if nothing below it is open and nothing of it is to be told; and
/// what goes on without a root for long.
fn is_over() -> String {
    format!(
        "t.archived_at IS NULL AND (
           t.outcome IS NOT NULL AND {} <= ?1
             AND NOT EXISTS (SELECT 1 FROM tasks b WHERE b.parent = t.worker AND b.outcome IS NULL)
             AND NOT EXISTS (SELECT 1 FROM task_deliveries d
                             WHERE d.turn_id IS NULL AND (d.parent = t.worker OR d.task = t.worker))
           OR t.outcome IS NULL AND t.root IS NOT NULL AND t.created_at + {ORPHANED} <= ?1
             AND NOT EXISTS (SELECT 1 FROM workers r
                             WHERE r.id = t.root AND r.state <> 'stopped' AND r.removed_at IS NULL))",
        until()
    )
}

impl Tx<'_> {
    /// Archives what is to be. Says how many tasks these were.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) fn archive_tasks(&self, now: Timestamp) -> Result<usize> {
        self.execute(&format!("UPDATE tasks AS t SET archived_at = ?1 WHERE {}", is_over()), params![now.0])
    }
}

/// Whether something is to be archived.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn any_over(connection: &Connection, now: Timestamp) -> Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM tasks t WHERE {})", is_over());
    Ok(rows::one(connection, &sql, [now.0], |row| row.get(0)).map_err(StoreError::from)?)
}

/// The workers of tasks that were archived after their end and are not stopped yet.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn to_stop(connection: &Connection) -> Result<Vec<WorkerRow>> {
    let sql = format!(
        "SELECT {WORKER_COLUMNS} FROM workers w JOIN controllers c ON c.id = w.controller
           JOIN tasks t ON t.worker = w.id
         WHERE t.archived_at IS NOT NULL AND t.outcome IS NOT NULL AND w.desired = 'run' AND w.removed_at IS NULL"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let found = statement.query_map([], WorkerRow::read).and_then(Iterator::collect);
    Ok(found.map_err(StoreError::from)?)
}

/// When the next task that has ended is old enough.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn next_due(connection: &Connection) -> Result<Option<Timestamp>> {
    let sql =
        format!("SELECT min({}) FROM tasks t WHERE outcome IS NOT NULL AND archived_at IS NULL", until());
    let found = rows::one(connection, &sql, [], |row| row.get::<_, Option<i64>>(0));
    Ok(found.map_err(StoreError::from)?.map(Timestamp))
}

#[cfg(test)]
mod tests;
