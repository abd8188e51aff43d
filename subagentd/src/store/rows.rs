//! Queries and statements, and value types for database rows.

use rusqlite::{Connection, OptionalExtension as _, Params, Row};
use subagent_core::model::{Hibernation, LifecycleState, Parking, Restart};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::placement::Placement;
use subagent_protocol::process::ProcessId;
use subagent_protocol::record::RecordType;
use subagent_protocol::state::{Desired, QueuePause};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Error, Result};

use super::error::StoreError;
use super::workers::names::NewName;

/// Integer primary key of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RowId(pub i64);

/// Runs a query for one row. Like the functions below, it keeps the compiled statement: to compile
/// it each time would take longer than most queries.
///
/// # Errors
/// `STORAGE_ERROR`, also if there is no row.
pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<T> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    Ok(statement.query_row(params, read).map_err(StoreError::from)?)
}

/// Runs a query for the first row, if there is one.
pub(super) fn optional<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    Ok(statement.query_row(params, read).optional().map_err(StoreError::from)?)
}

/// Runs a query and collects all its rows.
pub(super) fn all<T, C: FromIterator<T>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<C> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let rows = statement.query_map(params, read).and_then(Iterator::collect);
    Ok(rows.map_err(StoreError::from)?)
}

/// Runs a query and passes its rows to `see`.
pub(super) fn each(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut see: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> Result<()> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let mut rows = statement.query(params).map_err(StoreError::from)?;
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        see(row).map_err(StoreError::from)?;
    }
    Ok(())
}

/// Executes a statement and returns the number of changed rows.
pub(super) fn execute(connection: &Connection, sql: &str, params: impl Params) -> Result<usize> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    Ok(statement.execute(params).map_err(StoreError::from)?)
}

/// Position in a worker's journal up to which records are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    /// Segment number; 0 before the first segment.
    pub segment: u64,
    /// Byte offset of the next record in the segment.
    pub offset: u64,
    /// Number of the last stored record.
    pub number: u64,
}

/// An event to store.
#[derive(Debug)]
pub(crate) struct NewEvent<'a> {
    /// Number of its journal record; `None` for the daemon's own events.
    pub number: Option<u64>,
    /// Number of the turn within its worker.
    pub turn: Option<u64>,
    /// Time at which it was written.
    pub at: Timestamp,
    /// Type of the event.
    pub event_type: EventType,
    /// Kind of a progress update.
    pub kind: Option<&'a str>,
    /// Type of its journal record; `None` for the daemon's own events.
    pub record: Option<RecordType>,
    /// Body of the record, or data of the daemon's own event, as JSON.
    pub payload: &'a str,
}

/// A worker to store.
#[derive(Debug)]
pub(crate) struct NewWorker {
    /// Public id of the worker.
    pub worker_id: WorkerId,
    /// Key of its controller.
    pub controller: RowId,
    /// Name by which users address it.
    pub name: NewName,
    /// Label shown to users.
    pub label: String,
    /// Name of the launcher that starts its agent.
    pub launcher: String,
    /// Role given at the start.
    pub role: String,
    /// Absolute working directory of the agent.
    pub cwd: String,
    /// Start specification as JSON.
    pub spec: String,
    /// Session id shown until the agent has reported one.
    pub placeholder: String,
    /// Initial state of the rules.
    pub state: LifecycleState,
    /// Where its runtimes are started.
    pub placement: Option<Placement>,
}

/// A worker as stored.
#[derive(Debug, Clone)]
pub(crate) struct WorkerRow {
    /// Primary key of the row.
    pub id: RowId,
    /// Public id of the worker.
    pub worker_id: WorkerId,
    /// Key of its controller.
    pub controller: RowId,
    /// Public id of its controller.
    pub controller_id: ControllerId,
    /// Name by which users address it.
    pub name: String,
    /// Label shown to users.
    pub label: String,
    /// Name of the launcher that starts its agent.
    pub launcher: String,
    /// Role given at the start.
    pub role: String,
    /// Absolute working directory of the agent.
    pub cwd: String,
    /// Start specification as JSON.
    pub spec: String,
    /// Stored word for its state in the rules (see `workers`).
    pub state: String,
    /// State that the owner wants it to be in.
    pub desired: Desired,
    /// Session id shown until the agent has reported one.
    pub placeholder: String,
    /// Session id that the agent reported.
    pub session_id: Option<String>,
    /// Number of runtimes started for this worker.
    pub incarnation: u64,
    /// Boot id under which the last runtime was started.
    pub boot_id: Option<String>,
    /// Process of the last runtime.
    pub runtime: Option<ProcessId>,
    /// Process of the last runtime's guard.
    pub guard: Option<ProcessId>,
    /// Number of its last turn.
    pub last_turn: u64,
    /// Position up to which its journal is stored.
    pub cursor: Cursor,
    /// Last error of the worker.
    pub last_error: Option<Error>,
    /// Time at which the worker was created.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time at which it stopped.
    pub stopped_at: Option<Timestamp>,
    /// Whether a runtime may be alive, or journal records may be missing in the store.
    pub may_live: bool,
    /// Whether it has a handoff snapshot.
    pub has_handoff: bool,
    /// Progress of a restart.
    pub restart: Restart,
    /// Events up to this sequence number were deleted, except those still needed.
    pub expired_seq: i64,
    /// Errors of the last starts that failed while restoring the session.
    pub restore_failures: Vec<String>,
    /// Whether it hibernates or is about to.
    pub hibernation: Hibernation,
    /// Time at which hibernation began.
    pub hibernated_at: Option<Timestamp>,
    /// Why its queue is paused.
    pub queue_pause: Option<QueuePause>,
    /// Whether it waits for a rate limit to end.
    pub parking: Parking,
    /// Whether it runs a task.
    pub is_task: bool,
    /// Whether it has submitted tasks.
    pub has_tasks: bool,
    /// Where its runtimes are started; `None` beside the daemon.
    pub placement: Option<Placement>,
}

