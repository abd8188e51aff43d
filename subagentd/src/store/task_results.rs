//! The result of a task that has to meet a schema, between the end of its last turn and what is made of it.
//!
//! Nothing is stored of that time: whoever comes next finds the same. Whether a result fits is not decided here.

use rusqlite::Connection;
use subagent_protocol::api::TaskStatus;
use subagent_protocol::{Code, Error, Result};

use super::rows::RowId;
use super::task_ends::{last_message, last_turn};
use super::tx::Tx;
use super::{task_limits, tasks};
use crate::core::Worker;
use crate::core::task::{self, LastTurn};

/// A result that is to be held against its schema.
#[derive(Debug)]
pub(crate) struct Unjudged {
    pub(crate) schema: serde_json::Value,
    pub(crate) text: String,
    /// Whether the agent was asked for it once more already.
    pub(crate) asked_again: bool,
}

impl Tx<'_> {
    /// Notes that the present run of a task is asked once more. Whoever comes second does not ask.
    ///
    /// # Errors
    /// `TURN_NOT_QUEUED` if it was, `STORAGE_ERROR`.
    pub(crate) fn ask_again(&self, id: RowId) -> Result<()> {
        let noted = self.execute(
            "UPDATE tasks SET asked_again = 1 WHERE worker = ?1 AND outcome IS NULL AND asked_again = 0",
            [id.0],
        )?;
        if noted != 1 {
            return Err(Error::new(Code::TurnNotQueued, "the task was asked once more before"));
        }
        Ok(())
    }
}

/// The result of the task of this worker, if nothing but its schema is between it and its end.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn unjudged(connection: &Connection, id: RowId, worker: &Worker) -> Result<Option<Unjudged>> {
    let Some(open) = tasks::open(connection, id)?.filter(|open| open.has_schema) else { return Ok(None) };
    let Some(ended) = last_turn(connection, id, open.first_turn)? else { return Ok(None) };
    let last = LastTurn { status: ended.status, lost: false };
    let Some(outcome) = task::outcome(worker, open.ending, Some(last)) else { return Ok(None) };
    if task::explained(outcome, open.cause, None).0 != TaskStatus::Completed {
        return Ok(None);
    }
    let schema = task_limits::terms(connection, id)?.and_then(|(_, terms)| terms.result_schema);
    let Some(schema) = schema else { return Ok(None) };
    Ok(Some(Unjudged {
        schema,
        text: last_message(connection, id, ended.no)?,
        asked_again: open.asked_again,
    }))
}
