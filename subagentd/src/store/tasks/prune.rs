//! Finds archived tasks that may be removed, and the reasons that keep others.
//! It must not read a clock or remove rows; `removal` does.

use rusqlite::{Connection, params};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::{TaskQuery, TaskRow};
use crate::store::error::StoreError;
use crate::store::rows::RowId;
use crate::store::tasks;

/// An archived task that may be pruned.
#[derive(Debug)]
pub(crate) struct Archived {
    pub(crate) task: TaskRow,
    /// Whether a task below it is unfinished.
    pub(crate) is_above: bool,
}

/// Returns the tasks archived up to `up_to`, oldest first.
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
        if task.times.archived_at.is_some_and(|at| at <= up_to) {
            let is_above =
                is_above.query_row([task.task_id.as_str()], |row| row.get(0)).map_err(StoreError::from)?;
            found.push(Archived { task, is_above });
        }
    }
    Ok(found)
}

/// Checks that neither the task nor any task below it is unfinished.
///
/// # Errors
/// `WORKER_BUSY` if one is unfinished, `STORAGE_ERROR`.
pub(crate) fn may_go(connection: &Connection, task: RowId) -> Result<()> {
    let sql = "WITH RECURSIVE below (worker) AS (
                 SELECT ?1 UNION SELECT t.worker FROM tasks t JOIN below b ON t.parent = b.worker)
               SELECT count(*) FROM tasks t JOIN workers w ON w.id = t.worker
                WHERE t.worker IN (SELECT worker FROM below) AND t.outcome IS NULL AND w.removed_at IS NULL";
    match tasks::count(connection, sql, params![task.0])? {
        0 => Ok(()),
        _ => Err(Error::new(Code::WorkerBusy, "it goes on, or a task below it does")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tasks::below::tests::{below, planted, root};

    #[tokio::test]
    async fn what_goes_on_or_is_above_something_that_does_may_not_go() {
        let folder = tempfile::tempdir().unwrap();
        let tree = vec![
            root(1),
            below(1, 2, "background").ended(),
            below(2, 3, "background").ended(),
            below(3, 4, "background"),
            below(1, 5, "background").ended(),
        ];
        let store = planted(&folder.path().join("state.db"), tree).await;
        let may_go = |task| store.read(move |connection| may_go(connection, RowId(task)));
        for (task, expected) in [(2, false), (3, false), (4, false), (5, true)] {
            assert_eq!(may_go(task).await.map_err(|error| error.code).is_ok(), expected, "{task}");
        }
        assert_eq!(may_go(4).await.unwrap_err().code, Code::WorkerBusy);
    }
}
