//! Reads a worker's stream with the tasks below it: its own events, and those of tasks that reach
//! ancestors, or all. The join is not stored. The lowest next sequence number, found by index,
//! comes first, so a page costs only its own events.

use std::collections::HashSet;

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::event::{Below, StoredEvent};
use subagent_protocol::ids::{EventId, WorkerId};

use super::count;
use crate::store::error::StoreError;
use crate::store::events::{
    self, COLUMNS_OF_PAGE, EventPage, EventQuery, LARGE_BYTES, PAGE_BYTES, PAGE_EVENTS, history,
};
use crate::store::retention;
use crate::store::rows::{self, RowId};

/// The tasks below the worker `?1`. For a root, also those below a removed task.
pub(in crate::store) const BELOW: &str = "below (worker) AS (
       SELECT worker FROM tasks WHERE parent = ?1
       UNION SELECT t.worker FROM workers r CROSS JOIN tasks t ON t.controller = r.controller AND t.root = r.id WHERE r.id = ?1
       UNION SELECT t.worker FROM below b CROSS JOIN tasks t ON t.parent = b.worker)";

/// The condition of the partial index `task_events`; SQLite requires the same words.
const REACHES_ANCESTORS: &str =
    "x.kind IS NULL AND (x.type BETWEEN 'subagent.' AND 'subagent/' OR x.type BETWEEN 'approval.' AND 'approval/'
     OR x.type BETWEEN 'elicitation.' AND 'elicitation/' OR x.type = 'policy.violated')";

/// SQL for a worker's first event after another. `milestones` selects only events that reach its
/// ancestors.
fn first(worker: &str, after: &str, milestones: bool) -> String {
    let (index, which) = match milestones {
        true => ("task_events", REACHES_ANCESTORS),
        false => ("events_of_worker", "x.internal = 0"),
    };
    format!(
        "(SELECT min(x.seq) FROM events x INDEXED BY {index}
          WHERE x.worker = {worker} AND {which} AND x.seq > {after} AND x.seq <= ?3)"
    )
}

/// SQL for a page. Parameters: `?1` worker, `?2` lower bound (exclusive), `?3` upper bound, `?4`
/// limit, `?5` all events of tasks below, `?6` size of a large payload.
fn sql() -> String {
    let any = |worker: &str, after: &str| {
        let (all, milestones) = (first(worker, after, false), first(worker, after, true));
        format!("CASE WHEN ?5 OR {worker} = ?1 THEN {all} ELSE {milestones} END")
    };
    let own = first("?1", "?2", false);
    let (begin, next) = (any("b.worker", "?2"), any("n.worker", "n.seq"));
    let needed = retention::needed("w.expired_seq");
    format!(
        "WITH RECURSIVE {BELOW},
         next (worker, seq) AS (
           SELECT e.worker, e.seq FROM events e WHERE e.seq = {own}
           UNION ALL SELECT e.worker, e.seq FROM below b CROSS JOIN events e ON e.seq = {begin}
           UNION ALL SELECT e.worker, e.seq FROM next n CROSS JOIN events e ON e.seq = {next}
           ORDER BY 2 LIMIT ?4)
         SELECT {COLUMNS_OF_PAGE}, w.worker_id, k.path, k.agent, e.worker = ?1,
                w.removed_at IS NULL AND {needed}
         FROM next n CROSS JOIN events e ON e.seq = n.seq CROSS JOIN workers w ON w.id = e.worker
         LEFT JOIN tasks k ON k.worker = e.worker LEFT JOIN turns t ON t.id = e.turn"
    )
}

/// A page of the joined stream.
#[derive(Debug)]
pub(crate) struct JoinedPage<T> {
    /// The events; `seen` is the number of the last examined one.
    pub(crate) page: EventPage<T>,
    /// Whether a task is open, so that more of its events may follow.
    pub(crate) open: bool,
}

