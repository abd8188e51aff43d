//! Reading events, page by page. A page is bounded, so that no reader holds the database for long.

use std::sync::{Mutex, PoisonError};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};
use subagent_protocol::Result;
use subagent_protocol::event::{EventType, StoredEvent};
use subagent_protocol::ids::EventId;
use subagent_protocol::state::Carrier;
use subagent_protocol::time::Timestamp;

use super::error::StoreError;
use super::history;
use super::retention;
use super::rows::{self, RowId};
use super::words;

/// At most so many events are in a page ...
pub const PAGE_EVENTS: usize = 256;
/// ... and about so many bytes (one event may be larger).
pub const PAGE_BYTES: usize = 256 * 1024;

/// Which events.
#[derive(Debug, Clone, Copy)]
pub struct EventQuery {
    /// Whose.
    pub worker: RowId,
    /// Only later ones than this.
    pub after: i64,
    /// Only up to this one.
    pub up_to: i64,
    /// That events up to this one were deleted is known.
    pub floor: i64,
}

/// A longer payload is read by itself, ...
pub(super) const LARGE_BYTES: i64 = 1024 * 1024;
/// ... and one at a time: for a moment its reader has it twice, and a worker may have many readers.
static LARGE: Mutex<()> = Mutex::new(());

/// A page of events, or of what the reader made of them.
#[derive(Debug)]
pub struct EventPage<T = StoredEvent> {
    /// In order.
    pub events: Vec<T>,
    /// Up to here everything was looked at.
    pub seen: i64,
    /// Whether the end was reached.
    pub end: bool,
    /// Events up to this one were deleted before the reader began.
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

/// The next page: what `each` makes of its events while they lie in SQLite's memory. An event that cannot be read is left
/// out and reported in the log. Of a worker that was removed there are none any more; from the beginning (`after` 0) means
/// from the oldest that is kept.
///
/// # Errors
/// `CURSOR_EXPIRED` when events after the query's were deleted; `STORAGE_ERROR`; those of `each`.
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

/// Shows the event of a row that begins with [`COLUMNS_OF_PAGE`], unless it cannot be read. Gives its length.
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

/// Shows one event, whatever its length.
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

/// [`COLUMNS`] with null for a large payload; SQLite does not read one to know its length.
pub(super) const COLUMNS_OF_PAGE: &str = "e.seq, e.at, e.type, e.kind, t.turn_id, e.record, \
     CASE WHEN octet_length(e.payload) <= ?6 THEN e.payload END, t.carrier";

/// One event of a worker.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn get(connection: &Connection, worker: RowId, seq: i64) -> Result<Option<StoredEvent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn
         WHERE e.seq = ?2 AND e.worker = ?1 AND e.internal = 0"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    Ok(statement.query_row(params![worker.0, seq], read).optional().map_err(StoreError::from)?)
}

/// The newest event of a worker.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn latest(connection: &Connection, worker: RowId) -> Result<Option<StoredEvent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn
         WHERE e.worker = ?1 AND e.internal = 0 ORDER BY e.seq DESC LIMIT 1"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    Ok(statement.query_row([worker.0], read).optional().map_err(StoreError::from)?)
}

/// Whether an agent of the worker has had a session since that event.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn has_begun_since(connection: &Connection, worker: RowId, after: i64) -> Result<bool> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM events WHERE worker = ?1 AND seq > ?2 AND internal = 0 AND kind IS NULL
                              AND type IN (?3, ?4))";
    let types = [EventType::WorkerStarted, EventType::WorkerRestarted].map(EventType::as_str);
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    Ok(statement
        .query_row(params![worker.0, after, types[0], types[1]], |row| row.get(0))
        .map_err(StoreError::from)?)
}

/// The number of the newest shown event of a worker, 0 for none.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn last_seq(connection: &Connection, worker: RowId) -> Result<i64> {
    let sql = "SELECT coalesce(max(seq), 0) FROM events WHERE worker = ?1 AND internal = 0";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    Ok(statement.query_row([worker.0], |row| row.get(0)).map_err(StoreError::from)?)
}
