//! Rows of workers, turns and approvals, and the rules' state in them.

pub(crate) mod child_sessions;
pub(crate) mod details;
pub(crate) mod instructed;
pub(crate) mod names;
pub(crate) mod rest;

use rusqlite::{Connection, params};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::state::{ApprovalStatus, Carrier, Desired, QuestionKind, QueuePause};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result, worker_name};

use super::error::StoreError;
use super::questions::{self, held, inbox};
use super::rows::{self, Cursor, NewWorker, RowId, WORKER_COLUMNS, WorkerRow};
use super::turns::{queue, tool_calls, usage};
use super::tx::{Tx, signed};
use super::{accounts, removal, tasks};
use crate::core::approval::{AgentRequest, Approval};
use crate::core::queue::Queue;
use crate::core::worker::{
    Cancel, Fact, Hibernation, LifecycleState, Restart, RuntimeStatus, RuntimeTurn, SimulatedTurn, Worker,
};

/// Inserts a worker that is to be started.
///
/// # Errors
/// `NAME_TAKEN{name,workerId}`, `STORAGE_ERROR`.
pub(crate) fn insert(tx: &Tx<'_>, worker: &NewWorker, now: Timestamp) -> Result<RowId> {
    let id = removal::next_worker_key(tx, &worker.worker_id)?;
    let name = names::new_name(tx, &worker.name, &worker.launcher)?;
    tx.execute(
        "INSERT INTO workers (id, worker_id, controller, label, launcher, role, cwd, spec, state, desired, placeholder,
                              created_at, updated_at, name, name_key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14)",
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
        ],
    )?;
    Ok(id)
}

