//! Which archived tasks may be removed, and what keeps the others.
//!
//! Must not look at a clock, and removes nothing: that is `removal`'s.

use rusqlite::Connection;
use subagent_protocol::Result;
use subagent_protocol::time::Timestamp;

use super::error::StoreError;
use super::tasks::{self, TaskQuery, TaskRow};

/// An archived task.
#[derive(Debug)]
pub(crate) struct Archived {
    pub(crate) task: TaskRow,
    /// Whether something below it goes on.
    pub(crate) is_above: bool,
}

/// The tasks that were archived up to then, the oldest first.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn archived(connection: &Connection, up_to: Timestamp) -> Result<Vec<Archived>> {
    let query = TaskQuery { archived: true, ..TaskQuery::default() };
    let sql = "WITH RECURSIVE below (worker) AS (
                 SELECT t.worker FROM tasks t JOIN workers p ON p.id = t.parent WHERE p.worker_id = ?1
                 UNION SELECT t.worker FROM tasks t JOIN below b ON t.parent = b.worker)
               SELECT EXISTS (SELECT 1 FROM tasks t JOIN workers w ON w.id = t.worker
                               WHERE t.worker IN (SELECT worker FROM below) AND t.outcome IS NULL AND w.removed_at IS NULL)";
    let mut is_above = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let mut found = Vec::new();
    for task in tasks::list(connection, &query)? {
        if task.archived_at.is_some_and(|at| at <= up_to) {
            let is_above =
                is_above.query_row([task.task_id.as_str()], |row| row.get(0)).map_err(StoreError::from)?;
            found.push(Archived { task, is_above });
        }
    }
    Ok(found)
}
