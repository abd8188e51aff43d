//! What the prompts of a task may use and have used, and which of its calls are steps of the open one.
//!
//! What counts and what follows is `core::task_limits`'.

use rusqlite::{Connection, OptionalExtension, params};
use subagent_protocol::Result;
use subagent_protocol::record::RecordType;
use subagent_protocol::task_terms::TaskTerms;
use subagent_protocol::tool_calls;

use super::error::StoreError;
use super::rows::{self, RowId};
use super::tx::{Tx, signed};
use super::words;
use crate::core::budget::Account;

impl Tx<'_> {
    /// The task of this worker, if it has one, is given another prompt.
    pub(super) fn begin_prompt(&self, worker: RowId, account: &Account, now: i64) -> Result<()> {
        self.execute(
            "UPDATE tasks SET steps = 0, ran_before = ?2 WHERE worker = ?1",
            params![worker.0, signed(account.ran_ms(now))],
        )?;
        Ok(())
    }

    /// Writes how many steps the open prompt of a task has made.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) fn count_steps(&self, worker: RowId, steps: u64) -> Result<()> {
        self.execute(
            "UPDATE tasks SET tool_calls = tool_calls + ?2 - steps, steps = ?2 WHERE worker = ?1 AND steps < ?2",
            params![worker.0, signed(steps)],
        )?;
        Ok(())
    }
}

/// The name of the task of this worker, and what it keeps to; `None`: it has none.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn terms(connection: &Connection, worker: RowId) -> Result<Option<(String, TaskTerms)>> {
    let sql = "SELECT name, terms FROM tasks WHERE worker = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let found: Option<(String, String)> = statement
        .query_row([worker.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(StoreError::from)?;
    let read = |(name, text): (String, String)| match serde_json::from_str(&text) {
        Ok(terms) => Ok((name, terms)),
        Err(error) => Err(StoreError::BadRow(format!("the terms of a task: {error}")).into()),
    };
    found.map(read).transpose()
}

/// For how many milliseconds the worker of a task had run when the present or last prompt was begun.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn ran_before(connection: &Connection, worker: RowId) -> Result<u64> {
    let sql = "SELECT ran_before FROM tasks WHERE worker = ?1";
    let found = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([worker.0], |row| row.get::<_, i64>(0)));
    Ok(found.map_err(StoreError::from)?.unsigned_abs())
}

/// Shows the id of each call that this turn has spoken of, as long as somebody wants more. Each record is read by itself:
/// there may be any number of them.
///
/// # Errors
/// `STORAGE_ERROR`.
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
