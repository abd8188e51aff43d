//! Archives tasks that are over: they are kept but hidden, and their names become free.
//! It must not read a clock; callers pass the time.

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::delegation::TTL_HOURS;
use subagent_protocol::time::Timestamp;

use crate::store::WorkerRow;
use crate::store::rows;
use crate::store::tx::Tx;
use crate::store::workers::row::{WORKER_COLUMNS, WORKER_TABLES};

const HOUR: i64 = 3_600_000;
/// Retention of an unfinished task after its root was removed.
const ORPHANED: i64 = 7 * 24 * HOUR;

/// SQL for the time until which an ended task can be continued.
fn until() -> String {
    format!("t.completed_at + {HOUR} * coalesce(json_extract(t.terms, '$.ttlHours'), {TTL_HOURS})")
}

/// SQL condition for tasks to archive at `?1`: ended tasks past their time without open tasks below
/// and without a result still to deliver, and orphaned tasks.
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

/// Archives all due tasks. Returns their number.
pub(crate) fn archive_due(tx: &Tx<'_>, now: Timestamp) -> Result<usize> {
    tx.execute(&format!("UPDATE tasks AS t SET archived_at = ?1 WHERE {}", is_over()), params![now.0])
}

/// Whether a task is due for archiving.
pub(crate) fn any_over(connection: &Connection, now: Timestamp) -> Result<bool> {
    let sql = format!("SELECT EXISTS (SELECT 1 FROM tasks t WHERE {})", is_over());
    rows::one(connection, &sql, [now.0], |row| row.get(0))
}

/// Returns the workers of ended and archived tasks that are still to be stopped.
pub(crate) fn to_stop(connection: &Connection) -> Result<Vec<WorkerRow>> {
    let sql = format!(
        "SELECT {WORKER_COLUMNS} FROM {WORKER_TABLES}
           JOIN tasks t ON t.worker = w.id
         WHERE t.archived_at IS NOT NULL AND t.outcome IS NOT NULL AND w.desired = 'run' AND w.removed_at IS NULL"
    );
    rows::all(connection, &sql, [], WorkerRow::read)
}

/// Returns the time at which the next ended task becomes due.
pub(crate) fn next_due(connection: &Connection) -> Result<Option<Timestamp>> {
    let sql =
        format!("SELECT min({}) FROM tasks t WHERE outcome IS NOT NULL AND archived_at IS NULL", until());
    Ok(rows::one(connection, &sql, [], |row| row.get::<_, Option<i64>>(0))?.map(Timestamp))
}

#[cfg(test)]
mod tests;
