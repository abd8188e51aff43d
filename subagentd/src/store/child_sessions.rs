//! What an agent has told of the sessions that it runs below its own.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::children::{ChildSession, Children};

use super::error::StoreError;
use super::rows::RowId;

/// More of these updates are not looked at, and not more bytes of them.
const MOST_UPDATES: i64 = 5_000;
const MOST_BYTES: i64 = 8 * 1024 * 1024;

/// Those that are known.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn known(connection: &Connection, worker: RowId) -> Result<Vec<ChildSession>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT payload FROM (SELECT seq, payload,
                    sum(length(payload)) OVER (ORDER BY seq DESC) AS bytes FROM (
                        SELECT seq, payload FROM events INDEXED BY child_sessions
                        WHERE worker = ?1 AND kind = 'subagent_update' ORDER BY seq DESC LIMIT ?2 + 0))
             WHERE bytes <= ?3 ORDER BY seq",
        )
        .map_err(StoreError::from)?;
    let mut rows = statement.query(params![worker.0, MOST_UPDATES, MOST_BYTES]).map_err(StoreError::from)?;
    let mut children = Children::default();
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        // What cannot be read is left out, as everywhere.
        if let Ok(payload) = row.get_ref(0).and_then(|text| Ok(text.as_str()?)) {
            children.see(payload);
        }
    }
    Ok(children.finish())
}

/// Those of all tasks whose agents have told of any, by the id of the task.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn of_tasks(connection: &Connection) -> Result<HashMap<String, Vec<ChildSession>>> {
    let sql = "SELECT w.worker_id, w.id FROM tasks t CROSS JOIN workers w ON w.id = t.worker
               WHERE w.removed_at IS NULL AND EXISTS
                 (SELECT 1 FROM events e INDEXED BY child_sessions WHERE e.worker = w.id AND e.kind = 'subagent_update')";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, RowId(row.get(1)?))));
    let found: Vec<(String, RowId)> = found.and_then(Iterator::collect).map_err(StoreError::from)?;
    found.into_iter().map(|(task, worker)| Ok((task, known(connection, worker)?))).collect()
}
