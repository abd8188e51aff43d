//! Bounded reads of a worker's past: the last matching events, its turns and its work.

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use subagent_protocol::Result;
use subagent_protocol::event::{EventType, StoredEvent};
use subagent_protocol::time::Timestamp;

use super::message_text::{self, MessagePart};
use super::{COLUMNS, read, words};
use crate::store::error::StoreError;
use crate::store::retention;
use crate::store::rows::{self, RowId};

/// Maximum size of the returned events in bytes. One event may be larger.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// A filter for the events of a worker.
#[derive(Debug, Clone)]
pub(crate) struct HistoryFilter {
    /// Maximum number of events, counted from the end.
    pub(crate) limit: u32,
    /// Only events before this sequence number.
    pub(crate) before: Option<i64>,
    /// Only events at this time or later.
    pub(crate) since: Option<Timestamp>,
    /// Only events of this turn.
    pub(crate) turn_id: Option<String>,
    /// Only events of these types, optionally of one kind.
    pub(crate) types: Option<Vec<(EventType, Option<String>)>>,
}

/// Returns the last matching events, in order. An unreadable event is skipped and logged.
pub(crate) fn last(
    connection: &Connection,
    worker: RowId,
    filter: &HistoryFilter,
) -> Result<Vec<StoredEvent>> {
    let progress = |(event_type, _): &(EventType, Option<String>)| is_progress(*event_type);
    let milestones = filter.types.as_ref().is_some_and(|types| !types.iter().any(progress));
    // SQLite would otherwise scan all events of the worker instead of sorting the few milestones.
    let index = if milestones { "INDEXED BY milestones" } else { "" };
    let mut sql = format!(
        "SELECT {COLUMNS} FROM events e {index} LEFT JOIN turns t ON t.id = e.turn
         WHERE e.worker = ? AND e.internal = 0"
    );
    let mut values: Vec<Value> = vec![worker.0.into()];
    let mark = retention::mark(connection, worker)?;
    if mark > 0 {
        sql.push_str(&format!(" AND {}", retention::needed("?")));
        values.push(mark.into());
    }
    if let Some(before) = filter.before {
        sql.push_str(" AND e.seq < ?");
        values.push(before.into());
    }
    if let Some(since) = filter.since {
        sql.push_str(" AND e.at >= ?");
        values.push(since.0.into());
    }
    if let Some(turn_id) = &filter.turn_id {
        let Some(turn) = turn_span(connection, worker, turn_id)? else { return Ok(Vec::new()) };
        sql.push_str(" AND e.turn = ? AND e.seq BETWEEN ? AND ?");
        values.extend([turn.id.into(), turn.first.into(), turn.last.into()]);
    }
    if let Some(types) = &filter.types {
        if types.is_empty() {
            return Ok(Vec::new());
        }
        if milestones {
            let marks = vec!["?"; types.len()].join(", ");
            sql.push_str(&format!(" AND e.kind IS NULL AND e.type IN ({marks})"));
        } else {
            let one = |(_, kind): &(EventType, Option<String>)| match kind {
                Some(_) => "e.type IN (?, ?) AND e.kind = ?",
                None => "e.type IN (?, ?)",
            };
            sql.push_str(&format!(" AND ({})", types.iter().map(one).collect::<Vec<_>>().join(" OR ")));
        }
        for (event_type, kind) in types {
            values.push(event_type.as_str().to_owned().into());
            if !milestones {
                values.push(words::of_type(*event_type).to_owned().into());
            }
            values.extend(kind.clone().map(Value::from));
        }
    }
    sql.push_str(" ORDER BY e.seq DESC LIMIT ?");
    values.push(i64::from(filter.limit).into());
    // The SQL differs for each filter, so the statement is not cached.
    let mut statement = connection.prepare(&sql).map_err(StoreError::from)?;
    let mut rows = statement.query(params_from_iter(values)).map_err(StoreError::from)?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        match read(row) {
            Ok(event) => {
                bytes += event.payload.len();
                if bytes > MAX_BYTES && !events.is_empty() {
                    break;
                }
                events.push(event);
            }
            Err(error) => tracing::error!(%error, "an event cannot be read and is left out"),
        }
    }
    events.reverse();
    Ok(events)
}

