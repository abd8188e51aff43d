//! Transcripts of hidden tasks, for the result of the task above them.
//! It must not decide who may read them.

use rusqlite::{Connection, params};
use subagent_core::task::transcript::Transcript;
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use subagent_protocol::lenient;
use subagent_protocol::tool_content::ToolCallReport;

use super::HIDDEN;
use crate::store::error::StoreError;
use crate::store::events::words::MESSAGE_TYPES;
use crate::store::events::{self, COLUMNS};
use crate::store::rows::{self, RowId};
use crate::store::tasks;
use crate::store::turns::MessageHead;

/// Maximum number of included tasks. A tree has at most 100, unless the config says otherwise.
const MAX_TASKS: i64 = 100;
/// Maximum number of examined events per task.
const MAX_EVENTS: i64 = 50_000;

/// Returns all hidden tasks below this one, at any depth, oldest first.
pub(crate) fn hidden_below(connection: &Connection, task: &str) -> Result<Vec<(RowId, tasks::TaskRow)>> {
    let sql = format!(
        "WITH RECURSIVE below (worker) AS (
           SELECT t.worker FROM tasks t JOIN workers p ON p.id = t.parent WHERE p.worker_id = ?1
           UNION SELECT t.worker FROM tasks t JOIN below b ON t.parent = b.worker)
         SELECT w.id, w.worker_id FROM tasks t JOIN workers w ON w.id = t.worker
          WHERE t.worker IN (SELECT worker FROM below) AND {HIDDEN} AND w.removed_at IS NULL
          ORDER BY t.worker LIMIT ?2"
    );
    let found: Vec<(i64, String)> =
        rows::all(connection, &sql, params![task, MAX_TASKS], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut rows = Vec::with_capacity(found.len());
    for (id, worker_id) in found {
        rows.extend(tasks::of_worker(connection, &worker_id)?.map(|row| (RowId(id), row)));
    }
    Ok(rows)
}

/// Returns the prompts, replies and tool calls of a task, as far as they are kept.
pub(crate) fn transcript(connection: &Connection, id: RowId, mut of: Transcript) -> Result<String> {
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT * FROM events WHERE worker = ?1 AND internal = 0 ORDER BY seq LIMIT ?2) e
         LEFT JOIN turns t ON t.id = e.turn
         WHERE e.type IN {MESSAGE_TYPES} OR e.type = 'message.sent' OR e.kind = 'tool_call'
         ORDER BY e.seq"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let mut found = statement.query(params![id.0, MAX_EVENTS]).map_err(StoreError::from)?;
    while !of.is_full()
        && let Some(row) = found.next().map_err(StoreError::from)?
    {
        let event = events::read(row).map_err(StoreError::from)?;
        match event.event_type {
            EventType::ProgressMessage => of.said(&event.into_text().unwrap_or_default()),
            EventType::MessageSent => {
                of.message_sent(lenient::read::<MessageHead<'_>>(&event.data()).text.0.unwrap_or_default());
            }
            _ => {
                let data = event.data();
                let title = lenient::read::<ToolCallReport<'_>>(&data).title.0.unwrap_or_default();
                if event.is_tool_call() { of.called(title) } else { of.called_below(title) }
            }
        }
    }
    Ok(of.end())
}
