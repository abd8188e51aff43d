//! A worker as stored. Must not change it.

use rusqlite::Row;
use subagent_core::model::{Hibernation, Parking, Restart};
use subagent_protocol::Error;
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::placement::Placement;
use subagent_protocol::process::ProcessId;
use subagent_protocol::state::{Desired, QueuePause};
use subagent_protocol::time::Timestamp;

use crate::store::rows::{Cursor, RowId, parsed, unsigned, word};

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
    /// Name of the launcher that starts its agent.
    pub launcher: String,
    /// Absolute working directory of the agent.
    pub cwd: String,
    /// Start specification as JSON.
    pub spec: String,
    /// Where its runtimes are started; `None` beside the daemon.
    pub placement: Option<Placement>,
    /// Stored word for its state in the rules (see `workers`).
    pub state: String,
    /// Number of runtimes started for this worker.
    pub incarnation: u64,
    /// What the rules go on from, beside its state.
    pub rules: StoredRules,
    /// The agent that works, and for whom.
    pub agent: StoredAgent,
    /// The last runtime, and how far its journal is stored.
    pub runtime: StoredRuntime,
    /// When the worker changed, and what is kept of it.
    pub history: StoredHistory,
}

/// What the rules of a worker go on from, beside its state.
#[derive(Debug, Clone)]
pub(crate) struct StoredRules {
    /// State that the owner wants the worker to be in.
    pub desired: Desired,
    /// Number of its last turn.
    pub last_turn: u64,
    /// Last error of the worker.
    pub last_error: Option<Error>,
    /// Progress of a restart.
    pub restart: Restart,
    /// Whether it hibernates or is about to.
    pub hibernation: Hibernation,
    /// Time at which hibernation began.
    pub hibernated_at: Option<Timestamp>,
    /// Why its queue is paused.
    pub queue_pause: Option<QueuePause>,
    /// Whether it waits for a rate limit to end.
    pub parking: Parking,
}

/// The agent of a worker, and its session.
#[derive(Debug, Clone)]
pub(crate) struct StoredAgent {
    /// Label of its work, shown to users.
    pub label: String,
    /// Role given at the start.
    pub role: String,
    /// Whether it works on a task.
    pub is_task: bool,
    /// Whether it has submitted tasks.
    pub has_tasks: bool,
    /// Session id shown until the agent has reported one.
    placeholder: String,
    /// Session id that the agent reported.
    pub session_id: Option<String>,
    /// Errors of the last starts that failed while restoring the session.
    pub restore_failures: Vec<String>,
}

/// The last runtime of a worker.
#[derive(Debug, Clone)]
pub(crate) struct StoredRuntime {
    /// Boot id under which it was started.
    pub boot_id: Option<String>,
    /// Process of the runtime.
    pub process: Option<ProcessId>,
    /// The process of its guard.
    pub guard: Option<ProcessId>,
    /// Whether a runtime may be alive, or journal records may be missing in the store.
    pub may_live: bool,
    /// Position up to which the worker's journal is stored.
    pub cursor: Cursor,
}

/// When a worker changed, and what is kept of it.
#[derive(Debug, Clone)]
pub(crate) struct StoredHistory {
    /// Time at which the worker was created.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time at which it stopped.
    pub stopped_at: Option<Timestamp>,
    /// Events up to this sequence number were deleted, except those still needed.
    pub expired_seq: i64,
    /// Whether it has a handoff snapshot.
    pub has_handoff: bool,
}

/// Stored words for the hibernation states: none, wanted, begun.
pub(super) const HIBERNATION: [&str; 3] = ["none", "wanted", "begun"];

/// The tables of [`WORKER_COLUMNS`].
pub(in crate::store) const WORKER_TABLES: &str =
    "workers w JOIN controllers c ON c.id = w.controller JOIN journal_cursors j ON j.worker = w.id";