const fn is_progress(event_type: EventType) -> bool {
    matches!(event_type, EventType::ProgressMessage | EventType::ProgressUpdate)
}

/// The range of sequence numbers with the events of a turn.
struct TurnSpan {
    id: i64,
    first: i64,
    last: i64,
}

/// Returns the range of a turn's events. Late updates belong to it until the next turn whose prompt
/// was sent has ended.
fn turn_span(connection: &Connection, worker: RowId, turn_id: &str) -> Result<Option<TurnSpan>> {
    rows::optional(
        connection,
        "SELECT t.id, t.message_seq - 1, coalesce((SELECT min(later.end_seq) FROM turns later WHERE
                    later.worker = t.worker AND later.no > t.no AND later.dispatched <> 'no'), ?3)
             FROM turns t WHERE t.worker = ?1 AND t.turn_id = ?2",
        params![worker.0, turn_id, i64::MAX],
        |row| Ok(TurnSpan { id: row.get(0)?, first: row.get(1)?, last: row.get(2)? }),
    )
}

/// Holds a read transaction: all reads see the same state while the value lives.
pub(crate) fn one_moment(connection: &Connection) -> Result<rusqlite::Transaction<'_>> {
    Ok(connection.unchecked_transaction().map_err(StoreError::from)?)
}

/// Number of a worker's newest events that are examined for its work.
pub(crate) const MAX_LOOKED_AT: i64 = 200_000;
/// Maximum size in bytes of the events that are examined for its work.
const MAX_WORK_BYTES: i64 = 128 * 1024 * 1024;

/// Passes the worker's tool calls, plans and usage reports to `see`, in order and within the
/// limits. Returns the sequence number after which events were read; 0 means all.
pub(crate) fn updates(
    connection: &Connection,
    worker: RowId,
    up_to: i64,
    see: &mut dyn FnMut(StoredEvent),
) -> Result<i64> {
    let floor: Option<i64> = rows::optional(
        connection,
        "SELECT seq FROM events WHERE worker = ?1 AND internal = 0 AND seq <= ?2
             ORDER BY seq DESC LIMIT 1 OFFSET ?3",
        params![worker.0, up_to, MAX_LOOKED_AT],
        |row| row.get(0),
    )?;
    let mut floor = floor.unwrap_or(0).max(retention::mark(connection, worker)?);
    let work = "e.worker = ?1 AND e.internal = 0 AND e.seq > ?2 AND e.seq <= ?3
                AND e.kind IN ('tool_call', 'tool_call_update', 'plan', 'usage')";
    // Newest first, until the byte limit is reached; only sizes are read.
    let sizes = format!("SELECT e.seq, length(e.payload) FROM events e WHERE {work} ORDER BY e.seq DESC");
    let mut statement = connection.prepare_cached(&sizes).map_err(StoreError::from)?;
    let mut rows = statement.query(params![worker.0, floor, up_to]).map_err(StoreError::from)?;
    let mut bytes = 0;
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        bytes += row.get::<_, i64>(1).map_err(StoreError::from)?;
        if bytes > MAX_WORK_BYTES {
            floor = row.get(0).map_err(StoreError::from)?;
            break;
        }
    }
    drop(rows);
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn WHERE {work} ORDER BY e.seq"
    );
    rows::each(connection, &sql, params![worker.0, floor, up_to], |row| {
        // An unreadable row is skipped.
        if let Ok(event) = read(row) {
            see(event);
        }
        Ok(())
    })?;
    Ok(floor)
}

