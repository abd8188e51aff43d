//! What triggers wait for: whether it can still occur, and what a watched command has written last.

use rusqlite::{Connection, Row, params};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::schedule::FiringStatus;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::ScheduleRow;
use super::ends::{self, FiringEnd};
use super::firings::{self, NewFiring};
use crate::store::rows::{self, RowId};
use crate::store::tx::Tx;
use crate::store::{tasks, workers};

/// The result of one run of a watched command.
#[derive(Debug, Clone)]
pub(crate) enum Observation {
    /// Its output, and the SHA-256 of that.
    Output { text: String, sha256: String },
    /// Why there is none.
    Failed(Error),
}

/// Why no message can be sent to a worker, if that is so. The worker is an id or a name.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn cannot_be_sent_to(connection: &Connection, worker: &str) -> Result<Option<Error>> {
    Ok(match workers::get(connection, &workers::names::id_of(connection, worker)?)? {
        None => {
            let message = format!("there is no worker {worker}");
            Some(Error::new(Code::WorkerNotFound, message).with("workerId", worker))
        }
        Some(row) if matches!(row.state.as_str(), "stopping" | "stopped") => {
            let message = format!("the worker {} is stopped: nothing can be sent to it", row.name);
            Some(Error::new(Code::WorkerStopped, message).with("workerId", worker))
        }
        Some(_) => None,
    })
}

/// Why the message or the task of a firing does not begin: the queue of its worker is paused.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn is_held_up(connection: &Connection, worker: &WorkerId) -> Result<Option<Error>> {
    let sql = "SELECT name, queue_pause FROM workers WHERE worker_id = ?1 AND queue_pause IS NOT NULL";
    let read = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let found = rows::optional(connection, sql, [worker.as_str()], read)?;
    Ok(found.map(|(name, reason)| {
        let message = format!("the newest firing waits: the queue of {name} is paused ({reason})");
        Error::new(Code::QueuePaused, message)
            .with("workerId", worker.as_str())
            .recommend(format!("remove the reason, then run `subagent queue resume --worker-id {worker}`"))
    }))
}

/// Why no turn of a worker ends any more, if that is so. The worker is an id or a name.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn has_no_ends(connection: &Connection, worker: &str) -> Result<Option<Error>> {
    let found = cannot_be_sent_to(connection, worker)?;
    Ok(found.map(|error| match error.code {
        Code::WorkerStopped => {
            let message = format!("the worker {worker} is stopped: no turn of it ends any more");
            Error::new(Code::WorkerStopped, message).with("workerId", worker)
        }
        _ => error,
    }))
}

/// Returns the id of the worker whose ends fire a trigger, if it is that of a task. The worker is
/// an id or a name.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `WORKER_STOPPED`; `INVALID_ARGUMENT{field}` for a task that has ended;
/// `STORAGE_ERROR`.
pub(crate) fn task_of_source(connection: &Connection, worker: &str) -> Result<Option<String>> {
    if let Some(error) = has_no_ends(connection, worker)? {
        return Err(error);
    }
    let worker = workers::names::id_of(connection, worker)?;
    match tasks::of_worker(connection, &worker)?.map(|task| task.end.outcome) {
        Some(Some(outcome)) => {
            let message = format!("the task {worker} has ended already ({outcome})");
            Err(Error::new(Code::InvalidArgument, message).with("field", "source").with("workerId", worker))
        }
        Some(None) => Ok(Some(worker)),
        None => Ok(None),
    }
}

/// Stores a run of a watched command: its firing if the output has changed, its failure as a
/// failed firing. `row` is that of the run's beginning: stores nothing if the trigger was
/// paused, resumed or removed since then, also if another one has its key now. Returns the
/// event of a pause with its worker.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn store_observation(
    tx: &mut Tx<'_>,
    row: &ScheduleRow,
    found: &Observation,
    now: Timestamp,
) -> Result<Option<(RowId, i64)>> {
    let id = row.id;
    let sql = "UPDATE schedules SET cursor = ?2
               WHERE id = ?1 AND paused IS NULL AND created_at = ?3 AND cursor = ?4";
    if tx.execute(sql, params![id.0, now.0, row.created_at.0, row.cursor.0])? == 0 {
        return Ok(None);
    }
    match found {
        Observation::Failed(error) => {
            let firing = firings::insert_now(tx, id, &NewFiring::default(), now)?;
            let (status, error) = (FiringStatus::Failed, Some(error.clone()));
            ends::end_firing(tx, &FiringEnd { firing, started: false, status, error, pause: None }, now)
        }
        Observation::Output { text, sha256 } => {
            forgive_failed_runs(tx, id)?;
            let sql = "SELECT observed FROM schedules WHERE id = ?1";
            let before: Option<String> = rows::one(tx.connection, sql, [id.0], |row| row.get(0))?;
            tx.execute("UPDATE schedules SET observed = ?2 WHERE id = ?1", params![id.0, sha256])?;
            if before.is_some_and(|before| before != *sha256) {
                let firing = NewFiring { payload: Some(text.clone()), ..NewFiring::default() };
                firings::insert_now(tx, id, &firing, now)?;
            }
            Ok(None)
        }
    }
}

/// Takes back the failed runs up to now. A failure of the work remains.
fn forgive_failed_runs(tx: &Tx<'_>, id: RowId) -> Result<()> {
    let sql = "UPDATE schedules
               SET runs_after = coalesce((SELECT max(id) FROM firings WHERE schedule = ?1), 0)
               WHERE id = ?1 AND failures > 0";
    if tx.execute(sql, [id.0])? > 0 {
        ends::count_failures(tx, id)?;
    }
    Ok(())
}

/// Adds a firing unless the trigger was paused or removed.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn store_occurrence(tx: &Tx<'_>, id: RowId, firing: &NewFiring, now: Timestamp) -> Result<()> {
    let sql = "SELECT 1 FROM schedules WHERE id = ?1 AND paused IS NULL";
    if rows::optional(tx.connection, sql, [id.0], |_| Ok(()))?.is_some() {
        firings::insert_now(tx, id, firing, now)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