/// Stored words for the hibernation states: none, wanted, begun.
pub(super) const HIBERNATION: [&str; 3] = ["none", "wanted", "begun"];

/// The tables of [`WORKER_COLUMNS`].
pub(super) const WORKER_TABLES: &str =
    "workers w JOIN controllers c ON c.id = w.controller JOIN journal_cursors j ON j.worker = w.id";

pub(super) const WORKER_COLUMNS: &str = "w.id, w.worker_id, w.controller, c.controller_id, w.label, w.launcher, \
     w.role, w.cwd, w.spec, w.state, w.desired, w.placeholder, w.session_id, w.incarnation, w.boot_id, \
     w.runtime_pid, w.runtime_start, w.guard_pid, w.guard_start, w.last_turn, j.segment, j.offset, j.number, \
     w.last_error, w.created_at, w.updated_at, w.stopped_at, w.may_live, \
     EXISTS (SELECT 1 FROM handoffs h WHERE h.worker = w.id), w.restart, \
     w.expired_seq, w.restore_failures, w.hibernation, w.idle_seconds, w.hibernated_at, \
     w.queue_pause, EXISTS (SELECT 1 FROM tasks t WHERE t.worker = w.id), EXISTS (SELECT 1 FROM tasks t WHERE t.parent = w.id) \
     OR EXISTS (SELECT 1 FROM tasks t WHERE t.controller = w.controller AND t.root = w.id), coalesce(w.name, w.worker_id), \
     w.parked_until, w.backoffs, w.placement";

impl WorkerRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: RowId(row.get(0)?),
            worker_id: parsed(row, 1)?,
            controller: RowId(row.get(2)?),
            controller_id: parsed(row, 3)?,
            label: row.get(4)?,
            launcher: row.get(5)?,
            role: row.get(6)?,
            cwd: row.get(7)?,
            spec: row.get(8)?,
            state: row.get(9)?,
            desired: word(row, 10, Desired::parse)?,
            placeholder: row.get(11)?,
            session_id: row.get(12)?,
            incarnation: unsigned(row, 13)?,
            boot_id: row.get(14)?,
            runtime: process(row, 15)?,
            guard: process(row, 17)?,
            last_turn: unsigned(row, 19)?,
            cursor: Cursor {
                segment: unsigned(row, 20)?,
                offset: unsigned(row, 21)?,
                number: unsigned(row, 22)?,
            },
            last_error: row.get::<_, Option<String>>(23)?.and_then(|text| serde_json::from_str(&text).ok()),
            created_at: Timestamp(row.get(24)?),
            updated_at: Timestamp(row.get(25)?),
            stopped_at: row.get::<_, Option<i64>>(26)?.map(Timestamp),
            may_live: row.get(27)?,
            has_handoff: row.get(28)?,
            restart: word(row, 29, |text| {
                Restart::WORDS.iter().find(|(_, word)| *word == text).map(|(restart, _)| *restart)
            })?,
            expired_seq: row.get(30)?,
            restore_failures: row
                .get::<_, Option<String>>(31)?
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
            hibernation: match (
                word(row, 32, |text| HIBERNATION.iter().position(|word| *word == text))?,
                unsigned(row, 33)?,
            ) {
                (0, _) => Hibernation::None,
                (1, idle_seconds) => Hibernation::Wanted { idle_seconds },
                _ => Hibernation::Begun,
            },
            hibernated_at: row.get::<_, Option<i64>>(34)?.map(Timestamp),
            queue_pause: match row.get::<_, Option<String>>(35)? {
                None => None,
                Some(_) => Some(word(row, 35, QueuePause::parse)?),
            },
            is_task: row.get(36)?,
            has_tasks: row.get(37)?,
            name: row.get(38)?,
            parking: Parking { until: row.get::<_, Option<i64>>(39)?.map(Timestamp), backoffs: row.get(40)? },
            placement: match row.get::<_, Option<String>>(41)? {
                None => None,
                Some(_) => Some(word(row, 41, |text| serde_json::from_str(text).ok())?),
            },
        })
    }
}

fn bad(index: usize, what: String) -> rusqlite::Error {
    let error = Box::new(StoreError::BadRow(what));
    rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Text, error)
}

pub(super) fn parsed<T: std::str::FromStr>(row: &Row<'_>, index: usize) -> rusqlite::Result<T>
where
    T::Err: std::fmt::Display,
{
    let text: String = row.get(index)?;
    text.parse().map_err(|error: T::Err| bad(index, error.to_string()))
}

pub(super) fn word<T>(row: &Row<'_>, index: usize, parse: fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    parse(text).ok_or_else(|| bad(index, format!("the word {text:?}")))
}

pub(super) fn unsigned(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(index)?;
    u64::try_from(number).map_err(|_| bad(index, format!("the number {number}")))
}

fn process(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<ProcessId>> {
    let pid: Option<i32> = row.get(index)?;
    let start: Option<i64> = row.get(index + 1)?;
    Ok(pid.zip(start).map(|(pid, start)| ProcessId { pid, start_time: start.unsigned_abs() }))
}
