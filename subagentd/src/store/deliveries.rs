//! Notification deliveries: which sink gets which event, and the result.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::EventId;
use subagent_protocol::notification::{DeliveryStatus, DeliveryView};
use subagent_protocol::time::Timestamp;

use super::rows::{self, RowId};
use super::tx::Tx;

/// Maximum number of events in one page.
const MAX_PAGE: i64 = 500;
/// Number of finished deliveries that are kept.
const MAX_KEPT: i64 = 1000;

/// An event that may match a sink.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryCandidate {
    pub(crate) seq: i64,
    pub(crate) worker: RowId,
    pub(crate) event_type: EventType,
    /// Whether its worker carries out a task of another worker.
    pub(crate) is_task: bool,
    /// Stored specs of the worker and, for a task, of the workers above it. The worker's own is
    /// first.
    pub(crate) specs: Vec<String>,
    /// The cancel reason of the event's turn, if a cancel was requested.
    pub(crate) cancel_reason: Option<String>,
}

/// A page of candidates.
#[derive(Debug)]
pub(crate) struct Candidates {
    /// In order of the sequence number.
    pub(crate) events: Vec<DeliveryCandidate>,
    /// All events up to this sequence number were examined.
    pub(crate) seen: i64,
    /// Whether the page reaches the newest event.
    pub(crate) end: bool,
}

/// The events of these types after another one. Questions that are not open are left out, what became of a turn in which
/// a violation was noticed before, and the pause of a schedule or a trigger that its owner wanted.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn candidates(connection: &Connection, after: i64, types: &[EventType]) -> Result<Candidates> {
    let newest = super::events::all::last_seq(connection)?;
    let types: Vec<String> = types.iter().map(|event_type| format!("'{}'", event_type.as_str())).collect();
    let sql = format!(
        "SELECT e.seq, e.worker, e.type, k.parent IS NOT NULL, w.spec, t.cancel_reason
         FROM events e CROSS JOIN workers w ON w.id = e.worker LEFT JOIN tasks k ON k.worker = e.worker
              LEFT JOIN turns t ON t.id = e.turn
         WHERE e.seq > ?1 AND +e.internal = 0 AND +e.kind IS NULL AND +e.type IN ({})
           AND w.removed_at IS NULL
           AND (e.type NOT IN ('approval.requested', 'elicitation.requested') OR EXISTS (
             SELECT 1 FROM approvals a WHERE a.worker = e.worker AND a.asked_seq = e.seq
               AND a.status IN ('pending', 'decided') AND a.status = 'pending'))
           AND (e.type NOT IN ('policy.violated', 'turn.completed', 'turn.failed', 'turn.canceled') OR NOT EXISTS (
             SELECT 1 FROM events v WHERE v.worker = e.worker AND v.type = 'policy.violated' AND v.internal = 0
               AND v.kind IS NULL AND v.seq < e.seq AND v.turn = e.turn))
           AND (e.type NOT IN ('schedule.paused', 'trigger.paused') OR e.payload ->> '$.reason' <> 'user')
         ORDER BY e.seq LIMIT {MAX_PAGE}",
        types.join(", ")
    );
    let read = |row: &Row<'_>| {
        Ok(DeliveryCandidate {
            seq: row.get(0)?,
            worker: RowId(row.get(1)?),
            event_type: rows::word(row, 2, EventType::parse)?,
            is_task: row.get(3)?,
            specs: vec![row.get(4)?],
            cancel_reason: row.get(5)?,
        })
    };
    let mut events: Vec<DeliveryCandidate> = rows::all(connection, &sql, [after], read)?;
    for event in events.iter_mut().filter(|event| event.is_task) {
        event.specs = super::questions::below::specs_upwards(connection, event.worker)?;
    }
    let is_full = i64::try_from(events.len()).unwrap_or(MAX_PAGE) >= MAX_PAGE;
    let seen = match events.last() {
        Some(last) if is_full => last.seq,
        _ => newest.max(after),
    };
    Ok(Candidates { events, seen, end: !is_full })
}

