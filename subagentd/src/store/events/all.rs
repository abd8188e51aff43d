//! Reads the events of all workers in commit order: sequence numbers are global.

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::event::StoredEvent;

use super::{COLUMNS, PAGE_BYTES, PAGE_EVENTS, read};
use crate::store::error::StoreError;
use crate::store::retention;
use crate::store::rows::{self, RowId};

/// A page of events of all workers.
#[derive(Debug)]
pub(crate) struct AllEventsPage {
    /// Pairs of worker and event, in order of the sequence number.
    pub(crate) events: Vec<(RowId, StoredEvent)>,
    /// All events up to this sequence number were examined, including those left out.
    pub(crate) seen: i64,
    /// Whether the page reaches the newest event.
    pub(crate) end: bool,
}

/// Reads the page after `after`. Deleted events and events of removed workers are left out.
pub(crate) fn page(connection: &Connection, after: i64, up_to: i64) -> Result<AllEventsPage> {
    let needed = retention::needed("w.expired_seq");
    // `events` drives the join: its rows are already in order of `seq`.
    let sql = format!(
        "SELECT {COLUMNS}, e.worker FROM events e CROSS JOIN workers w ON w.id = e.worker LEFT JOIN turns t ON t.id = e.turn
         WHERE e.seq > ?1 AND e.seq <= ?2 AND +e.internal = 0 AND w.removed_at IS NULL AND {needed}
         ORDER BY e.seq LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let limit = i64::try_from(PAGE_EVENTS).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![after, up_to, limit]).map_err(StoreError::from)?;
    let mut page = AllEventsPage { events: Vec::new(), seen: after, end: false };
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

/// Returns the highest sequence number of all events, 0 if there are none.
pub(crate) fn last_seq(connection: &Connection) -> Result<i64> {
    rows::one(connection, "SELECT coalesce(max(seq), 0) FROM events", [], |row| row.get(0))
}

/// Returns the newest event that is not internal.
pub(crate) fn latest(connection: &Connection) -> Result<Option<StoredEvent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events e CROSS JOIN workers w ON w.id = e.worker LEFT JOIN turns t ON t.id = e.turn
         WHERE +e.internal = 0 AND w.removed_at IS NULL ORDER BY e.seq DESC LIMIT 1"
    );
    rows::optional(connection, &sql, [], read)
}
