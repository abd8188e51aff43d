//! Questions of the tasks below a worker. A wait for the worker ends at them.

use rusqlite::{Connection, Row, params};
use subagent_protocol::Result;
use subagent_protocol::event::{Event, EventType, StoredEvent};
use subagent_protocol::ids::WorkerId;

use crate::store::events::{COLUMNS, read};
use crate::store::rows::{self, RowId};
use crate::store::tasks::events::BELOW;

/// The question of a task below a worker.
#[derive(Debug)]
pub(crate) struct QuestionBelow {
    pub(crate) event: StoredEvent,
    pub(crate) worker: RowId,
    worker_id: WorkerId,
    path: Vec<String>,
}

impl QuestionBelow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let path: Option<String> = row.get(10)?;
        Ok(Self {
            event: read(row)?,
            worker: RowId(row.get(8)?),
            worker_id: rows::parsed(row, 9)?,
            path: path.and_then(|path| serde_json::from_str(&path).ok()).unwrap_or_default(),
        })
    }

    /// The event as shown in a wait for a worker above the task.
    pub(crate) fn view(&self) -> Event {
        Event { path: Some(self.path.clone()), ..self.event.view(&self.worker_id, false) }
    }
}

/// The tables that [`QuestionBelow::read`] reads.
const TABLES: &str = "CROSS JOIN workers w ON w.id = e.worker LEFT JOIN tasks k ON k.worker = e.worker
     LEFT JOIN turns t ON t.id = e.turn";

/// Returns the first question after `after` of all tasks below a worker, answered or not.
pub(crate) fn first_after(
    connection: &Connection,
    worker: RowId,
    after: i64,
) -> Result<Option<QuestionBelow>> {
    // The index is ordered within each event type.
    let first = |event_type: EventType| {
        format!(
            "SELECT (SELECT min(x.seq) FROM events x INDEXED BY milestones WHERE x.worker = b.worker
               AND x.type = '{}' AND x.internal = 0 AND x.kind IS NULL AND x.seq > ?2) AS seq FROM below b",
            event_type.as_str()
        )
    };
    let sql = format!(
        "WITH RECURSIVE {BELOW}, firsts (seq) AS ({} UNION ALL {})
         SELECT {COLUMNS}, w.id, w.worker_id, k.path FROM events e {TABLES}
         WHERE e.seq = (SELECT min(seq) FROM firsts) AND w.removed_at IS NULL",
        first(EventType::ApprovalRequested),
        first(EventType::ElicitationRequested)
    );
    rows::optional(connection, &sql, params![worker.0, after], QuestionBelow::read)
}

/// Returns the oldest open question of all tasks below a worker.
pub(crate) fn oldest_open(connection: &Connection, worker: RowId) -> Result<Option<QuestionBelow>> {
    let sql = format!(
        "WITH RECURSIVE {BELOW}
         SELECT {COLUMNS}, w.id, w.worker_id, k.path
         FROM approvals a CROSS JOIN events e ON e.seq = a.asked_seq {TABLES}
         WHERE a.status IN ('pending', 'decided') AND a.status = 'pending' AND a.held = 0
           AND a.worker IN (SELECT worker FROM below) AND w.removed_at IS NULL
         ORDER BY a.id LIMIT 1"
    );
    rows::optional(connection, &sql, [worker.0], QuestionBelow::read)
}

/// Returns the stored specs of a worker and of the workers above it.
pub(crate) fn specs_upwards(connection: &Connection, worker: RowId) -> Result<Vec<String>> {
    // `root` is followed too, because a worker between may have been removed.
    let sql = "WITH RECURSIVE upwards (worker) AS (
                 SELECT ?1
                 UNION SELECT t.parent FROM upwards u CROSS JOIN tasks t ON t.worker = u.worker WHERE t.parent IS NOT NULL
                 UNION SELECT t.root FROM upwards u CROSS JOIN tasks t ON t.worker = u.worker WHERE t.root IS NOT NULL)
               SELECT w.spec FROM upwards u CROSS JOIN workers w ON w.id = u.worker WHERE w.removed_at IS NULL";
    rows::all(connection, sql, [worker.0], |row| row.get(0))
}
