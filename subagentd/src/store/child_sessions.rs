//! What an agent has told of the sessions that it runs below its own.

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::children::{ChildSession, Children};

use super::error::StoreError;
use super::rows::RowId;

/// More of these updates are not looked at, and not more bytes of them.
const MOST_UPDATES: i64 = 5_000;
const MOST_BYTES: i64 = 8 * 1024 * 1024;

/// Those that are known.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn known(connection: &Connection, worker: RowId) -> Result<Vec<ChildSession>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT payload FROM (SELECT seq, payload,
                    sum(length(payload)) OVER (ORDER BY seq DESC) AS bytes FROM (
                        SELECT seq, payload FROM events INDEXED BY child_sessions
                        WHERE worker = ?1 AND kind = 'subagent_update' ORDER BY seq DESC LIMIT ?2 + 0))
             WHERE bytes <= ?3 ORDER BY seq",
        )
        .map_err(StoreError::from)?;
    let mut rows = statement.query(params![worker.0, MOST_UPDATES, MOST_BYTES]).map_err(StoreError::from)?;
    let mut children = Children::default();
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        // What cannot be read is left out, as everywhere.
        if let Ok(payload) = row.get_ref(0).and_then(|text| Ok(text.as_str()?)) {
            children.see(payload);
        }
    }
    Ok(children.finish())
}
