//! The ends of turns and tasks for which triggers wait, read from the committed events.

use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::EventId;
use subagent_protocol::trigger::EndStatus;

use super::ScheduleRow;
use super::firings::NewFiring;
use crate::store::events::{self, message_text};
use crate::store::{rows, workers};

/// Ends of one look.
const MAX_PAGE: usize = 100;
/// Maximum size of the agent's text in a payload, in bytes.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// The firings for ends after the trigger's cursor.
#[derive(Debug)]
pub(crate) struct Ends {
    /// The firings, in the order of the ends.
    pub(crate) firings: Vec<NewFiring>,
    /// Events up to this one were looked at.
    pub(crate) seen: i64,
    /// Whether there may be more.
    pub(crate) more: bool,
}

struct TriggeringEnd {
    seq: i64,
    status: EndStatus,
    turn: Option<(String, i64)>,
    /// The result of a task.
    result: Option<String>,
}

/// The ends of a task, or of the turns of a worker that is no task. A turn that the trigger itself
/// has started is left out: else a trigger could fire itself without end. A task that completed and
/// fails later, for a violation, has ended once: only a trigger for failures takes its failure.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn ends(
    connection: &Connection,
    trigger: &ScheduleRow,
    worker: &str,
    wanted: Option<EndStatus>,
) -> Result<Ends> {
    let newest = events::all::last_seq(connection)?;
    // A name may be that of another worker by now.
    let Some(row) = workers::get(connection, &workers::names::id_of(connection, worker)?)? else {
        return Ok(Ends { firings: Vec::new(), seen: newest, more: false });
    };
    let sql = "SELECT e.seq, e.type, u.turn_id, u.no, k.result
               FROM events e LEFT JOIN turns u ON u.id = e.turn LEFT JOIN tasks k ON k.worker = e.worker
               WHERE e.worker = ?1 AND e.seq > ?2 AND e.internal = 0 AND e.kind IS NULL
                 AND ((k.worker IS NULL AND e.type IN ('turn.completed', 'turn.failed', 'turn.canceled'))
                   OR (k.worker IS NOT NULL
                       AND e.type IN ('subagent.completed', 'subagent.failed', 'subagent.cancelled')))
                 AND NOT EXISTS (SELECT 1 FROM firings f WHERE f.schedule = ?3 AND f.turn_id = u.turn_id)
                 AND NOT (?5 AND e.type = 'subagent.failed' AND e.payload ->> '$.error.code' = 'POLICY_VIOLATION'
                   AND EXISTS (SELECT 1 FROM events c
                                WHERE c.worker = e.worker AND c.type = 'subagent.completed' AND c.seq < e.seq
                                  AND c.internal = 0 AND c.kind IS NULL
                                  AND NOT EXISTS (SELECT 1 FROM events s
                                                   WHERE s.worker = e.worker AND s.type = 'turn.started'
                                                     AND s.seq > c.seq AND s.seq < e.seq
                                                     AND s.internal = 0 AND s.kind IS NULL)))
               ORDER BY e.seq LIMIT ?4";
    let limit = i64::try_from(MAX_PAGE).unwrap_or(i64::MAX);
    let found: Vec<TriggeringEnd> = rows::all(
        connection,
        sql,
        params![row.id.0, trigger.cursor.0, trigger.id.0, limit, wanted.is_none()],
        read,
    )?;
    let more = found.len() == MAX_PAGE;
    let seen = found.last().filter(|_| more).map_or(newest.max(trigger.cursor.0), |last| last.seq);
    let mut firings = Vec::new();
    for end in found.into_iter().filter(|end| wanted.is_none_or(|wanted| wanted == end.status)) {
        let occurrence = Some(EventId(end.seq).to_string());
        let payload = Some(payload(connection, &row, end)?.to_string());
        firings.push(NewFiring { manual: false, occurrence, payload });
    }
    Ok(Ends { firings, seen, more })
}

fn read(row: &Row<'_>) -> rusqlite::Result<TriggeringEnd> {
    let status = match rows::word(row, 1, EventType::parse)? {
        EventType::TurnCompleted | EventType::SubagentCompleted => EndStatus::Completed,
        EventType::TurnCanceled | EventType::SubagentCancelled => EndStatus::Canceled,
        _ => EndStatus::Failed,
    };
    let turn: Option<String> = row.get(2)?;
    let turn = turn.map(|turn_id| Ok::<_, rusqlite::Error>((turn_id, row.get(3)?))).transpose()?;
    Ok(TriggeringEnd { seq: row.get(0)?, status, turn, result: row.get(4)? })
}

fn payload(connection: &Connection, worker: &crate::store::WorkerRow, end: TriggeringEnd) -> Result<Value> {
    let stored = events::get(connection, worker.id, end.seq)?;
    let data = stored.map(|event| event.view(&worker.worker_id, false).data).unwrap_or_default();
    let text = match (&end.result, &end.turn) {
        (Some(result), _) => result[..result.floor_char_boundary(MAX_TEXT_BYTES)].to_owned(),
        (None, Some((_, no))) => {
            let no = u64::try_from(*no).unwrap_or(0);
            message_text::final_message(connection, worker.id, no, MAX_TEXT_BYTES)?.text
        }
        (None, None) => String::new(),
    };
    let mut payload = json!({
        "worker": worker.worker_id,
        "label": worker.agent.label,
        "status": end.status,
        "turnId": end.turn.map(|(turn_id, _)| turn_id),
        "text": text,
    });
    for key in ["error", "reason"] {
        if !data[key].is_null() {
            payload[key] = data[key].clone();
        }
    }
    Ok(payload)
}