pub(in crate::store) const WORKER_COLUMNS: &str = "w.id, w.worker_id, w.controller, c.controller_id, w.label, w.launcher, \
     w.role, w.cwd, w.spec, w.state, w.desired, w.placeholder, w.session_id, w.incarnation, w.boot_id, \
     w.runtime_pid, w.runtime_start, w.guard_pid, w.guard_start, w.last_turn, j.segment, j.offset, j.number, \
     w.last_error, w.created_at, w.updated_at, w.stopped_at, w.may_live, \
     EXISTS (SELECT 1 FROM handoffs h WHERE h.worker = w.id), w.restart, \
     w.expired_seq, w.restore_failures, w.hibernation, w.idle_seconds, w.hibernated_at, \
     w.queue_pause, EXISTS (SELECT 1 FROM tasks t WHERE t.worker = w.id), EXISTS (SELECT 1 FROM tasks t WHERE t.parent = w.id) \
     OR EXISTS (SELECT 1 FROM tasks t WHERE t.controller = w.controller AND t.root = w.id), coalesce(w.name, w.worker_id), \
     w.parked_until, w.backoffs, w.placement";

impl WorkerRow {
    /// Reads a row of [`WORKER_COLUMNS`].
    pub(in crate::store) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: RowId(row.get(0)?),
            worker_id: parsed(row, 1)?,
            controller: RowId(row.get(2)?),
            controller_id: parsed(row, 3)?,
            launcher: row.get(5)?,
            cwd: row.get(7)?,
            spec: row.get(8)?,
            state: row.get(9)?,
            incarnation: unsigned(row, 13)?,
            name: row.get(38)?,
            placement: match row.get::<_, Option<String>>(41)? {
                None => None,
                Some(_) => Some(word(row, 41, |text| serde_json::from_str(text).ok())?),
            },
            rules: StoredRules::read(row)?,
            agent: StoredAgent::read(row)?,
            runtime: StoredRuntime::read(row)?,
            history: StoredHistory::read(row)?,
        })
    }
}

impl StoredRules {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            desired: word(row, 10, Desired::parse)?,
            last_turn: unsigned(row, 19)?,
            last_error: row.get::<_, Option<String>>(23)?.and_then(|text| serde_json::from_str(&text).ok()),
            restart: word(row, 29, |text| {
                Restart::WORDS.iter().find(|(_, word)| *word == text).map(|(restart, _)| *restart)
            })?,
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
            parking: Parking { until: row.get::<_, Option<i64>>(39)?.map(Timestamp), backoffs: row.get(40)? },
        })
    }
}

impl StoredAgent {
    /// Returns the session id that users see.
    pub(crate) fn shown_session(&self) -> &str {
        self.session_id.as_ref().unwrap_or(&self.placeholder)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            label: row.get(4)?,
            role: row.get(6)?,
            placeholder: row.get(11)?,
            session_id: row.get(12)?,
            restore_failures: row
                .get::<_, Option<String>>(31)?
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
            is_task: row.get(36)?,
            has_tasks: row.get(37)?,
        })
    }
}

impl StoredRuntime {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            boot_id: row.get(14)?,
            process: process(row, 15)?,
            guard: process(row, 17)?,
            cursor: Cursor {
                segment: unsigned(row, 20)?,
                offset: unsigned(row, 21)?,
                number: unsigned(row, 22)?,
            },
            may_live: row.get(27)?,
        })
    }
}

impl StoredHistory {
    /// Returns since when a stopped worker is stopped.
    pub(crate) fn ended_at(&self) -> Timestamp {
        self.stopped_at.unwrap_or(self.updated_at)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            created_at: Timestamp(row.get(24)?),
            updated_at: Timestamp(row.get(25)?),
            stopped_at: row.get::<_, Option<i64>>(26)?.map(Timestamp),
            has_handoff: row.get(28)?,
            expired_seq: row.get(30)?,
        })
    }
}

fn process(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<ProcessId>> {
    let pid: Option<i32> = row.get(index)?;
    let start: Option<i64> = row.get(index + 1)?;
    Ok(pid.zip(start).map(|(pid, start)| ProcessId { pid, start_time: start.unsigned_abs() }))
}
