//! Sessions that an agent runs below its own, as the agent reported them.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use subagent_protocol::Result;
use subagent_protocol::children::{ChildSession, ChildSessions};
use subagent_protocol::ids::WorkerId;

use crate::store::error::StoreError;
use crate::store::rows::{self, RowId};

/// Limits on the updates that are read for one worker.
const MAX_UPDATES: i64 = 5_000;
const MAX_BYTES: i64 = 8 * 1024 * 1024;

/// Lists the child sessions of a worker.
pub(crate) fn known(connection: &Connection, worker: RowId) -> Result<Vec<ChildSession>> {
    let sql = "SELECT payload FROM (SELECT seq, payload,
                      sum(length(payload)) OVER (ORDER BY seq DESC) AS bytes FROM (
                          SELECT seq, payload FROM events INDEXED BY child_sessions
                          WHERE worker = ?1 AND kind = 'subagent_update' ORDER BY seq DESC LIMIT ?2))
               WHERE bytes <= ?3 ORDER BY seq";
    let mut children = ChildSessions::default();
    rows::each(connection, sql, params![worker.0, MAX_UPDATES, MAX_BYTES], |row| {
        // An unreadable row is skipped.
        if let Ok(payload) = row.get_ref(0).and_then(|text| Ok(text.as_str()?)) {
            children.see(payload);
        }
        Ok(())
    })?;
    Ok(children.finish())
}

/// Number of tasks of a list whose child sessions are read: agents write that data.
const MAX_TASKS: usize = 20;

/// Returns the child sessions of the last [`MAX_TASKS`] of these tasks that have any, by task id.
pub(crate) fn of_tasks<'a>(
    connection: &Connection,
    tasks: impl DoubleEndedIterator<Item = &'a WorkerId>,
) -> Result<HashMap<WorkerId, Vec<ChildSession>>> {
    let sql = "SELECT w.id FROM workers w WHERE w.worker_id = ?1 AND EXISTS
                 (SELECT 1 FROM events e INDEXED BY child_sessions WHERE e.worker = w.id AND e.kind = 'subagent_update')";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let mut found = HashMap::new();
    for task in tasks.rev() {
        if found.len() == MAX_TASKS {
            break;
        }
        let worker = statement.query_row([task.as_str()], |row| Ok(RowId(row.get(0)?))).optional();
        if let Some(worker) = worker.map_err(StoreError::from)? {
            found.insert(task.clone(), known(connection, worker)?);
        }
    }
    Ok(found)
}
