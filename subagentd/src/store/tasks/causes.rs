//! Stores why the current run of a task ends early, and violations that are noticed after its end.
//! The consequences of a cause are decided in `subagent_core::task`.

use rusqlite::{Connection, params};
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::{Code, Error, Result};

use super::parent_turn;
use crate::store::error::StoreError;
use crate::store::rows::{self, RowId};
use crate::store::tasks;
use crate::store::tx::{Tx, signed};

/// Stores why the current run of a task ends early. For a completed task, only a policy
/// violation of its last run is stored.
pub(super) fn note(tx: &Tx<'_>, id: RowId, error: &Error, turn: Option<u64>) -> Result<()> {
    let text = serde_json::to_string(error).map_err(|error| StoreError::BadRow(error.to_string()))?;
    tx.execute(
        "UPDATE tasks SET cause = ?2 WHERE worker = ?1 AND cause IS NULL AND (?3 IS NULL OR ?3 >= first_turn)
           AND (outcome IS NULL OR (outcome = 'completed' AND ?4))",
        params![id.0, text, turn.map(signed), error.code == Code::PolicyViolation],
    )?;
    Ok(())
}

/// A completed task with a violation that was noticed later.
pub(super) struct LateViolation {
    pub(super) task_id: WorkerId,
    pub(super) name: String,
    pub(super) parent_turn: Option<TurnId>,
    pub(super) run: u64,
    pub(super) error: Error,
}

/// Returns the worker's task if it is completed and has such a violation.
pub(super) fn completed_with_cause(connection: &Connection, id: RowId) -> Result<Option<LateViolation>> {
    let sql = format!(
        "SELECT w.worker_id, t.name, t.runs, t.cause, {} FROM tasks t JOIN workers w ON w.id = t.worker
         WHERE t.worker = ?1 AND t.outcome = 'completed' AND t.cause IS NOT NULL",
        parent_turn!()
    );
    Ok(rows::optional(connection, &sql, [id.0], |row| {
        let Some(error) = tasks::error(row, 3)? else { return Ok(None) };
        let (task_id, run) = (rows::parsed(row, 0)?, rows::unsigned(row, 2)?);
        let (name, parent_turn) = (row.get(1)?, tasks::turn(row, 4)?);
        Ok(Some(LateViolation { task_id, name, parent_turn, run, error }))
    })?
    .flatten())
}
