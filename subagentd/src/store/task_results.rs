//! Results with a schema, between the end of the last turn and the schema check.
//! This interval is not stored; it is derived from the rows. The check itself is not here.

use rusqlite::Connection;
use subagent_protocol::api::TaskStatus;
use subagent_protocol::{Code, Error, Result};

use super::rows::RowId;
use super::task_ends::{last_message, last_turn};
use super::tx::Tx;
use super::{task_limits, tasks};
use crate::core::Worker;
use crate::core::task::{self, LastTurn};

/// A result to check against its schema.
#[derive(Debug)]
pub(crate) struct Unjudged {
    pub(crate) schema: serde_json::Value,
    pub(crate) text: String,
    /// Whether the agent was already asked to repeat it.
    pub(crate) asked_again: bool,
}

impl Tx<'_> {
    /// Stores that the current run is asked to repeat its result. A second request is refused.
    ///
    /// # Errors
    /// `TURN_NOT_QUEUED` if it was already asked, `STORAGE_ERROR`.
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

/// Returns the result of the worker's task, if only the schema check remains before its end.
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
