//! Rows of workers, and the rules' state in them and in the rows of turns and questions.

pub(crate) mod child_sessions;
pub(crate) mod details;
pub(crate) mod names;
pub(crate) mod rest;
pub(crate) mod row;

use rusqlite::{Connection, params};
use subagent_core::model::{
    AgentRequest, Approval, Cancel, Hibernation, LifecycleState, Queue, Restart, RuntimeStatus, RuntimeTurn,
    SimulatedTurn, Worker,
};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, TurnId, WorkerId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::state::{ApprovalStatus, Carrier, Desired, QuestionKind, QueuePause};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result, worker_name};

use self::row::{WORKER_COLUMNS, WORKER_TABLES, WorkerRow};
use super::error::StoreError;
use super::rows::{self, Cursor, NewWorker, RowId};
use super::turns::queue;
use super::tx::{Tx, signed};

/// Inserts a worker that is to be started.
///
/// # Errors
/// `NAME_TAKEN{name,workerId}`, `STORAGE_ERROR`.
pub(crate) fn insert(tx: &Tx<'_>, worker: &NewWorker, now: Timestamp) -> Result<RowId> {
    let id = next_key(tx, &worker.worker_id)?;
    let name = names::new_name(tx, &worker.name, &worker.launcher)?;
    let placement = worker.placement.as_ref().map(serde_json::to_string).transpose();
    let placement = placement.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    tx.execute(
        "INSERT INTO workers (id, worker_id, controller, label, launcher, role, cwd, spec, state, desired, placeholder,
                              created_at, updated_at, name, name_key, placement)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14, ?15)",
        params![
            id.0,
            worker.worker_id.as_str(),
            worker.controller.0,
            worker.label,
            worker.launcher,
            worker.role,
            worker.cwd,
            worker.spec,
            state_word(&worker.state),
            Desired::Run.as_str(),
            worker.placeholder,
            now.0,
            name,
            name.as_deref().map(worker_name::key),
            placement,
        ],
    )?;
    tx.execute("INSERT INTO journal_cursors (worker) VALUES (?1)", [id.0])?;
    Ok(id)
}

/// Allocates the key of a new worker. Keys are never reused, because a caller may still hold
/// that of a removed worker.
///
/// # Errors
/// `INTERNAL_ERROR` if a removed worker had this id, `STORAGE_ERROR`.
fn next_key(tx: &Tx<'_>, worker_id: &WorkerId) -> Result<RowId> {
    if was_removed(tx.connection, worker_id.as_str())? {
        let message = format!("the new id {worker_id} is that of a worker that was removed; try again");
        return Err(Error::new(Code::Internal, message).retryable());
    }
    tx.execute(
        "UPDATE meta SET value = max(value, (SELECT coalesce(max(id), 0) FROM workers)) + 1
         WHERE key = 'worker_key'",
        [],
    )?;
    let sql = "SELECT value FROM meta WHERE key = 'worker_key'";
    Ok(RowId(rows::one(tx.connection, sql, [], |row| row.get(0))?))
}

fn was_removed(connection: &Connection, worker_id: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM removed_workers WHERE worker_id = ?1)";
    rows::one(connection, sql, [worker_id], |row| row.get(0))
}

/// Stores the rules' state and the journal position.
pub(crate) fn update(tx: &Tx<'_>, id: RowId, worker: &Worker, cursor: Cursor, now: Timestamp) -> Result<()> {
    let (hibernation, idle_seconds) = match worker.hibernation {
        Hibernation::None => (row::HIBERNATION[0], 0),
        Hibernation::Wanted { idle_seconds } => (row::HIBERNATION[1], idle_seconds),
        Hibernation::Begun => (row::HIBERNATION[2], 0),
    };
    tx.execute(
        "UPDATE workers SET state = ?2, last_turn = ?3, updated_at = ?4, restart = ?5,
                stopped_at = CASE WHEN ?2 = 'stopped' AND NOT ?6 THEN coalesce(stopped_at, ?4) END,
                hibernation = ?7, idle_seconds = ?8,
                hibernated_at = CASE WHEN ?7 = 'begun' THEN coalesce(hibernated_at, ?4) END,
                queue_pause = ?9, parked_until = ?10, backoffs = ?11
         WHERE id = ?1",
        params![
            id.0,
            state_word(&worker.state),
            signed(worker.last_turn),
            now.0,
            restart_word(worker.restart),
            subagent_failpoint::sabotaged("store.forget_stopped_at"),
            hibernation,
            signed(idle_seconds),
            worker.queue.paused.map(QueuePause::as_str),
            worker.parking.until.map(|until| until.0),
            worker.parking.backoffs,
        ],
    )?;
    update_cursor(tx, id, cursor)
}