/// Stores the rules' state and the journal position.
pub(crate) fn update(tx: &Tx<'_>, id: RowId, worker: &Worker, cursor: Cursor, now: Timestamp) -> Result<()> {
    let (hibernation, idle_seconds) = match worker.hibernation {
        Hibernation::None => (rows::HIBERNATION[0], 0),
        Hibernation::Wanted { idle_seconds } => (rows::HIBERNATION[1], idle_seconds),
        Hibernation::Begun => (rows::HIBERNATION[2], 0),
    };
    tx.execute(
        "UPDATE workers SET state = ?2, last_turn = ?3, segment = ?4, offset = ?5, number = ?6, updated_at = ?7, restart = ?8,
                stopped_at = CASE WHEN ?2 = 'stopped' AND NOT ?9 THEN coalesce(stopped_at, ?7) END,
                hibernation = ?10, idle_seconds = ?11,
                hibernated_at = CASE WHEN ?10 = 'begun' THEN coalesce(hibernated_at, ?7) END, queue_pause = ?12, parked_until = ?13, backoffs = ?14
         WHERE id = ?1",
        params![
            id.0,
            state_word(&worker.state),
            signed(worker.last_turn),
            signed(cursor.segment),
            signed(cursor.offset),
            signed(cursor.number),
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
    Ok(())
}

/// Stores the journal position.
pub(crate) fn update_cursor(tx: &Tx<'_>, id: RowId, cursor: Cursor) -> Result<()> {
    tx.execute(
        "UPDATE workers SET segment = ?2, offset = ?3, number = ?4 WHERE id = ?1",
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

/// Stores the agent's session id.
pub(crate) fn update_session(tx: &Tx<'_>, id: RowId, session_id: &str) -> Result<()> {
    tx.execute("UPDATE workers SET session_id = ?2 WHERE id = ?1", params![id.0, session_id])?;
    Ok(())
}

/// Stores the errors of the last starts that failed while restoring the session.
pub(crate) fn update_restore_failures(tx: &Tx<'_>, id: RowId, failures: &[String]) -> Result<()> {
    let text = (!failures.is_empty()).then(|| serde_json::json!(failures).to_string());
    tx.execute("UPDATE workers SET restore_failures = ?2 WHERE id = ?1", params![id.0, text])?;
    Ok(())
}

/// Stores the facts of a step of the rules. `asked_seq` is the event of the record that caused
/// the step. Returns the added events with their sequence numbers.
pub(crate) fn store_facts(
    tx: &mut Tx<'_>,
    id: RowId,
    facts: &[Fact],
    asked_seq: Option<i64>,
    now: Timestamp,
) -> Result<Vec<(EventType, i64)>> {
    let mut added = Vec::new();
    for fact in facts {
        store_fact(tx, id, fact, asked_seq, now, &mut added)?;
    }
    Ok(added)
}

fn store_fact(
    tx: &mut Tx<'_>,
    id: RowId,
    fact: &Fact,
    asked_seq: Option<i64>,
    now: Timestamp,
    added: &mut Vec<(EventType, i64)>,
) -> Result<()> {
    tasks::store_fact(tx, id, fact, now)?;
    match fact {
        Fact::TurnOpened { no, id: turn_id, carrier } => {
            tx.execute(
                "INSERT INTO turns (worker, no, turn_id, carrier, status, dispatched)
                 VALUES (?1, ?2, ?3, ?4, 'accepted', 'no')",
                params![id.0, signed(*no), turn_id.as_str(), carrier.as_str()],
            )?;
        }
        Fact::TurnQueued { .. }
        | Fact::TurnUnqueued { .. }
        | Fact::QueueOrdered { .. }
        | Fact::QueuedAppended { .. }
        | Fact::QueuedTurnOpened { .. } => {
            added.extend(queue::store_fact(tx, id, fact, now)?);
        }
        Fact::TurnDispatching { no } => {
            let sql = "UPDATE turns SET dispatched = 'maybe' WHERE worker = ?1 AND no = ?2";
            tx.execute(sql, params![id.0, signed(*no)])?;
        }
        Fact::TurnRetried { no } => {
            let sql = "UPDATE turns SET retried = 1 WHERE worker = ?1 AND no = ?2";
            tx.execute(sql, params![id.0, signed(*no)])?;
        }
        Fact::TurnCancel { no, cancel } => {
            tx.execute(
                "UPDATE turns SET cancel_reason = ?3, cancel_requested = ?4 WHERE worker = ?1 AND no = ?2",
                params![id.0, signed(*no), cancel.reason, cancel.requested],
            )?;
        }
        Fact::TurnUsed { no, tokens, counts } => usage::store_tokens(tx, id, *no, *tokens, counts)?,
        Fact::TurnClosed { no, status, dispatched } => {
            let end_seq =
                added.iter().rev().find(|(event_type, _)| event_type.ends_turn()).map(|(_, seq)| *seq);
            let changed = tx.execute(
                "UPDATE turns SET status = ?3, dispatched = ?4, end_seq = ?5, model = (SELECT
                    CASE WHEN json_valid(details) THEN details ->> 'model' END FROM workers WHERE id = ?1)
                 WHERE worker = ?1 AND no = ?2 AND status = 'accepted'",
                params![id.0, signed(*no), status.as_str(), dispatched.as_str(), end_seq],
            )?;
            if changed != 1 {
                return Err(Error::new(Code::Internal, format!("turn {no} was ended twice")));
            }
            if subagent_failpoint::sabotaged("turn.end_twice") {
                let (event_type, data) = (EventType::TurnFailed, serde_json::json!({}));
                let again = Fact::Event { event_type, data, turn: Some(*no) };
                store_fact(tx, id, &again, None, now, added)?;
            }
        }
        Fact::ApprovalOpened { request_id, kind, turn } => {
            let asked = |(event_type, _): &&(EventType, i64)| *event_type == EventType::ApprovalRequested;
            let asked_seq = asked_seq.or_else(|| added.iter().rev().find(asked).map(|(_, seq)| *seq));
            tx.execute(
                "INSERT INTO approvals (request_id, worker, turn, status, asked_seq, kind, deadline_at)
                 VALUES (?1, ?2, (SELECT id FROM turns WHERE worker = ?2 AND no = ?3), 'pending', ?4, ?5,
                         (SELECT e.at + json_extract(w.spec, '$.answerTime.timeoutMs')
                          FROM events e, workers w WHERE e.seq = ?4 AND w.id = ?2))",
                params![request_id.as_str(), id.0, turn.map(signed), asked_seq.unwrap_or(0), kind.as_str()],
            )?;
        }
        Fact::ApprovalHeld { request_id } => {
            tx.execute("UPDATE approvals SET held = 1 WHERE request_id = ?1", [request_id.as_str()])?;
        }
        Fact::ApprovalReleased { request_id } => {
            added.push((EventType::ApprovalRequested, held::release(tx, id, request_id, now)?));
        }
        Fact::ApprovalDecided { request_id, option_id, content, by_cancel } => {
            let decided = |(event_type, _): &&(EventType, i64)| {
                matches!(event_type, EventType::ApprovalDecided | EventType::ElicitationAnswered)
            };
            let decided_seq = added.iter().rev().find(decided).map(|(_, seq)| *seq);
            tx.execute(
                "UPDATE approvals SET status = 'decided', option_id = ?2, by_cancel = ?3, decided_seq = ?4,
                        content = ?5 WHERE request_id = ?1",
                params![
                    request_id.as_str(),
                    option_id,
                    by_cancel,
                    decided_seq,
                    content.as_ref().map(|content| &content.0)
                ],
            )?;
        }
        Fact::ApprovalClosed { request_id, status } => {
            questions::close(tx, request_id, *status)?;
        }
        Fact::TaskEnding(_) | Fact::TaskCause { .. } => {}
        Fact::Inbox(fact) => inbox::store(tx, id, fact)?,
        Fact::Event { event_type, data, turn } => {
            if let Some(turn) = turn.filter(|_| event_type.ends_turn()) {
                tool_calls::close_open(tx, id, turn, now)?;
            }
            let event = rows::NewEvent {
                number: None,
                turn: *turn,
                at: now,
                event_type: *event_type,
                kind: None,
                record: None,
                payload: &data.to_string(),
            };
            let seq = tx.insert_event(id, &event)?;
            // The prompt of a recovered turn is unknown.
            let recovered = *event_type == EventType::TurnStarted && data["recovered"] == true;
            if *event_type == EventType::MessageSent || recovered {
                tx.execute(
                    "UPDATE turns SET message_seq = ?2 WHERE worker = ?1 AND status = 'accepted'",
                    params![id.0, seq],
                )?;
            }
            added.push((*event_type, seq));
        }
        Fact::LastError(error) => {
            let text = error.as_ref().map(serde_json::to_string).transpose();
            let text = text.map_err(|error| StoreError::BadRow(error.to_string()))?;
            tx.execute("UPDATE workers SET last_error = ?2 WHERE id = ?1", params![id.0, text])?;
        }
        Fact::DesiredStop => {
            tx.execute("UPDATE workers SET desired = 'stop' WHERE id = ?1", [id.0])?;
        }
        Fact::Spent(spent) => accounts::spend(tx, id, spent, now, added)?,
    }
    Ok(())
}

/// Returns all workers, or those of one controller, newest first.
///
/// # Errors
/// `STORAGE_ERROR`. An unreadable row is skipped and logged, so that it does not hide the others.
pub(crate) fn list(connection: &Connection, controller_id: Option<&str>) -> Result<Vec<WorkerRow>> {
    let sql = format!(
        "SELECT {WORKER_COLUMNS} FROM workers w JOIN controllers c ON c.id = w.controller
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
        "SELECT {WORKER_COLUMNS} FROM workers w JOIN controllers c ON c.id = w.controller
         WHERE w.worker_id = ?1 AND w.removed_at IS NULL"
    );
    rows::optional(connection, &sql, [worker_id], WorkerRow::read)
}

/// Finds a worker by its key; `None` also for a removed one.
pub(crate) fn by_id(connection: &Connection, id: RowId) -> Result<Option<WorkerRow>> {
    let sql = format!(
        "SELECT {WORKER_COLUMNS} FROM workers w JOIN controllers c ON c.id = w.controller
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
        last_turn: row.last_turn,
        known_turn: known_turn.unwrap_or(0).unsigned_abs(),
        restart: row.restart,
        hibernation: row.hibernation,
        queue: Queue { turns: queue::ids(connection, row.id)?, paused: row.queue_pause, gated: false },
        parking: row.parking,
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

/// A turn as stored.
#[derive(Debug, Clone)]
pub(crate) struct TurnRow {
    pub(crate) turn_id: TurnId,
    /// Sequence number of its ending event.
    pub(crate) end_seq: Option<i64>,
}

/// Finds a turn of a worker by its id.
pub(crate) fn turn(connection: &Connection, worker: RowId, turn_id: &str) -> Result<Option<TurnRow>> {
    rows::optional(
        connection,
        "SELECT turn_id, end_seq FROM turns WHERE worker = ?1 AND turn_id = ?2",
        params![worker.0, turn_id],
        |row| Ok(TurnRow { turn_id: rows::parsed(row, 0)?, end_seq: row.get(1)? }),
    )
}

/// Returns the data of a turn's message.
///
/// # Errors
/// `STORAGE_ERROR`, also when there is none.
pub(crate) fn message(connection: &Connection, worker: RowId, no: u64) -> Result<String> {
    let sql = "SELECT e.payload FROM turns t JOIN events e ON e.seq = t.message_seq WHERE t.worker = ?1 AND t.no = ?2";
    rows::one(connection, sql, params![worker.0, signed(no)], |row| row.get(0))
}

/// A question as stored.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalRow {
    pub(crate) request_id: RequestId,
    pub(crate) kind: QuestionKind,
    pub(crate) turn_id: Option<TurnId>,
    pub(crate) status: ApprovalStatus,
    pub(crate) asked_at: Timestamp,
    /// Executor of the asking turn: the runtime, or the daemon itself.
    pub(crate) carrier: Carrier,
    /// Body of the record `approvalRequested` or `elicitationRequested`, or data of the daemon's
    /// event.
    pub(crate) asked: String,
}

/// Returns one question of a worker (`request_id`), or all pending ones, oldest first.
pub(crate) fn approvals(
    connection: &Connection,
    worker: RowId,
    request_id: Option<&str>,
) -> Result<Vec<ApprovalRow>> {
    // Each condition has an index: that of the id, or the partial index of open questions.
    let which = match request_id {
        Some(_) => "a.request_id = ?2",
        None => "a.status IN ('pending', 'decided') AND a.status = 'pending' AND a.held = 0 AND ?2 IS NULL",
    };
    let sql = format!(
        "SELECT a.request_id, t.turn_id, a.status, e.at, e.payload, e.record IS NULL, a.kind
         FROM approvals a JOIN events e ON e.seq = a.asked_seq LEFT JOIN turns t ON t.id = a.turn
         WHERE a.worker = ?1 AND {which} ORDER BY a.id"
    );
    rows::all(connection, &sql, params![worker.0, request_id], |row| {
        let turn_id: Option<String> = row.get(1)?;
        Ok(ApprovalRow {
            request_id: rows::parsed(row, 0)?,
            turn_id: turn_id.and_then(|id| id.parse().ok()),
            status: rows::word(row, 2, ApprovalStatus::parse)?,
            asked_at: Timestamp(row.get(3)?),
            asked: row.get(4)?,
            kind: rows::word(row, 6, QuestionKind::parse)?,
            carrier: if row.get(5)? { Carrier::Local } else { Carrier::Runtime },
        })
    })
}
