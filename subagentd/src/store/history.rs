//! Looking back: the last events that fit, and what a worker did as a whole. Every look is bounded.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use subagent_protocol::Result;
use subagent_protocol::event::{EventType, StoredEvent};
use subagent_protocol::time::Timestamp;

use super::error::StoreError;
use super::events::{COLUMNS, read};
use super::message_text::{self, Part};
use super::retention;
use super::rows::{self, RowId};
use super::words;

/// More bytes of events than these are not shown at once (one event may be larger).
const MOST_BYTES: usize = 32 * 1024 * 1024;

/// Which events of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// How many, of the last.
    pub(crate) limit: u32,
    /// Before this one.
    pub(crate) before: Option<i64>,
    /// Written then or later.
    pub(crate) since: Option<Timestamp>,
    /// Of this turn.
    pub(crate) turn_id: Option<String>,
    /// Of one of these types; a kind narrows it.
    pub(crate) types: Option<Vec<(EventType, Option<String>)>>,
}

/// The last events that the filter lets through, in order. One that cannot be read is left out and reported in the log.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn last(connection: &Connection, worker: RowId, filter: &Filter) -> Result<Vec<StoredEvent>> {
    let progress = |(event_type, _): &(EventType, Option<String>)| is_progress(*event_type);
    let milestones = filter.types.as_ref().is_some_and(|types| !types.iter().any(progress));
    // SQLite would rather walk through all events of the worker than sort the few that there are.
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
    // Of as many shapes as there are filters: none is kept.
    let mut statement = connection.prepare(&sql).map_err(StoreError::from)?;
    let mut rows = statement.query(params_from_iter(values)).map_err(StoreError::from)?;
    let (mut events, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        match read(row) {
            Ok(event) => {
                bytes += event.payload.len();
                if bytes > MOST_BYTES && !events.is_empty() {
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

/// Where the events of a turn are.
struct Span {
    id: i64,
    first: i64,
    last: i64,
}

/// Updates that come late still belong to their turn, but only until the prompt of a later one was sent; so the end of
/// that one bounds them.
fn turn_span(connection: &Connection, worker: RowId, turn_id: &str) -> Result<Option<Span>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT t.id, t.message_seq - 1, coalesce((SELECT min(later.end_seq) FROM turns later WHERE
                    later.worker = t.worker AND later.no > t.no AND later.dispatched <> 'no'), ?3)
             FROM turns t WHERE t.worker = ?1 AND t.turn_id = ?2",
        )
        .map_err(StoreError::from)?;
    let span = statement.query_row(params![worker.0, turn_id, i64::MAX], |row| {
        Ok(Span { id: row.get(0)?, first: row.get(1)?, last: row.get(2)? })
    });
    Ok(span.optional().map_err(StoreError::from)?)
}

/// As long as this is kept, all that the connection reads is of one moment.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn one_moment(connection: &Connection) -> Result<rusqlite::Transaction<'_>> {
    Ok(connection.unchecked_transaction().map_err(StoreError::from)?)
}

/// How many events before the newest are looked at for what a worker did.
pub(crate) const MOST_LOOKED_AT: i64 = 200_000;
/// And how many bytes of them.
const MOST_WORK_BYTES: i64 = 128 * 1024 * 1024;

/// Hands the events of these kinds to `see`, in order, as long as the bounds allow; says from which number on. 0: from
/// the beginning.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn updates(
    connection: &Connection,
    worker: RowId,
    up_to: i64,
    see: &mut dyn FnMut(StoredEvent),
) -> Result<i64> {
    let floor: Option<i64> = rows::one(
        connection,
        "SELECT seq FROM events WHERE worker = ?1 AND internal = 0 AND seq <= ?2
             ORDER BY seq DESC LIMIT 1 OFFSET ?3",
        params![worker.0, up_to, MOST_LOOKED_AT],
        |row| row.get(0),
    )
    .optional()
    .map_err(StoreError::from)?;
    let mut floor = floor.unwrap_or(0).max(retention::mark(connection, worker)?);
    let work = "e.worker = ?1 AND e.internal = 0 AND e.seq > ?2 AND e.seq <= ?3
                AND e.kind IN ('tool_call', 'tool_call_update', 'plan', 'usage')";
    // Newest first, until the bytes are used up; only sizes, so nothing is kept.
    let sizes = format!("SELECT e.seq, length(e.payload) FROM events e WHERE {work} ORDER BY e.seq DESC");
    let mut statement = connection.prepare_cached(&sizes).map_err(StoreError::from)?;
    let mut rows = statement.query(params![worker.0, floor, up_to]).map_err(StoreError::from)?;
    let mut bytes = 0;
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        bytes += row.get::<_, i64>(1).map_err(StoreError::from)?;
        if bytes > MOST_WORK_BYTES {
            floor = row.get(0).map_err(StoreError::from)?;
            break;
        }
    }
    drop(rows);
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn WHERE {work} ORDER BY e.seq"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let mut rows = statement.query(params![worker.0, floor, up_to]).map_err(StoreError::from)?;
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        // What cannot be read is left out, as everywhere.
        if let Ok(event) = read(row) {
            see(event);
        }
    }
    Ok(floor)
}

