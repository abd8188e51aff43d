//! Reading the events of all workers, in the order in which they were stored: their numbers are one sequence.

use rusqlite::{Connection, OptionalExtension, params};
use subagent_protocol::Result;
use subagent_protocol::event::StoredEvent;

use super::error::StoreError;
use super::events::{COLUMNS, PAGE_BYTES, PAGE_EVENTS, read};
use super::retention;
use super::rows::RowId;

/// A page of events of all workers.
#[derive(Debug)]
pub(crate) struct Page {
    /// In order, each with its worker.
    pub(crate) events: Vec<(RowId, StoredEvent)>,
    /// Up to here everything was looked at.
    pub(crate) seen: i64,
    /// Whether the end was reached.
    pub(crate) end: bool,
}

/// The next page after an event. What was deleted or belongs to a worker that was removed is left out.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn page(connection: &Connection, after: i64, up_to: i64) -> Result<Page> {
    let needed = retention::needed("w.expired_seq");
    // Events first: they are in order by their number already.
    let sql = format!(
        "SELECT {COLUMNS}, e.worker FROM events e CROSS JOIN workers w ON w.id = e.worker LEFT JOIN turns t ON t.id = e.turn
         WHERE e.seq > ?1 AND e.seq <= ?2 AND +e.internal = 0 AND w.removed_at IS NULL AND {needed}
         ORDER BY e.seq LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let limit = i64::try_from(PAGE_EVENTS).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![after, up_to, limit]).map_err(StoreError::from)?;
    let mut page = Page { events: Vec::new(), seen: after, end: false };
    let (mut count, mut bytes) = (0, 0);
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        page.seen = row.get(0).map_err(StoreError::from)?;
        count += 1;
        match (read(row), row.get(8)) {
            (Ok(event), Ok(worker)) => {
                bytes += event.payload.len();
                page.events.push((RowId(worker), event));
            }
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!(%error, seq = page.seen, "an event cannot be read and is left out");
            }
        }
        if bytes >= PAGE_BYTES {
            return Ok(page);
        }
    }
    page.end = count < PAGE_EVENTS;
    Ok(page)
}

/// The number of the newest event of all.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn last_seq(connection: &Connection) -> Result<i64> {
    let mut statement =
        connection.prepare_cached("SELECT coalesce(max(seq), 0) FROM events").map_err(StoreError::from)?;
    Ok(statement.query_row([], |row| row.get(0)).map_err(StoreError::from)?)
}

/// The newest shown event of all.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn latest(connection: &Connection) -> Result<Option<StoredEvent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events e CROSS JOIN workers w ON w.id = e.worker LEFT JOIN turns t ON t.id = e.turn
         WHERE +e.internal = 0 AND w.removed_at IS NULL ORDER BY e.seq DESC LIMIT 1"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    Ok(statement.query_row([], read).optional().map_err(StoreError::from)?)
}
