//! Why a wait for a worker ends: its agent's open question, or the end of its last turn.

use rusqlite::Connection;
use subagent_protocol::Result;
use subagent_protocol::event::{EventType, StoredEvent};

use crate::store::events::history::{self, HistoryFilter};
use crate::store::events::{COLUMNS, read};
use crate::store::rows::{self, RowId};

/// Returns the event of a worker's oldest open question.
pub(crate) fn open_question(connection: &Connection, worker: RowId) -> Result<Option<StoredEvent>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM approvals a JOIN events e ON e.seq = a.asked_seq LEFT JOIN turns t ON t.id = e.turn
         WHERE a.worker = ?1 AND a.status IN ('pending', 'decided') AND a.status = 'pending' AND a.held = 0
         ORDER BY a.id LIMIT 1"
    );
    rows::optional(connection, &sql, [worker.0], read)
}

/// Returns the event that ended the worker's last finished turn; `None` also if it was deleted.
pub(crate) fn last_end(connection: &Connection, worker: RowId) -> Result<Option<StoredEvent>> {
    let ends = [EventType::TurnCompleted, EventType::TurnFailed, EventType::TurnCanceled];
    let types = Some(ends.map(|event_type| (event_type, None)).to_vec());
    let filter = HistoryFilter { limit: 1, before: None, since: None, turn_id: None, types };
    Ok(history::last(connection, worker, &filter)?.pop())
}
