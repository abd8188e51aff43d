//! Reads the events of one worker in bounded pages, so that a reader holds the database only
//! briefly.

pub(crate) mod all;
pub(crate) mod history;
pub(crate) mod message_text;
pub(crate) mod recent;
pub(super) mod words;

use std::sync::{Mutex, PoisonError};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::event::{EventType, StoredEvent};
use subagent_protocol::ids::EventId;
use subagent_protocol::state::Carrier;
use subagent_protocol::time::Timestamp;

use super::error::StoreError;
use super::retention;
use super::rows::{self, RowId};

/// Maximum number of events in a page.
pub(crate) const PAGE_EVENTS: usize = 256;
/// Approximate maximum size of a page in bytes. One event may be larger.
pub(crate) const PAGE_BYTES: usize = 256 * 1024;

/// A range of one worker's events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventQuery {
    /// Worker whose events are read.
    pub worker: RowId,
    /// Only events after this sequence number.
    pub after: i64,
    /// Only events up to this sequence number.
    pub up_to: i64,
    /// Deletion mark that the reader already accepted: events up to it may be missing.
    pub floor: i64,
}

/// A longer payload is read separately.
pub(super) const LARGE_BYTES: i64 = 1024 * 1024;
/// Large payloads are read one at a time: each is in memory twice for a moment, and a worker may
/// have many readers.
static LARGE: Mutex<()> = Mutex::new(());

/// A page of events, or of values that the reader made from them.
#[derive(Debug)]
pub(crate) struct EventPage<T = StoredEvent> {
    /// Events in order of the sequence number.
    pub events: Vec<T>,
    /// All events up to this sequence number were examined.
    pub seen: i64,
    /// Whether the page reaches the last requested event.
    pub end: bool,
    /// Events up to this sequence number were deleted before the read began.
    pub floor: i64,
}

pub(super) const COLUMNS: &str = "e.seq, e.at, e.type, e.kind, t.turn_id, e.record, e.payload, t.carrier";

pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredEvent> {
    read_with(row, row.get(6)?)
}

fn read_with<P>(row: &rusqlite::Row<'_>, payload: P) -> rusqlite::Result<StoredEvent<P>> {
    let text = |index: usize| -> rusqlite::Result<Option<&str>> { Ok(row.get_ref(index)?.as_str_or_null()?) };
    let event_type = rows::word(row, 2, words::event_type)?;
    Ok(StoredEvent {
        seq: row.get(0)?,
        at: Timestamp(row.get(1)?),
        event_type,
        kind: text(3)?.map(|word| words::kind(word, event_type)),
        turn_id: text(4)?.and_then(|id| id.parse().ok()),
        record: text(5)?.and_then(words::record),
        payload,
        carrier: text(7)?.and_then(Carrier::parse).unwrap_or(Carrier::Runtime),
    })
}

/// Reads the next page and maps each event with `each`, which borrows SQLite's memory. An
/// unreadable event is skipped and logged. A removed worker has no events. `after` 0 starts at the
/// oldest kept event.
///
/// # Errors
/// `CURSOR_EXPIRED` when events after the query's cursor were deleted; `STORAGE_ERROR`; errors of
/// `each`.
pub(crate) fn page<T>(
    connection: &Connection,
    query: EventQuery,
    mut each: impl FnMut(StoredEvent<&str>) -> Result<T>,
) -> Result<EventPage<T>> {
    let _moment = history::one_moment(connection)?;
    let seen = query.up_to.max(query.after);
    let Some(kept) = retention::kept(connection, query.worker)? else {
        return Ok(EventPage { events: Vec::new(), seen, end: true, floor: query.floor });
    };
    let floor = if query.after == 0 { kept.expired_seq } else { query.floor };
    if kept.expired_seq > query.after.max(floor) {
        return Err(retention::cursor_expired(connection, query.worker, &kept, EventId(query.after))?);
    }
    let needed = retention::needed("?5");
    let sql = format!(
        "SELECT {COLUMNS_OF_PAGE} FROM events e LEFT JOIN turns t ON t.id = e.turn
         WHERE e.worker = ?1 AND e.internal = 0 AND e.seq > ?2 AND e.seq <= ?3 AND {needed}
         ORDER BY e.seq LIMIT ?4"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let limit = i64::try_from(PAGE_EVENTS).unwrap_or(i64::MAX);
    let mut rows = statement
        .query(params![query.worker.0, query.after, query.up_to, limit, kept.expired_seq, LARGE_BYTES])
        .map_err(StoreError::from)?;
    let mut page = EventPage { events: Vec::new(), seen: query.after, end: false, floor };
    let (mut count, mut bytes) = (0, 0);
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        page.seen = row.get(0).map_err(StoreError::from)?;
        count += 1;
        bytes += show(connection, row, &mut |event| {
            page.events.push(each(event)?);
            Ok(())
        })?;
        if bytes >= PAGE_BYTES {
            return Ok(page);
        }
    }
    page.end = count < PAGE_EVENTS;
    if page.end {
        page.seen = query.up_to.max(page.seen);
    }
    Ok(page)
}

