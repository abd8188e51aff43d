//! Reads the newest events of a worker for a summary of its activity. The cost does not grow with
//! its history.

use rusqlite::{Connection, params};
use subagent_model::Activity;
use subagent_protocol::Result;

use super::COLUMNS;
use crate::store::events;
use crate::store::rows::{self, RowId};

/// Maximum number of examined events.
const MAX_EVENTS: i64 = 1000;
/// Maximum size of an examined payload in bytes. A larger one is content, not a summary.
const MAX_PAYLOAD_BYTES: i64 = 64 * 1024;

/// Summarizes the newest events of a worker.
pub(crate) fn recent(connection: &Connection, worker: RowId) -> Result<Activity> {
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT * FROM events WHERE worker = ?1 AND internal = 0
           ORDER BY seq DESC LIMIT ?2) e
         LEFT JOIN turns t ON t.id = e.turn WHERE length(e.payload) <= ?3 ORDER BY e.seq"
    );
    let mut recent = Activity::default();
    rows::each(connection, &sql, params![worker.0, MAX_EVENTS, MAX_PAYLOAD_BYTES], |row| {
        // An unreadable row is skipped.
        if let Ok(event) = events::read(row) {
            recent.see(event);
        }
        Ok(())
    })?;
    Ok(recent)
}
