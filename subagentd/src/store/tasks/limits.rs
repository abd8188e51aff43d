//! Limits and consumption of a task's prompts, and the steps of its open prompt.
//! The rules are in `subagent_core::task::limits`.

use rusqlite::{Connection, params};
use subagent_core::accounts::Account;
use subagent_protocol::Result;
use subagent_protocol::record::RecordType;
use subagent_protocol::task_terms::TaskTerms;
use subagent_protocol::tool_calls;

use crate::store::error::StoreError;
use crate::store::events::words;
use crate::store::rows::{self, RowId};
use crate::store::tx::{Tx, signed};

/// Resets the step counter for a new prompt of the worker's task, if it has one.
pub(in crate::store) fn begin_prompt(tx: &Tx<'_>, worker: RowId, account: &Account, now: i64) -> Result<()> {
    tx.execute(
        "UPDATE tasks SET steps = 0, ran_before = ?2 WHERE worker = ?1",
        params![worker.0, signed(account.ran_ms(now))],
    )?;
    Ok(())
}

/// Stores the number of steps of a task's open prompt.
pub(crate) fn count_steps(tx: &Tx<'_>, worker: RowId, steps: u64) -> Result<()> {
    tx.execute(
        "UPDATE tasks SET tool_calls = tool_calls + ?2 - steps, steps = ?2 WHERE worker = ?1 AND steps < ?2",
        params![worker.0, signed(steps)],
    )?;
    Ok(())
}

/// Returns name and terms of the worker's task; `None` if it has none.
pub(crate) fn terms(connection: &Connection, worker: RowId) -> Result<Option<(String, TaskTerms)>> {
    let sql = "SELECT name, terms FROM tasks WHERE worker = ?1";
    let found: Option<(String, String)> =
        rows::optional(connection, sql, [worker.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let read = |(name, text): (String, String)| match serde_json::from_str(&text) {
        Ok(terms) => Ok((name, terms)),
        Err(error) => Err(StoreError::BadRow(format!("the terms of a task: {error}")).into()),
    };
    found.map(read).transpose()
}

/// Returns the running time of the worker, in milliseconds, at the start of its last prompt.
pub(crate) fn ran_before(connection: &Connection, worker: RowId) -> Result<u64> {
    let sql = "SELECT ran_before FROM tasks WHERE worker = ?1";
    Ok(rows::one(connection, sql, [worker.0], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

/// Passes the id of each tool call in this turn to `wants_more`, until it returns false. Records
/// are read one at a time, since their number is unbounded.
pub(crate) fn calls(
    connection: &Connection,
    worker: RowId,
    turn: u64,
    mut wants_more: impl FnMut(&str) -> bool,
) -> Result<()> {
    let asked = "SELECT e.record, e.payload FROM turns t JOIN approvals a ON a.turn = t.id JOIN events e ON e.seq = a.asked_seq
                 WHERE t.worker = ?1 AND t.no = ?2 AND a.worker = ?1 AND e.record IS NOT NULL";
    let updates =
        "SELECT e.record, e.payload FROM turns t JOIN events e INDEXED BY tool_calls ON e.turn = t.id
                   WHERE t.worker = ?1 AND t.no = ?2 AND e.kind IN ('tool_call', 'tool_call_update')
                     AND e.record IS NOT NULL";
    for sql in [asked, updates] {
        let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
        let mut found = statement.query(params![worker.0, signed(turn)]).map_err(StoreError::from)?;
        while let Some(row) = found.next().map_err(StoreError::from)? {
            let record: RecordType = rows::word(row, 0, words::record).map_err(StoreError::from)?;
            let body = row.get_ref(1).map_err(StoreError::from)?.as_str().unwrap_or_default();
            if tool_calls::id_of(record, body).is_some_and(|id| !wants_more(&id)) {
                return Ok(());
            }
        }
    }
    Ok(())
}
