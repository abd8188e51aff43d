//! What remains of deleted data. Most checks do not see it: their views of the database omit it.

use rusqlite::{Connection, OptionalExtension};

/// What remains of a worker's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// The worker was removed.
    Nothing,
    /// All events above this one, and only the needed ones below.
    Above(i64),
}

/// Hides removed workers, and events below the marks of the others. A database that this version's
/// daemon has not opened has neither.
pub(super) fn narrow(database: &Connection) -> rusqlite::Result<()> {
    let knows = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('workers') WHERE name = 'expired_seq')";
    if !database.query_row(knows, [], |row| row.get(0))? {
        return Ok(());
    }
    database.execute_batch(
        "CREATE TEMP VIEW workers AS SELECT * FROM main.workers WHERE removed_at IS NULL;
         CREATE TEMP VIEW events AS SELECT e.* FROM main.events e JOIN main.workers w ON w.id = e.worker
             WHERE w.removed_at IS NULL AND e.seq > w.expired_seq;
         CREATE TEMP VIEW turns AS SELECT t.* FROM main.turns t JOIN main.workers w ON w.id = t.worker
             WHERE w.removed_at IS NULL AND t.message_seq > w.expired_seq;
         CREATE TEMP VIEW approvals AS SELECT a.* FROM main.approvals a JOIN main.workers w ON w.id = a.worker
             WHERE w.removed_at IS NULL AND a.asked_seq > w.expired_seq",
    )
}

/// Returns what remains of a worker's events; everything for a worker that was never stored.
pub(super) fn of(database: &Connection, worker: &str) -> rusqlite::Result<Kept> {
    let removed = "SELECT EXISTS (SELECT 1 FROM removed_workers WHERE worker_id = ?1)";
    if database.prepare_cached(removed)?.query_row([worker], |row| row.get(0))? {
        return Ok(Kept::Nothing);
    }
    let mark = "SELECT expired_seq FROM main.workers WHERE worker_id = ?1";
    let mark: Option<i64> =
        database.prepare_cached(mark)?.query_row([worker], |row| row.get(0)).optional()?;
    Ok(Kept::Above(mark.unwrap_or(0)))
}

impl Kept {
    /// Whether this event may be missing.
    pub(super) fn has_lost(self, seq: i64) -> bool {
        match self {
            Self::Nothing => true,
            Self::Above(mark) => seq <= mark,
        }
    }
}