/// A delivery to insert.
#[derive(Debug, Clone)]
pub(crate) struct NewDelivery {
    pub(crate) sink: String,
    pub(crate) event: i64,
    pub(crate) worker: RowId,
    /// The sinks' word for the kind of event, such as `question`.
    pub(crate) occasion: &'static str,
}

/// A delivery that is still to be attempted.
#[derive(Debug, Clone)]
pub(crate) struct PendingDelivery {
    pub(crate) id: i64,
    pub(crate) event: i64,
    pub(crate) worker: RowId,
    pub(crate) occasion: String,
    /// The event whose id the sink receives; `None` before the first attempt.
    pub(crate) message: Option<i64>,
    pub(crate) attempts: u32,
    pub(crate) created_at: Timestamp,
    /// Time before which no attempt is made.
    pub(crate) due_at: Timestamp,
}

/// Returns the oldest pending deliveries of a sink, in order.
pub(crate) fn pending(connection: &Connection, sink: &str, limit: u32) -> Result<Vec<PendingDelivery>> {
    let sql = "SELECT id, event, worker, occasion, message, attempts, created_at, due_at FROM deliveries
               WHERE sink = ?1 AND status = 'pending' ORDER BY id LIMIT ?2";
    let read = |row: &Row<'_>| {
        Ok(PendingDelivery {
            id: row.get(0)?,
            event: row.get(1)?,
            worker: RowId(row.get(2)?),
            occasion: row.get(3)?,
            message: row.get(4)?,
            attempts: row.get(5)?,
            created_at: Timestamp(row.get(6)?),
            due_at: Timestamp(row.get(7)?),
        })
    };
    rows::all(connection, sql, params![sink, limit], read)
}

/// Counts of a sink's deliveries.
#[derive(Debug, Clone, Default)]
pub(crate) struct SinkCounts {
    pub(crate) pending: u64,
    /// Failed deliveries among the kept ones.
    pub(crate) failed: u64,
    /// Error of the oldest pending delivery.
    pub(crate) error: Option<String>,
}

/// Returns the counts of each sink's deliveries.
pub(crate) fn standings(connection: &Connection) -> Result<BTreeMap<String, SinkCounts>> {
    let sql =
        "SELECT sink, sum(status = 'pending'), sum(status = 'failed'), (SELECT o.error FROM deliveries o
                   WHERE o.sink = d.sink AND o.status = 'pending' ORDER BY o.id LIMIT 1)
               FROM deliveries d GROUP BY sink";
    let read = |row: &Row<'_>| {
        let count = |index| row.get::<_, i64>(index).map(|count| u64::try_from(count).unwrap_or(0));
        Ok((row.get(0)?, SinkCounts { pending: count(1)?, failed: count(2)?, error: row.get(3)? }))
    };
    rows::all(connection, sql, [], read)
}

/// Returns the newest deliveries, newest first.
pub(crate) fn log(connection: &Connection, limit: u32) -> Result<Vec<DeliveryView>> {
    let sql = "SELECT d.sink, d.event, d.occasion, w.worker_id, d.status, d.attempts, d.error, d.created_at, d.changed_at
               FROM deliveries d LEFT JOIN workers w ON w.id = d.worker AND w.removed_at IS NULL
               ORDER BY d.id DESC LIMIT ?1";
    let read = |row: &Row<'_>| {
        let worker: Option<String> = row.get(3)?;
        Ok(DeliveryView {
            sink: row.get(0)?,
            event_id: EventId(row.get(1)?),
            occasion: row.get(2)?,
            worker_id: worker.and_then(|id| id.parse().ok()),
            status: rows::word(row, 4, DeliveryStatus::parse)?,
            attempts: row.get(5)?,
            error: row.get(6)?,
            created_at: Timestamp(row.get(7)?),
            changed_at: Timestamp(row.get(8)?),
        })
    };
    rows::all(connection, sql, [limit], read)
}

/// Whether the config had a sink when it was last read.
pub(crate) fn has_sinks(connection: &Connection) -> Result<bool> {
    rows::one(connection, "SELECT EXISTS (SELECT 1 FROM delivery_sinks)", [], |row| row.get(0))
}