/// Stores the journal position.
pub(crate) fn update_cursor(tx: &Tx<'_>, id: RowId, cursor: Cursor) -> Result<()> {
    tx.execute(
        "UPDATE journal_cursors SET segment = ?2, offset = ?3, number = ?4 WHERE worker = ?1",
        params![id.0, signed(cursor.segment), signed(cursor.offset), signed(cursor.number)],
    )?;
    Ok(())
}

/// Stores that a new runtime is about to start. From now on it may be alive.
pub(crate) fn begin_incarnation(tx: &Tx<'_>, id: RowId, incarnation: u64, boot_id: &str) -> Result<()> {
    tx.execute(
        "UPDATE workers SET incarnation = ?2, boot_id = ?3, may_live = 1, runtime_pid = NULL,
                runtime_start = NULL, guard_pid = NULL, guard_start = NULL WHERE id = ?1",
        params![id.0, signed(incarnation), boot_id],
    )?;
    Ok(())
}

/// Stores in which boot of its machine the runtime was started.
pub(crate) fn update_boot_id(tx: &Tx<'_>, id: RowId, boot_id: &str) -> Result<()> {
    tx.execute("UPDATE workers SET boot_id = ?2 WHERE id = ?1", params![id.0, boot_id])?;
    Ok(())
}

/// Stores that the last runtime is gone and its journal is completely stored.
pub(crate) fn end_incarnation(tx: &Tx<'_>, id: RowId) -> Result<()> {
    tx.execute(
        "UPDATE workers SET may_live = 0, runtime_pid = NULL, runtime_start = NULL WHERE id = ?1",
        [id.0],
    )?;
    Ok(())
}

/// Stores the runtime's processes. Unchanged values cause no write and no sync.
pub(crate) fn update_processes(
    tx: &Tx<'_>,
    id: RowId,
    runtime: Option<ProcessId>,
    guard: Option<ProcessId>,
) -> Result<()> {
    let pid = |process: Option<ProcessId>| process.map(|p| p.pid);
    let start = |process: Option<ProcessId>| process.map(|p| signed(p.start_time));
    tx.execute(
        "UPDATE workers SET runtime_pid = ?2, runtime_start = ?3, guard_pid = ?4, guard_start = ?5 WHERE id = ?1
         AND (runtime_pid, runtime_start, guard_pid, guard_start) IS NOT (?2, ?3, ?4, ?5)",
        params![id.0, pid(runtime), start(runtime), pid(guard), start(guard)],
    )?;
    Ok(())
}

/// Stores the start specification for later runtimes.
pub(crate) fn update_spec(tx: &Tx<'_>, id: RowId, spec: &str) -> Result<()> {
    tx.execute("UPDATE workers SET spec = ?2 WHERE id = ?1", params![id.0, spec])?;
    Ok(())
}

/// Returns the start specification as JSON.
pub(crate) fn spec(tx: &Tx<'_>, id: RowId) -> Result<String> {
    rows::one(tx.connection, "SELECT spec FROM workers WHERE id = ?1", [id.0], |row| row.get(0))
}

/// Stores the working directory of a worker.
pub(crate) fn update_cwd(tx: &Tx<'_>, id: RowId, cwd: &str) -> Result<()> {
    tx.execute("UPDATE workers SET cwd = ?2 WHERE id = ?1", params![id.0, cwd])?;
    Ok(())
}

/// Stores the agent's session id.
pub(crate) fn update_session(tx: &Tx<'_>, id: RowId, session_id: &str) -> Result<()> {
    tx.execute("UPDATE workers SET session_id = ?2 WHERE id = ?1", params![id.0, session_id])?;
    Ok(())
}

/// Stores that the session has received the prompt of the agent definition, or (`false`) that a new session has not.
pub(crate) fn update_instructed(tx: &Tx<'_>, id: RowId, instructed: bool) -> Result<()> {
    tx.execute("UPDATE workers SET instructed = ?2 WHERE id = ?1", params![id.0, instructed])?;
    Ok(())
}

/// Stores the last error of the worker; `None` removes it.
pub(super) fn update_last_error(tx: &Tx<'_>, id: RowId, error: Option<&Error>) -> Result<()> {
    let text = error.map(serde_json::to_string).transpose();
    let text = text.map_err(|error| StoreError::BadRow(error.to_string()))?;
    tx.execute("UPDATE workers SET last_error = ?2 WHERE id = ?1", params![id.0, text])?;
    Ok(())
}