/// A turn.
#[derive(Debug, Clone)]
pub(crate) struct TurnHistory {
    pub(crate) id: i64,
    pub(crate) turn_id: String,
    pub(crate) status: String,
    first: i64,
}

/// Takes a turn with the data of its `message.sent` and of the event that ended it.
pub(crate) type SeeTurn<'a> = dyn FnMut(&TurnHistory, Option<&str>, Option<&str>) + 'a;

/// The first and the last turns of a worker that are kept, in order. Their data go to `see`, one turn at a time.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn turns(
    connection: &Connection,
    worker: RowId,
    first: u32,
    last: u32,
    see: &mut SeeTurn<'_>,
) -> Result<Vec<TurnHistory>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT t.id, t.turn_id, t.status, t.message_seq, m.payload, e.payload
             FROM turns t LEFT JOIN events m ON m.seq = t.message_seq LEFT JOIN events e ON e.seq = t.end_seq
             WHERE t.worker = ?1 AND t.id IN (
                SELECT id FROM (SELECT id FROM turns WHERE worker = ?1 AND message_seq > ?4 ORDER BY no LIMIT ?2) UNION
                SELECT id FROM (SELECT id FROM turns WHERE worker = ?1 AND message_seq > ?4 ORDER BY no DESC LIMIT ?3))
             ORDER BY t.no",
        )
        .map_err(StoreError::from)?;
    let turns = statement
        .query_map(params![worker.0, first, last, retention::mark(connection, worker)?], |row| {
            let turn = TurnHistory {
                id: row.get(0)?,
                turn_id: row.get(1)?,
                status: row.get(2)?,
                first: row.get(3)?,
            };
            see(&turn, text(row, 4)?, text(row, 5)?);
            Ok(turn)
        })
        .and_then(Iterator::collect)
        .map_err(StoreError::from)?;
    Ok(turns)
}

fn text<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

/// More pieces of a text are not looked at.
const MOST_PIECES: i64 = 20_000;

/// The end of the agent's text in a turn, about so many bytes, and whether it has more.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn text_of(
    connection: &Connection,
    worker: RowId,
    turn: &TurnHistory,
    most_bytes: usize,
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
        .query(params![worker.0, turn.id, turn.first, span.last, MOST_PIECES])
        .map_err(StoreError::from)?;
    let (mut parts, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        if bytes > most_bytes {
            break;
        }
        looked_at += 1;
        if let Ok(Some(mut part)) = Part::read(row) {
            // Of a piece that is too long alone only its end is kept.
            if let Part::Piece(text) = &mut part {
                *text = text[text.ceil_char_boundary(text.len().saturating_sub(most_bytes + 1))..].to_owned();
            }
            bytes += part.bytes();
            parts.push(part);
        }
    }
    parts.reverse();
    let (text, cut) = message_text::end_of(parts, most_bytes);
    Ok((text, cut || looked_at == MOST_PIECES))
}

/// How many events of this type, which is no progress, a worker has; with a flag, those in whose data it is true.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn count(
    connection: &Connection,
    worker: RowId,
    event_type: EventType,
    flag: Option<&str>,
) -> Result<usize> {
    let count: i64 = connection
        .prepare_cached(
            "SELECT count(*) FROM events INDEXED BY milestones
             WHERE worker = ?1 AND internal = 0 AND kind IS NULL AND type = ?2 AND
                (?3 IS NULL OR CASE WHEN json_valid(payload) THEN payload ->> ?3 END = 1)",
        )
        .and_then(|mut statement| {
            statement.query_row(params![worker.0, event_type.as_str(), flag], |row| row.get(0))
        })
        .map_err(StoreError::from)?;
    Ok(usize::try_from(count).unwrap_or(0))
}