/// Passes the event of a row that begins with [`COLUMNS_OF_PAGE`] to `see`, if it is readable.
/// Returns its size in bytes.
pub(super) fn show(
    connection: &Connection,
    row: &rusqlite::Row<'_>,
    see: &mut impl FnMut(StoredEvent<&str>) -> Result<()>,
) -> Result<usize> {
    let mut taken = |row: &rusqlite::Row<'_>| -> Result<usize> {
        let read = row.get_ref(6).and_then(|payload| Ok(payload.as_str()?));
        match read.and_then(|payload| read_with(row, payload)) {
            Ok(event) => {
                let length = event.payload.len();
                see(event)?;
                Ok(length)
            }
            Err(error) => {
                let seq: i64 = row.get(0).unwrap_or_default();
                tracing::error!(%error, seq, "an event cannot be read and is left out");
                Ok(0)
            }
        }
    };
    match row.get_ref(6).map_err(StoreError::from)? {
        ValueRef::Null => alone(connection, row.get(0).map_err(StoreError::from)?, &mut taken),
        _ => taken(row),
    }
}

/// Reads one event of any size.
fn alone(
    connection: &Connection,
    seq: i64,
    see: &mut impl FnMut(&rusqlite::Row<'_>) -> Result<usize>,
) -> Result<usize> {
    let _alone = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    let sql = format!("SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn WHERE e.seq = ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let mut rows = statement.query([seq]).map_err(StoreError::from)?;
    match rows.next().map_err(StoreError::from)? {
        Some(row) => see(row),
        None => Ok(0),
    }
}

/// [`COLUMNS`], with null for a large payload. SQLite knows the length without reading the payload.
pub(super) const COLUMNS_OF_PAGE: &str = "e.seq, e.at, e.type, e.kind, t.turn_id, e.record, \
     CASE WHEN octet_length(e.payload) <= ?6 THEN e.payload END, t.carrier";

/// Reads one event of a worker.
pub(crate) fn get(connection: &Connection, worker: RowId, seq: i64) -> Result<Option<StoredEvent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn
         WHERE e.seq = ?2 AND e.worker = ?1 AND e.internal = 0"
    );
    rows::optional(connection, &sql, params![worker.0, seq], read)
}

/// Returns the newest event of a worker.
pub(crate) fn latest(connection: &Connection, worker: RowId) -> Result<Option<StoredEvent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn
         WHERE e.worker = ?1 AND e.internal = 0 ORDER BY e.seq DESC LIMIT 1"
    );
    rows::optional(connection, &sql, [worker.0], read)
}

/// Whether the worker's agent has started a session after this event.
pub(crate) fn has_begun_since(connection: &Connection, worker: RowId, after: i64) -> Result<bool> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM events WHERE worker = ?1 AND seq > ?2 AND internal = 0 AND kind IS NULL
                              AND type IN (?3, ?4))";
    let types = [EventType::WorkerStarted, EventType::WorkerRestarted].map(EventType::as_str);
    rows::one(connection, sql, params![worker.0, after, types[0], types[1]], |row| row.get(0))
}

/// Returns the highest sequence number of a worker's shown events, 0 for none.
pub(crate) fn last_seq(connection: &Connection, worker: RowId) -> Result<i64> {
    let sql = "SELECT coalesce(max(seq), 0) FROM events WHERE worker = ?1 AND internal = 0";
    rows::one(connection, sql, [worker.0], |row| row.get(0))
}