/// A turn and the start of its event range.
#[derive(Debug, Clone)]
pub(crate) struct TurnHistory {
    pub(crate) id: i64,
    pub(crate) turn_id: String,
    pub(crate) status: String,
    first: i64,
}

/// Receives a turn with the data of its `message.sent` and of its ending event.
pub(crate) type SeeTurn<'a> = dyn FnMut(&TurnHistory, Option<&str>, Option<&str>) + 'a;

/// Passes the first and the last stored turns of a worker to `see`, in order, one turn at a time.
pub(crate) fn turns(
    connection: &Connection,
    worker: RowId,
    first: u32,
    last: u32,
    see: &mut SeeTurn<'_>,
) -> Result<Vec<TurnHistory>> {
    let turns = rows::all(connection, "SELECT t.id, t.turn_id, t.status, t.message_seq, m.payload, e.payload
             FROM turns t LEFT JOIN events m ON m.seq = t.message_seq LEFT JOIN events e ON e.seq = t.end_seq
             WHERE t.worker = ?1 AND t.id IN (
                SELECT id FROM (SELECT id FROM turns WHERE worker = ?1 AND message_seq > ?4 ORDER BY no LIMIT ?2) UNION
                SELECT id FROM (SELECT id FROM turns WHERE worker = ?1 AND message_seq > ?4 ORDER BY no DESC LIMIT ?3))
             ORDER BY t.no", params![worker.0, first, last, retention::mark(connection, worker)?], |row| {
            let turn = TurnHistory {
                id: row.get(0)?,
                turn_id: row.get(1)?,
                status: row.get(2)?,
                first: row.get(3)?,
            };
            see(&turn, text(row, 4)?, text(row, 5)?);
            Ok(turn)
        })?;
    Ok(turns)
}

fn text<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

/// Maximum number of examined pieces of a text.
const MAX_PIECES: i64 = 20_000;

/// Returns the last `max_bytes` bytes (about) of the agent's text in a turn, and whether there is
/// more.
pub(crate) fn text_of(
    connection: &Connection,
    worker: RowId,
    turn: &TurnHistory,
    max_bytes: usize,
) -> Result<(String, bool)> {
    let Some(span) = turn_span(connection, worker, &turn.turn_id)? else { return Ok((String::new(), false)) };
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn WHERE e.worker = ?1 AND e.internal = 0
            AND e.turn = ?2 AND e.seq BETWEEN ?3 AND ?4 AND {}
         ORDER BY e.seq DESC LIMIT ?5",
        message_text::parts()
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let mut rows = statement
        .query(params![worker.0, turn.id, turn.first, span.last, MAX_PIECES])
        .map_err(StoreError::from)?;
    let (mut parts, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        if bytes > max_bytes {
            break;
        }
        looked_at += 1;
        if let Ok(Some(mut part)) = MessagePart::read(row) {
            // A piece above the limit is cut to its end.
            if let MessagePart::Piece(text) = &mut part {
                *text = text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes + 1))..].to_owned();
            }
            bytes += part.bytes();
            parts.push(part);
        }
    }
    parts.reverse();
    let (text, cut) = message_text::end_of(parts, max_bytes);
    Ok((text, cut || looked_at == MAX_PIECES))
}

/// Counts the events of this type, which is not progress. With `flag`, only those in whose data it
/// is true.
pub(crate) fn count(
    connection: &Connection,
    worker: RowId,
    event_type: EventType,
    flag: Option<&str>,
) -> Result<usize> {
    let count: i64 = rows::one(
        connection,
        "SELECT count(*) FROM events INDEXED BY milestones
             WHERE worker = ?1 AND internal = 0 AND kind IS NULL AND type = ?2 AND
                (?3 IS NULL OR CASE WHEN json_valid(payload) THEN payload ->> ?3 END = 1)",
        params![worker.0, event_type.as_str(), flag],
        |row| row.get(0),
    )?;
    Ok(usize::try_from(count).unwrap_or(0))
}