/// Stores that the owner wants the worker to be stopped.
pub(super) fn stop(tx: &Tx<'_>, id: RowId) -> Result<()> {
    tx.execute("UPDATE workers SET desired = 'stop' WHERE id = ?1", [id.0])?;
    Ok(())
}

/// Stores the errors of the last starts that failed while restoring the session.
pub(crate) fn update_restore_failures(tx: &Tx<'_>, id: RowId, failures: &[String]) -> Result<()> {
    let text = (!failures.is_empty()).then(|| serde_json::json!(failures).to_string());
    tx.execute("UPDATE workers SET restore_failures = ?2 WHERE id = ?1", params![id.0, text])?;
    Ok(())
}

/// Returns all workers, or those of one controller, newest first.
///
/// # Errors
/// `STORAGE_ERROR`. An unreadable row is skipped and logged, so that it does not hide the others.
pub(crate) fn list(connection: &Connection, controller_id: Option<&str>) -> Result<Vec<WorkerRow>> {
    let sql = format!(
        "SELECT {WORKER_COLUMNS} FROM {WORKER_TABLES}
         WHERE w.removed_at IS NULL AND (?1 IS NULL OR c.controller_id = ?1) ORDER BY w.created_at DESC, w.worker_id DESC"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let rows = statement.query_map([controller_id], WorkerRow::read).map_err(StoreError::from)?;
    let mut workers = Vec::new();
    for row in rows {
        match row {
            Ok(worker) => workers.push(worker),
            Err(error @ rusqlite::Error::FromSqlConversionFailure(..)) => {
                tracing::error!(%error, "a worker's row cannot be read and is left out");
            }
            Err(error) => return Err(StoreError::from(error).into()),
        }
    }
    Ok(workers)
}

/// Finds a worker by its public id; `None` also for a removed one.
pub(crate) fn get(connection: &Connection, worker_id: &str) -> Result<Option<WorkerRow>> {
    let sql = format!(
        "SELECT {WORKER_COLUMNS} FROM {WORKER_TABLES}
         WHERE w.worker_id = ?1 AND w.removed_at IS NULL"
    );
    rows::optional(connection, &sql, [worker_id], WorkerRow::read)
}

/// Finds a worker by its key; `None` also for a removed one.
pub(crate) fn by_id(connection: &Connection, id: RowId) -> Result<Option<WorkerRow>> {
    let sql = format!(
        "SELECT {WORKER_COLUMNS} FROM {WORKER_TABLES}
         WHERE w.id = ?1 AND w.removed_at IS NULL"
    );
    rows::optional(connection, &sql, [id.0], WorkerRow::read)
}

/// Loads the rules' state of a worker. The runtime is unknown then: `link` is [`RuntimeStatus::None`].
///
/// # Errors
/// `STORAGE_ERROR`, also for contradicting rows.
pub(crate) fn load(connection: &Connection, row: &WorkerRow) -> Result<Worker> {
    let turn = rows::optional(
        connection,
        "SELECT no, turn_id, dispatched, cancel_reason, cancel_requested, retried, carrier,
                    (SELECT request_id FROM approvals a WHERE a.turn = turns.id AND a.status = 'pending')
             FROM turns WHERE worker = ?1 AND status = 'accepted'",
        [row.id.0],
        |row| {
            let (no, id) = (rows::unsigned(row, 0)?, rows::parsed::<TurnId>(row, 1)?);
            if rows::word(row, 6, Carrier::parse)? == Carrier::Local {
                let request_id = rows::parsed::<RequestId>(row, 7)?;
                return Ok(OpenTurnRow::Local(SimulatedTurn { no, id, request_id }));
            }
            let dispatched: String = row.get(2)?;
            let reason: Option<String> = row.get(3)?;
            let requested: bool = row.get(4)?;
            Ok(OpenTurnRow::Runtime(RuntimeTurn {
                no,
                id,
                dispatching: dispatched != "no",
                retried: row.get(5)?,
                cancel: reason.map(|reason| Cancel { reason, requested }),
            }))
        },
    )?;
    let state = match (row.state.as_str(), turn) {
        ("starting", None) => LifecycleState::Starting,
        ("idle", None) => LifecycleState::Idle,
        ("turn", Some(OpenTurnRow::Runtime(turn))) => LifecycleState::Turn(turn),
        ("local", Some(OpenTurnRow::Local(turn))) => LifecycleState::Local(turn),
        ("stopping", None) => LifecycleState::Stopping(None),
        ("stopping", Some(OpenTurnRow::Runtime(turn))) => LifecycleState::Stopping(Some(turn)),
        ("error", None) => LifecycleState::Error,
        ("stopped", None) => LifecycleState::Stopped,
        (word, turn) => {
            let what =
                format!("worker {} is {word:?} with {} open turn", row.worker_id, u8::from(turn.is_some()));
            return Err(StoreError::BadRow(what).into());
        }
    };
    let approvals = rows::all(
        connection,
        "SELECT a.request_id, a.status, a.option_id, a.by_cancel, t.no, a.kind, a.held
             FROM approvals a LEFT JOIN turns t ON t.id = a.turn
             WHERE a.worker = ?1 AND a.status IN ('pending', 'decided') AND t.carrier IS NOT 'local'",
        [row.id.0],
        |row| {
            let status = rows::word(row, 1, ApprovalStatus::parse)?;
            let approval = match (status, row.get(3)?) {
                (ApprovalStatus::Pending, _) if row.get(6)? => Approval::Held,
                (ApprovalStatus::Pending, _) => Approval::Pending,
                (_, true) => Approval::DecidedByCancel,
                (_, false) => Approval::Decided { option_id: row.get(2)? },
            };
            let turn = row.get::<_, Option<i64>>(4)?.map(i64::unsigned_abs);
            let kind = rows::word(row, 5, QuestionKind::parse)?;
            Ok((rows::parsed::<RequestId>(row, 0)?, AgentRequest { kind, turn, approval }))
        },
    )?;
    let known_turn: Option<i64> =
        rows::one(connection, "SELECT max(no) FROM turns WHERE worker = ?1", [row.id.0], |row| row.get(0))?;
    Ok(Worker {
        state,
        link: RuntimeStatus::None,
        approvals,
        last_turn: row.rules.last_turn,
        known_turn: known_turn.unwrap_or(0).unsigned_abs(),
        restart: row.rules.restart,
        hibernation: row.rules.hibernation,
        queue: Queue { turns: queue::ids(connection, row.id)?, paused: row.rules.queue_pause, gated: false },
        parking: row.rules.parking,
    })
}

/// An open turn, by its executor.
enum OpenTurnRow {
    Runtime(RuntimeTurn),
    Local(SimulatedTurn),
}

const fn state_word(state: &LifecycleState) -> &'static str {
    match state {
        LifecycleState::Starting => "starting",
        LifecycleState::Idle => "idle",
        LifecycleState::Turn(_) => "turn",
        LifecycleState::Local(_) => "local",
        LifecycleState::Stopping(_) => "stopping",
        LifecycleState::Error => "error",
        LifecycleState::Stopped => "stopped",
    }
}

