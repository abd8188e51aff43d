//! Whether a worker's session has received the prompt of its agent definition.

use rusqlite::{Connection, params};
use subagent_protocol::Result;

use crate::store::rows::{self, RowId};
use crate::store::tx::{Tx, signed};

/// Stores that the session has received the prompt, or (`false`) that a new session has not.
pub(crate) fn update(tx: &Tx<'_>, id: RowId, instructed: bool) -> Result<()> {
    tx.execute("UPDATE workers SET instructed = ?2 WHERE id = ?1", params![id.0, instructed])?;
    Ok(())
}

/// Whether the session has received the prompt.
pub(crate) fn instructed(connection: &Connection, id: RowId) -> Result<bool> {
    let sql = "SELECT instructed FROM workers WHERE id = ?1";
    rows::one(connection, sql, [id.0], |row| row.get(0))
}

/// Whether no turn with a number of at least `since` has completed with the agent.
pub(crate) fn is_untried(connection: &Connection, worker: RowId, since: u64) -> Result<bool> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM turns
                WHERE worker = ?1 AND no >= ?2 AND status = 'completed' AND carrier = 'acp-stdio')";
    rows::one(connection, sql, params![worker.0, signed(since)], |row| row.get(0))
}