/// Reads the next page and maps each event with `each`, which gets the task's data for an event of
/// a task. Deleted events of tasks are left out.
///
/// # Errors
/// Those of [`events::page`].
pub(crate) fn page<T>(
    connection: &Connection,
    query: EventQuery,
    all: bool,
    each: impl FnMut(StoredEvent<&str>, Option<Below<'_>>) -> Result<T>,
) -> Result<JoinedPage<T>> {
    let _moment = history::one_moment(connection)?;
    let page = events_of_page(connection, query, all, each)?;
    Ok(JoinedPage { page, open: is_one_open(connection, query.worker)? })
}

fn events_of_page<T>(
    connection: &Connection,
    query: EventQuery,
    all: bool,
    mut each: impl FnMut(StoredEvent<&str>, Option<Below<'_>>) -> Result<T>,
) -> Result<EventPage<T>> {
    let mut page = EventPage { events: Vec::new(), seen: query.after, end: true, floor: query.floor };
    let Some(kept) = retention::kept(connection, query.worker)? else { return Ok(page) };
    page.floor = if query.after == 0 { kept.expired_seq } else { query.floor };
    if kept.expired_seq > query.after.max(page.floor) {
        return Err(retention::cursor_expired(connection, query.worker, &kept, EventId(query.after))?);
    }
    let mut statement = connection.prepare_cached(&sql()).map_err(StoreError::from)?;
    let limit = i64::try_from(PAGE_EVENTS).unwrap_or(i64::MAX);
    let mut found = statement
        .query(params![query.worker.0, query.after, query.up_to, limit, all, LARGE_BYTES])
        .map_err(StoreError::from)?;
    let (mut count, mut bytes) = (0, 0);
    while let Some(row) = found.next().map_err(StoreError::from)? {
        page.seen = row.get(0).map_err(StoreError::from)?;
        count += 1;
        if !row.get(12).map_err(StoreError::from)? {
            continue;
        }
        let task = if row.get(11).map_err(StoreError::from)? { None } else { Some(task_of(row)?) };
        bytes += events::show(connection, row, &mut |event| {
            let below = task.as_ref().map(EventTask::below);
            page.events.push(each(event, below)?);
            Ok(())
        })?;
        if bytes >= PAGE_BYTES {
            page.end = false;
            return Ok(page);
        }
    }
    page.end = count < PAGE_EVENTS;
    Ok(page)
}

/// The task of an event.
struct EventTask {
    worker_id: WorkerId,
    path: Vec<String>,
    agent: Option<String>,
}

impl EventTask {
    fn below(&self) -> Below<'_> {
        Below { path: &self.path, worker_id: &self.worker_id, agent: self.agent.as_deref() }
    }
}

fn task_of(row: &rusqlite::Row<'_>) -> Result<EventTask> {
    let read = || {
        let path: Option<String> = row.get(9)?;
        let path = path.and_then(|path| serde_json::from_str(&path).ok()).unwrap_or_default();
        Ok(EventTask { worker_id: rows::parsed(row, 8)?, path, agent: row.get(10)? })
    };
    Ok(read().map_err(|error: rusqlite::Error| StoreError::from(error))?)
}

/// Returns the workers of all tasks below a worker.
pub(crate) fn below(connection: &Connection, worker: RowId) -> Result<HashSet<RowId>> {
    let sql = format!("WITH RECURSIVE {BELOW} SELECT worker FROM below");
    rows::all(connection, &sql, [worker.0], |row| Ok(RowId(row.get(0)?)))
}

/// Whether a task below a worker is open.
fn is_one_open(connection: &Connection, worker: RowId) -> Result<bool> {
    let sql = format!(
        "WITH RECURSIVE {BELOW} SELECT count(*) FROM below b CROSS JOIN tasks t ON t.worker = b.worker
         WHERE t.outcome IS NULL AND t.archived_at IS NULL"
    );
    Ok(count(connection, &sql, [worker.0])? > 0)
}

/// Whether this event belongs to a task below the worker.
pub(crate) fn is_of_one(connection: &Connection, worker: RowId, seq: i64) -> Result<bool> {
    let sql = format!(
        "WITH RECURSIVE {BELOW} SELECT count(*) FROM events e WHERE e.seq = ?2 AND e.internal = 0
           AND e.worker IN (SELECT worker FROM below)"
    );
    Ok(count(connection, &sql, params![worker.0, seq])? > 0)
}

/// Whether an unknown sequence number may be that of a deleted event of a task below the worker.
pub(crate) fn may_have_been_of_one(connection: &Connection, worker: RowId, seq: i64) -> Result<bool> {
    let sql = format!(
        "WITH RECURSIVE {BELOW} SELECT count(*) FROM below b CROSS JOIN workers w ON w.id = b.worker
         WHERE ?2 BETWEEN 1 AND w.expired_seq AND NOT EXISTS (SELECT 1 FROM events WHERE seq = ?2)"
    );
    Ok(count(connection, &sql, params![worker.0, seq])? > 0)
}

#[cfg(test)]
mod tests;