fn restart_word(restart: Restart) -> &'static str {
    Restart::WORDS.iter().find(|(known, _)| *known == restart).map_or("none", |(_, word)| word)
}

/// Whether the sessionhas received the prompt of the agent definition.
pub(crate) fn instructed(connection: &Connection, id: RowId) -> Result<bool> {
    let sql = "SELECT instructed FROM workers WHERE id = ?1";
    rows::one(connection, sql, [id.0], |row| row.get(0))
}

/// Whether the record with this number is the guard's proof that the runtime ended in order.
pub(crate) fn is_proof(connection: &Connection, worker: RowId, number: u64) -> Result<bool> {
    // Records of progress are in no index by number.
    let sql = "SELECT record = 'ended' FROM events WHERE worker = ?1 AND number = ?2 AND kind IS NULL";
    Ok(rows::optional(connection, sql, params![worker.0, signed(number)], |row| row.get(0))?.unwrap_or(false))
}

/// Returns whether records of the worker are missing at all, and whether since the message of its
/// open turn. The latter may concern its prompt.
pub(crate) fn gaps(connection: &Connection, worker: RowId) -> Result<(bool, bool)> {
    let sql = "SELECT max(e.seq) IS NOT NULL, coalesce(max(e.seq) > (SELECT message_seq FROM turns t
                 WHERE t.worker = ?1 AND t.status = 'accepted'), 0)
               FROM events e WHERE e.worker = ?1 AND e.internal = 0 AND e.kind IS NULL AND e.type = ?2";
    let gap = EventType::JournalGap.as_str();
    rows::one(connection, sql, params![worker.0, gap], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns whether the newest report about the worker's place says that it does not answer.
pub(crate) fn is_unreachable(connection: &Connection, worker: RowId) -> Result<bool> {
    let newest = |event_type: EventType| {
        let sql = "SELECT coalesce(max(seq), 0) FROM events
                   WHERE worker = ?1 AND internal = 0 AND kind IS NULL AND type = ?2";
        rows::one(connection, sql, params![worker.0, event_type.as_str()], |row| row.get::<_, i64>(0))
    };
    Ok(newest(EventType::WorkerUnreachable)? > newest(EventType::WorkerReached)?)
}
