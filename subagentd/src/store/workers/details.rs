//! Facts that agents report about themselves, stored per worker.

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::details::{Details, RecordDetail};
use subagent_protocol::time::Timestamp;

use crate::store::error::StoreError;
use crate::store::rows::{self, RowId};
use crate::store::tx::Tx;

/// Merges reports into the stored details.
pub(crate) fn update(tx: &Tx<'_>, id: RowId, reports: Vec<RecordDetail>) -> Result<()> {
    let before = details(tx.connection, id)?;
    let mut after = before.clone();
    reports.into_iter().for_each(|report| after.take(report));
    if after == before {
        return Ok(());
    }
    let text = serde_json::to_string(&after).map_err(|error| StoreError::BadRow(error.to_string()))?;
    tx.execute("UPDATE workers SET details = ?2 WHERE id = ?1", params![id.0, text])?;
    Ok(())
}

/// Returns what the worker's agent reported. An unreadable row counts as empty: the details are
/// only a summary.
pub(crate) fn details(connection: &Connection, id: RowId) -> Result<Details> {
    let sql = "SELECT details FROM workers WHERE id = ?1";
    let text: Option<String> = rows::one(connection, sql, [id.0], |row| row.get(0))?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// Returns the time of the worker's newest event; `None` if no event is stored.
pub(crate) fn last_activity(connection: &Connection, id: RowId) -> Result<Option<Timestamp>> {
    let sql = "SELECT max(seq), at FROM events WHERE worker = ?1 AND internal = 0";
    let at: Option<i64> = rows::one(connection, sql, [id.0], |row| row.get(1))?;
    Ok(at.map(Timestamp))
}
