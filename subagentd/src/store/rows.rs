//! Rows as values.

use rusqlite::{Connection, Params, Row};
use subagent_protocol::Error;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::record::RecordType;
use subagent_protocol::state::{Desired, QueuePause};
use subagent_protocol::time::Timestamp;

use super::error::StoreError;
use super::worker_names::NewName;
use crate::core::rate_limit::Parking;
use crate::core::worker::{Hibernation, Restart, State};

/// The integer key of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowId(pub i64);

/// The one row of a query that is asked again and again: `Connection::query_row` would compile it each time, which takes
/// longer than most of these queries.
///
/// # Errors
/// SQLite's; `QueryReturnedNoRows` where there is none.
pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.prepare_cached(sql)?.query_row(params, read)
}

/// How far a journal was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// The segment; 0 before the first.
    pub segment: u64,
    /// The offset of the next record in it, in bytes.
    pub offset: u64,
    /// The number of the last record that was taken.
    pub number: u64,
}

/// An event to be stored.
#[derive(Debug)]
pub struct NewEvent<'a> {
    /// The record's number; `None` for the daemon's own.
    pub number: Option<u64>,
    /// The worker's number of the turn.
    pub turn: Option<u64>,
    /// When it was written.
    pub at: Timestamp,
    /// Its type.
    pub event_type: EventType,
    /// The kind of an update.
    pub kind: Option<&'a str>,
    /// The type of the record; `None` for the daemon's own.
    pub record: Option<RecordType>,
    /// The record's body, or the data of the daemon's own.
    pub payload: &'a str,
}

/// A worker to be stored.
#[derive(Debug)]
pub struct NewWorker {
    /// Its id.
    pub worker_id: WorkerId,
    /// Its controller.
    pub controller: RowId,
    /// What it is called.
    pub name: NewName,
    /// Its label.
    pub label: String,
    /// The name of its launcher.
    pub launcher: String,
    /// Its role.
    pub role: String,
    /// Where it works.
    pub cwd: String,
    /// Its spec as JSON.
    pub spec: String,
    /// The session id to show before there is one.
    pub placeholder: String,
    /// What it is in the rules.
    pub state: State,
}

/// A worker as it is stored.
#[derive(Debug, Clone)]
pub struct WorkerRow {
    /// Its key.
    pub id: RowId,
    /// Its id.
    pub worker_id: WorkerId,
    /// Its controller's key.
    pub controller: RowId,
    /// Its controller.
    pub controller_id: ControllerId,
    /// What it is called.
    pub name: String,
    /// Its label.
    pub label: String,
    /// The name of its launcher.
    pub launcher: String,
    /// Its role.
    pub role: String,
    /// Where it works.
    pub cwd: String,
    /// Its spec as JSON.
    pub spec: String,
    /// The word for its state in the rules (see `workers.rs`).
    pub state: String,
    /// What it should be doing.
    pub desired: Desired,
    /// The session id to show before there is one.
    pub placeholder: String,
    /// The agent's session.
    pub session_id: Option<String>,
    /// How many runtimes it has had.
    pub incarnation: u64,
    /// The boot in which the last one was started.
    pub boot_id: Option<String>,
    /// The last runtime's process.
    pub runtime: Option<ProcessId>,
    /// The last guard's process.
    pub guard: Option<ProcessId>,
    /// The number of its last turn.
    pub last_turn: u64,
    /// How far its journal was taken.
    pub cursor: Cursor,
    /// The last error.
    pub last_error: Option<Error>,
    /// Created.
    pub created_at: Timestamp,
    /// Last changed.
    pub updated_at: Timestamp,
    /// Stopped.
    pub stopped_at: Option<Timestamp>,
    /// Whether a runtime may live, or its journal was not taken to the end.
    pub may_live: bool,
    /// Whether there is a snapshot of it for a successor.
    pub has_handoff: bool,
    /// How far a restart is.
    pub restart: Restart,
    /// Events up to this one were deleted, but those that are still needed.
    pub expired_seq: i64,
    /// What the last starts came to that failed while they restored the session.
    pub restore_failures: Vec<String>,
    /// Whether it hibernates, or is about to.
    pub hibernation: Hibernation,
    /// Since when it hibernates.
    pub hibernated_at: Option<Timestamp>,
    /// Why nothing of what waits for it is begun.
    pub queue_pause: Option<QueuePause>,
    /// Whether it waits for the end of a rate limit.
    pub parking: Parking,
    /// Whether it was made for a task.
    pub is_task: bool,
    /// Whether it has given tasks.
    pub has_tasks: bool,
}

/// How far a hibernation is: none, wanted, begun.
pub(super) const HIBERNATION: [&str; 3] = ["none", "wanted", "begun"];

pub(super) const WORKER_COLUMNS: &str = "w.id, w.worker_id, w.controller, c.controller_id, w.label, w.launcher, \
     w.role, w.cwd, w.spec, w.state, w.desired, w.placeholder, w.session_id, w.incarnation, w.boot_id, \
     w.runtime_pid, w.runtime_start, w.guard_pid, w.guard_start, w.last_turn, w.segment, w.offset, w.number, \
     w.last_error, w.created_at, w.updated_at, w.stopped_at, w.may_live, \
     EXISTS (SELECT 1 FROM handoffs h WHERE h.worker = w.id), w.restart, \
     w.expired_seq, w.restore_failures, w.hibernation, w.idle_seconds, w.hibernated_at, \
     w.queue_pause, EXISTS (SELECT 1 FROM tasks t WHERE t.worker = w.id), EXISTS (SELECT 1 FROM tasks t WHERE t.parent = w.id) \
     OR EXISTS (SELECT 1 FROM tasks t WHERE t.controller = w.controller AND t.root = w.id), coalesce(w.name, w.worker_id), \
     w.parked_until, w.backoffs";

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