/// Returns the sequence number up to which events were examined; `None` before the first run.
pub(crate) fn cursor(connection: &Connection) -> Result<Option<i64>> {
    rows::optional(connection, "SELECT seq FROM delivery_cursor WHERE id = 1", [], |row| row.get(0))
}

/// Stores the names of the existing sinks. Returns for each the event after which it receives
/// events: `since` for a new one.
pub(crate) fn set_sinks(tx: &Tx<'_>, names: &[String], since: i64) -> Result<BTreeMap<String, i64>> {
    let sql = "SELECT name FROM delivery_sinks";
    let known: Vec<String> = rows::all(tx.connection, sql, [], |row| row.get(0))?;
    for gone in known.iter().filter(|name| !names.contains(name)) {
        tx.execute("DELETE FROM delivery_sinks WHERE name = ?1", [gone])?;
    }
    if !known.iter().any(|name| names.contains(name)) {
        move_cursor(tx, since)?;
    }
    for name in names {
        tx.execute("INSERT OR IGNORE INTO delivery_sinks VALUES (?1, ?2)", params![name, since])?;
    }
    let sql = "SELECT name, since FROM delivery_sinks";
    rows::all(tx.connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Moves the cursor forward, never back.
pub(crate) fn move_cursor(tx: &Tx<'_>, seq: i64) -> Result<()> {
    tx.execute(
        "INSERT INTO delivery_cursor VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET seq = max(seq, excluded.seq)",
        [seq],
    )?;
    Ok(())
}

/// Inserts deliveries. Existing ones stay unchanged.
pub(crate) fn insert(tx: &Tx<'_>, deliveries: &[NewDelivery], now: Timestamp) -> Result<()> {
    for NewDelivery { sink, event, worker, occasion } in deliveries {
        tx.execute(
            "INSERT OR IGNORE INTO deliveries (sink, event, worker, occasion, created_at, changed_at, due_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?5)",
            params![sink, event, worker.0, occasion, now.0],
        )?;
    }
    tx.execute(
        "DELETE FROM deliveries WHERE status <> 'pending' AND id <= (SELECT max(id) FROM deliveries) - ?1",
        [MAX_KEPT],
    )?;
    Ok(())
}

/// Counts an attempt, and stores the event whose id the sink receives.
pub(crate) fn begin(tx: &Tx<'_>, ids: &[i64], message: i64, now: Timestamp) -> Result<()> {
    for id in ids {
        tx.execute(
            "UPDATE deliveries SET message = ?2, attempts = attempts + 1, changed_at = ?3 WHERE id = ?1",
            params![id, message, now.0],
        )?;
    }
    Ok(())
}

/// Stores the final status of deliveries.
pub(crate) fn settle(
    tx: &Tx<'_>,
    ids: &[i64],
    status: DeliveryStatus,
    error: Option<&str>,
    now: Timestamp,
) -> Result<()> {
    for id in ids {
        tx.execute(
            "UPDATE deliveries SET status = ?2, error = ?3, changed_at = ?4 WHERE id = ?1",
            params![id, status.as_str(), error, now.0],
        )?;
    }
    Ok(())
}

/// Stores the error of an attempt and the time of the next one.
pub(crate) fn put_off(
    tx: &Tx<'_>,
    ids: &[i64],
    error: &str,
    now: Timestamp,
    due_at: Timestamp,
) -> Result<()> {
    for id in ids {
        tx.execute(
            "UPDATE deliveries SET error = ?2, changed_at = ?3, due_at = ?4 WHERE id = ?1",
            params![id, error, now.0, due_at.0],
        )?;
    }
    Ok(())
}

/// Drops pending deliveries of sinks that are not configured.
pub(crate) fn drop_of_others(tx: &Tx<'_>, names: &[String], now: Timestamp) -> Result<()> {
    let names = serde_json::to_string(names).unwrap_or_else(|_| "[]".to_owned());
    tx.execute(
        "UPDATE deliveries SET status = 'dropped', error = 'the sink is not configured any more', changed_at = ?2
         WHERE status = 'pending' AND sink NOT IN (SELECT value FROM json_each(?1))",
        params![names, now.0],
    )?;
    Ok(())
}
