//! Reads for hooks that run after events: each worker's cursor, and the context of an event.
//! It must not decide which hooks run.

use rusqlite::{Connection, params};
use serde::Deserialize;
use serde_json::{Map, Value};
use subagent_protocol::Result;
use subagent_protocol::event::StoredEvent;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::lenient::{self, Lenient, ObjectField};
use subagent_protocol::tool_calls::is_over;
use subagent_protocol::tool_content::ToolCallReport;

use super::error::StoreError;
use super::events::message_text::MessagePart;
use super::events::{self, COLUMNS, EventPage, EventQuery, message_text};
use super::rows::{self, RowId};
use super::tx::Tx;
use super::{WorkerRow, tasks, workers};

/// Maximum number of a turn's records that are searched for one tool call.
const MAX_RECORDS: i64 = 20_000;
/// Maximum size in bytes of the agent's last text.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Stores that all hooks for the worker's events up to `seq` have run.
pub(crate) fn move_cursor(tx: &Tx<'_>, worker: RowId, seq: i64) -> Result<()> {
    tx.execute(
        "INSERT INTO hook_cursors (worker, seq) VALUES (?1, ?2)
         ON CONFLICT (worker) DO UPDATE SET seq = max(seq, excluded.seq)",
        params![worker.0, seq],
    )?;
    Ok(())
}

/// Returns the sequence number up to which hooks have run; `None` before the first run.
pub(crate) fn cursor(connection: &Connection, worker: RowId) -> Result<Option<i64>> {
    let sql = "SELECT seq FROM hook_cursors WHERE worker = ?1";
    rows::optional(connection, sql, [worker.0], |row| row.get(0))
}

/// Returns the stopped workers that have events without finished hooks.
pub(crate) fn stopped_behind(connection: &Connection) -> Result<Vec<WorkerRow>> {
    let sql = "SELECT w.worker_id FROM hook_cursors c JOIN workers w ON w.id = c.worker
               WHERE w.state = 'stopped' AND w.removed_at IS NULL
                 AND EXISTS (SELECT 1 FROM events e WHERE e.worker = w.id AND e.internal = 0 AND e.seq > c.seq)";
    let found: Vec<String> = rows::all(connection, sql, [], |row| row.get(0))?;
    let mut behind = Vec::new();
    for id in found {
        behind.extend(workers::get(connection, &id)?);
    }
    Ok(behind)
}

/// Returns the worker's events after its cursor that `wants` accepts. Events deleted by retention
/// are left out.
pub(crate) fn page(
    connection: &Connection,
    worker: RowId,
    after: i64,
    wants: &dyn Fn(&StoredEvent<&str>) -> bool,
) -> Result<EventPage> {
    let mut found = Vec::new();
    let floor = super::retention::mark(connection, worker)?;
    let up_to = events::last_seq(connection, worker)?;
    let query = EventQuery { worker, after, up_to, floor };
    let page = events::page(connection, query, |event| {
        if wants(&event) {
            found.push(StoredEvent {
                seq: event.seq,
                at: event.at,
                event_type: event.event_type,
                kind: event.kind,
                turn_id: event.turn_id,
                carrier: event.carrier,
                record: event.record,
                payload: event.payload.to_owned(),
            });
        }
        Ok(())
    })?;
    Ok(EventPage { events: found, seen: page.seen, end: page.end, floor: page.floor })
}

/// A record of an update, or of a permission request.
#[derive(Default, Deserialize)]
#[serde(default)]
struct CallRecord {
    update: Lenient<Map<String, Value>>,
    params: ObjectField<CallRecordParams>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CallRecordParams {
    tool_call: Lenient<Map<String, Value>>,
}

/// The state of a tool call just before one of its updates.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ToolCallState {
    /// Fields that the agent reported, with ACP's names; later values replace earlier ones.
    pub(crate) reported: Map<String, Value>,
    /// Whether it had ended before that update.
    pub(crate) was_over: bool,
}

/// Merges the reports about a tool call up to this event, within its turn.
pub(crate) fn call(connection: &Connection, worker: RowId, seq: i64, id: &str) -> Result<ToolCallState> {
    let sql = "SELECT e.seq, e.payload FROM events e
               WHERE e.worker = ?1 AND e.turn = (SELECT turn FROM events WHERE seq = ?2) AND e.seq <= ?2
                 AND e.record IS NOT NULL
                 AND (e.kind IN ('tool_call', 'tool_call_update') OR e.type = 'approval.requested')
               ORDER BY e.seq DESC LIMIT ?3";
    let mut parts = Vec::new();
    rows::each(connection, sql, params![worker.0, seq, MAX_RECORDS], |row| {
        let body = row.get_ref(1)?.as_str().unwrap_or_default();
        if !body.contains(id) {
            return Ok(());
        }
        let Ok(body) = subagent_protocol::surrogates::parse::<Value>(body) else { return Ok(()) };
        let CallRecord { update, params } = lenient::take(body);
        let part = update.0.or(params.0.tool_call.0);
        if let Some(part) = part.filter(|part| ToolCallReport::of(part).tool_call_id.0 == Some(id)) {
            parts.push((row.get::<_, i64>(0)?, part));
        }
        Ok(())
    })?;
    let mut call = ToolCallState::default();
    for (at, part) in parts.into_iter().rev() {
        call.was_over |= at < seq && ToolCallReport::of(&part).status.0.is_some_and(is_over);
        // A null field in an update means no change.
        call.reported.extend(part.into_iter().filter(|(_, value)| !value.is_null()));
    }
    Ok(call)
}

/// Returns the end of the agent's text before an event, within its turn.
pub(crate) fn last_text(connection: &Connection, worker: RowId, seq: i64) -> Result<String> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN turns t ON t.id = e.turn
         WHERE e.worker = ?1 AND e.internal = 0 AND e.turn = (SELECT turn FROM events WHERE seq = ?2)
           AND e.seq < ?2 AND {}
         ORDER BY e.seq DESC LIMIT ?3",
        message_text::parts()
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let mut rows = statement.query(params![worker.0, seq, MAX_RECORDS]).map_err(StoreError::from)?;
    let (mut parts, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        // An unreadable piece is skipped.
        if let Ok(Some(part)) = MessagePart::read(row) {
            bytes += part.bytes();
            parts.push(part);
        }
        if bytes > MAX_TEXT_BYTES {
            break;
        }
    }
    parts.reverse();
    Ok(message_text::end_of(parts, MAX_TEXT_BYTES).0)
}

/// Whether the question of this event is still open.
pub(crate) fn is_open(connection: &Connection, worker: RowId, seq: i64) -> Result<bool> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM approvals WHERE worker = ?1 AND asked_seq = ?2 AND status = 'pending')";
    rows::one(connection, sql, params![worker.0, seq], |row| row.get(0))
}

/// Returns the task of a worker and the stored spec of its parent.
pub(crate) fn task(
    connection: &Connection,
    worker: RowId,
    worker_id: &WorkerId,
) -> Result<Option<(tasks::TaskRow, Option<String>)>> {
    let Some(task) = tasks::of_worker(connection, worker_id.as_str())? else { return Ok(None) };
    let parent = match tasks::parent(connection, worker)? {
        Some(parent) => {
            let sql = "SELECT spec FROM workers WHERE id = ?1";
            rows::optional(connection, sql, [parent.0], |row| row.get(0))?
        }
        None => None,
    };
    Ok(Some((task, parent)))
}
