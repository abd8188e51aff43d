//! A task between the end of its last turn and its completion: its result has to meet a schema, or
//! its files are to be merged. Nothing is stored about that time, so each later reader finds the
//! same. Whether a result fits is not decided here.

use rusqlite::{Connection, params};
use subagent_core::model::{LastTurn, Worker};
use subagent_core::task;
use subagent_protocol::api::{TaskMerge, TaskStatus};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Code, Error, Result};

use super::ends::{last_message, last_turn};
use super::limits;
use crate::store::error::StoreError;
use crate::store::rows::RowId;
use crate::store::tasks;
use crate::store::tx::Tx;

/// What is to be done before a task has completed.
#[derive(Debug)]
pub(crate) struct Incomplete {
    /// What its result has to meet.
    pub(crate) schema: Option<serde_json::Value>,
    /// The text of its result.
    pub(crate) text: String,
    /// Whether its files are to be merged, and were not.
    pub(crate) writes_back: bool,
    /// Whether the agent was asked for it once more already.
    pub(crate) asked_again: bool,
}

/// Writes what a merge of the files of this worker's task came to, if it has one.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn note_merge(tx: &Tx<'_>, worker_id: &WorkerId, merge: &TaskMerge) -> Result<()> {
    let text = serde_json::to_string(merge).map_err(|error| StoreError::BadRow(error.to_string()))?;
    tx.execute(
        "UPDATE tasks SET merged = ?2 WHERE worker = (SELECT id FROM workers WHERE worker_id = ?1)",
        params![worker_id.as_str(), text],
    )?;
    Ok(())
}

/// Notes that the present run of a task is asked once more. A second caller gets an error.
///
/// # Errors
/// `TURN_NOT_QUEUED` if it was already asked, `STORAGE_ERROR`.
pub(crate) fn ask_again(tx: &Tx<'_>, id: RowId) -> Result<()> {
    let noted = tx.execute(
        "UPDATE tasks SET asked_again = 1 WHERE worker = ?1 AND outcome IS NULL AND asked_again = 0",
        [id.0],
    )?;
    if noted != 1 {
        return Err(Error::new(Code::TurnNotQueued, "the task was asked once more before"));
    }
    Ok(())
}

/// The task of this worker, if nothing but its schema and its files is between it and its completion.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn incomplete(connection: &Connection, id: RowId, worker: &Worker) -> Result<Option<Incomplete>> {
    let Some(open) = tasks::open(connection, id)?.filter(|open| open.completes_later) else {
        return Ok(None);
    };
    let Some(ended) = last_turn(connection, id, open.first_turn)? else { return Ok(None) };
    let last = LastTurn { status: ended.status, lost: false };
    let Some(outcome) = task::outcome(worker, open.ending, Some(last)) else { return Ok(None) };
    if task::explained(outcome, open.cause, None).0 != TaskStatus::Completed {
        return Ok(None);
    }
    let Some((_, terms)) = limits::terms(connection, id)? else { return Ok(None) };
    Ok(Some(Incomplete {
        schema: terms.result_schema,
        text: last_message(connection, id, ended.no)?,
        writes_back: terms.write_back && open.merge.is_none(),
        asked_again: open.asked_again,
    }))
}
