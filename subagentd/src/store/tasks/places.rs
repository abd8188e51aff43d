//! The slots of a task tree: running tasks, tasks that wait for a slot, and workers to notify of a
//! change.

use rusqlite::{Connection, params};
use subagent_protocol::{Code, Error, Result};

use super::{COMPLETES_LATER, below, count, ends};
use crate::store::rows::{self, RowId};
use crate::store::tx::Tx;

/// SQL condition for tasks that hold a slot: they have an open turn and no foreground task of their
/// own. Otherwise parents that wait for their tasks could hold all slots. A task that a manager
/// continued does not count as waited for.
const ACTIVE: &str = "t.outcome IS NULL AND w.state IN ('turn', 'local', 'stopping')
     AND NOT EXISTS (SELECT 1 FROM tasks c WHERE c.parent = t.worker AND c.mode = 'foreground' AND c.outcome IS NULL
                       AND c.parent_turn IS NOT NULL)";
/// SQL condition for a task whose next turn only needs a slot.
const WAITS: &str =
    "t.outcome IS NULL AND t.why IS NULL AND w.state IN ('idle', 'error') AND w.queue_pause IS NULL
     AND w.parked_until IS NULL
     AND EXISTS (SELECT 1 FROM queued_turns q WHERE q.worker = t.worker)";

/// The tree of a task and its maximum number of running tasks.
struct TaskTree {
    controller: i64,
    root: Option<i64>,
    most: i64,
}

fn tree(connection: &Connection, task: RowId) -> Result<Option<TaskTree>> {
    let sql = "SELECT controller, root, max_active FROM tasks WHERE worker = ?1";
    rows::optional(connection, sql, [task.0], |row| {
        Ok(TaskTree { controller: row.get(0)?, root: row.get(1)?, most: row.get(2)? })
    })
}

fn active(connection: &Connection, tree: &TaskTree, but: RowId) -> Result<i64> {
    let sql = format!(
        "SELECT count(*) FROM tasks t JOIN workers w ON w.id = t.worker
         WHERE t.controller = ?1 AND t.root IS ?2 AND t.worker <> ?3 AND {ACTIVE}"
    );
    count(connection, &sql, params![tree.controller, tree.root, but.0])
}

/// Checks that a waiting task may start its turn: a slot is free for it and for all tasks that
/// have waited longer.
///
/// # Errors
/// `WORKER_BUSY` if not, `STORAGE_ERROR`.
pub(crate) fn may_take(tx: &Tx<'_>, task: RowId) -> Result<()> {
    let Some(tree) = tree(tx.connection, task)? else { return Ok(()) };
    let older = format!(
        "SELECT count(*) FROM tasks t JOIN workers w ON w.id = t.worker
         WHERE t.controller = ?1 AND t.root IS ?2 AND t.worker < ?3 AND {WAITS}"
    );
    let older = count(tx.connection, &older, params![tree.controller, tree.root, task.0])?;
    if active(tx.connection, &tree, task)? + older < tree.most {
        return Ok(());
    }
    let busy = Error::new(Code::WorkerBusy, "the task tree is at its limit of running tasks").retryable();
    Err(busy.recommend("try again when one of them has ended"))
}

/// Makes the first task hold a slot that its worker does not know of.
#[cfg(test)]
pub(crate) fn pretend_active(tx: &Tx<'_>) -> Result<()> {
    tx.execute("UPDATE workers SET state = 'turn' WHERE id = (SELECT min(worker) FROM tasks)", [])?;
    pretend_task(tx, "outcome = NULL")
}

/// Sets columns in the row of the first task.
#[cfg(test)]
pub(crate) fn pretend_task(tx: &Tx<'_>, set: &str) -> Result<()> {
    tx.execute(&format!("UPDATE tasks SET {set} WHERE worker = (SELECT min(worker) FROM tasks)"), [])?;
    Ok(())
}

/// The tasks that a worker's actor has to act on, and the workers to notify.
#[derive(Debug, Default)]
pub(crate) struct Concern {
    /// State of the worker's own task, if it has one.
    pub(crate) own: Option<OwnTask>,
    /// Results not yet delivered to the worker.
    pub(crate) due: Vec<ends::UndeliveredResult>,
    /// Workers that have something to examine.
    pub(crate) ring: Vec<RowId>,
}

/// State of a worker's task.
#[derive(Debug, Clone)]
pub(crate) struct OwnTask {
    /// Whether its current run is over.
    pub(crate) ended: bool,
    /// Why it should end, unless it is ending already.
    pub(crate) unwanted: Option<String>,
    /// Whether more than its last turn is between it and its completion.
    pub(crate) completes_later: bool,
}

/// Returns the tasks that concern a worker.
pub(crate) fn concern(connection: &Connection, id: RowId) -> Result<Concern> {
    // A task with an `ending` is already ending.
    let sql = format!(
        "SELECT outcome IS NOT NULL, CASE WHEN ending IS NULL AND outcome IS NULL THEN why END, {COMPLETES_LATER}, parent
         FROM tasks t WHERE worker = ?1"
    );
    let own = rows::optional(connection, &sql, [id.0], |row| {
        let own = OwnTask { ended: row.get(0)?, unwanted: row.get(1)?, completes_later: row.get(2)? };
        Ok((own, row.get::<_, Option<i64>>(3)?.map(RowId)))
    })?;
    let mut concern = Concern { due: ends::due(connection, id)?, ..Concern::default() };
    if let Some((own, parent)) = own {
        if let Some(parent) = parent
            && own.ended
            && ends::is_due(connection, id)?
        {
            concern.ring.push(parent);
        }
        concern.own = Some(own);
        concern.ring.extend(next(connection, id)?);
    }
    concern.ring.extend(below::wanted_below(connection, id)?);
    Ok(concern)
}

/// Returns the tasks of the same tree that can take a slot now.
pub(crate) fn next(connection: &Connection, task: RowId) -> Result<Vec<RowId>> {
    let Some(tree) = tree(connection, task)? else { return Ok(Vec::new()) };
    let free = tree.most - active(connection, &tree, RowId(0))?;
    let sql = format!(
        "SELECT t.worker FROM tasks t JOIN workers w ON w.id = t.worker
         WHERE t.controller = ?1 AND t.root IS ?2 AND {WAITS} ORDER BY t.worker LIMIT ?3"
    );
    rows::all(connection, &sql, params![tree.controller, tree.root, free.max(0)], |row| row.get(0).map(RowId))
}
