//! Ends a task in the transaction of the cause, and stores the result due to its parent.
//! The outcome of a task is decided in `subagent_core::task`.

use rusqlite::{Connection, params};
use serde::Deserialize;
use subagent_core::model::{Fact, LastTurn, Worker};
use subagent_core::task::{self, beginning};
use subagent_protocol::api::{TaskMode, TaskStatus};
use subagent_protocol::data::EventData;
use subagent_protocol::data::tasks::{SubagentCancelled, SubagentCompleted, SubagentFailed};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::state::TurnStatus;
use subagent_protocol::task_result;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::{OpenTask, causes, count};
use crate::store::error::StoreError;
use crate::store::events::message_text::final_message;
use crate::store::rows::{self, RowId};
use crate::store::tx::{Tx, signed};
use crate::store::{facts, tasks};

/// Maximum size of a stored result in bytes.
const MAX_RESULT: usize = 1024 * 1024;
/// Appended to a result that was cut.
const CUT: &str = "\n[cut here: the rest is in the events of the task]";
/// Maximum length of the result's summary in an event, in characters.
const SUMMARY_CHARS: usize = 1_000;

/// SQL condition for a parent `p` that was ended, or is being ended, by a request, a limit, or a
/// worker above it.
const WAS_ENDED: &str = "(p.ending IS NOT NULL OR (p.outcome IS NULL AND p.why IS NOT NULL)
     OR p.outcome IN ('cancelled', 'timed_out', 'max_iterations_reached'))";

/// Same as [`WAS_ENDED`], for an outcome.
const fn was_ended(outcome: TaskStatus) -> bool {
    matches!(outcome, TaskStatus::Cancelled | TaskStatus::TimedOut | TaskStatus::MaxIterationsReached)
}

/// A stored end of a turn.
pub(super) struct StoredTurnEnd {
    pub(super) no: u64,
    pub(super) status: TurnStatus,
    /// Data of the ending event.
    data: TurnEndData,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TurnEndData {
    error: Lenient<Error>,
    reason: Lenient<String>,
}

/// Ends the task of a worker if the worker's state says so. Call this after each change that
/// may end the task. A result schema, or a merge of files, delays the completion.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn settle(
    tx: &mut Tx<'_>,
    id: RowId,
    worker: &Worker,
    now: Timestamp,
    added: &mut Vec<(EventType, i64)>,
) -> Result<()> {
    settle_with(tx, id, worker, None, now, added)
}

/// The same of one whose result was looked at and whose files were merged: it fits its schema, or does not for this
/// reason.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn settle_judged(
    tx: &mut Tx<'_>,
    id: RowId,
    worker: &Worker,
    refused: Option<Error>,
    now: Timestamp,
    added: &mut Vec<(EventType, i64)>,
) -> Result<()> {
    settle_with(tx, id, worker, Some(refused), now, added)
}

fn settle_with(
    tx: &mut Tx<'_>,
    id: RowId,
    worker: &Worker,
    judged: Option<Option<Error>>,
    now: Timestamp,
    added: &mut Vec<(EventType, i64)>,
) -> Result<()> {
    let Some(open) = tasks::open(tx.connection, id)? else {
        return fail_completed(tx, id, now, added);
    };
    let last = last_turn(tx.connection, id, open.first_turn)?;
    let lost = |ended: &StoredTurnEnd| {
        ended.data.error.0.as_ref().is_some_and(|error| error.code == Code::RuntimeLost)
    };
    let known = last.as_ref().map(|ended| LastTurn { status: ended.status, lost: lost(ended) });
    let Some(outcome) = task::outcome(worker, open.ending, known) else { return Ok(()) };
    let canceled = last.as_ref().and_then(|ended| ended.data.reason.0.clone());
    let reason = canceled.clone().or_else(|| open.why.clone());
    let (outcome, cause) = task::explained(outcome, open.cause.clone(), reason.clone());
    let (outcome, refused) = match (outcome, judged) {
        (TaskStatus::Completed, None) if open.completes_later => return Ok(()),
        (TaskStatus::Completed, Some(Some(refused))) => (TaskStatus::Failed, Some(refused)),
        (outcome, _) => (outcome, cause),
    };
    subagent_failpoint::hit("task_end.before_commit");
    let result = match &last {
        Some(ended) => last_message(tx.connection, id, ended.no)?,
        None => String::new(),
    };
    let error = match outcome {
        _ if refused.is_some() => refused,
        TaskStatus::Failed | TaskStatus::Lost => {
            match last.as_ref().and_then(|ended| ended.data.error.0.clone()) {
                Some(error) => Some(error),
                None => last_error(tx.connection, id)?,
            }
        }
        _ => None,
    };
    let text = error.as_ref().map(serde_json::to_string).transpose();
    let text = text.map_err(|error| StoreError::BadRow(error.to_string()))?;
    tx.execute(
        "UPDATE tasks SET outcome = ?2, error = ?3, result = ?4, completed_at = ?5, cause = NULL WHERE worker = ?1",
        params![id.0, outcome.as_str(), text, result, now.0],
    )?;
    if open.why.is_some() || was_ended(outcome) {
        // A result of its own tasks must not wake it: that would begin a new run with fresh
        // limits.
        discard_due_results(tx, id)?;
    }
    let (id_of_task, name, parent_turn_id) =
        (open.task_id.clone(), open.name.clone(), open.parent_turn.clone());
    let data = match outcome {
        TaskStatus::Completed => EventData::SubagentCompleted(SubagentCompleted {
            id: id_of_task,
            name,
            summary: beginning(&result, SUMMARY_CHARS).to_owned(),
            parent_turn_id,
        }),
        TaskStatus::Cancelled => EventData::SubagentCancelled(SubagentCancelled {
            id: id_of_task,
            name,
            reason,
            error: error.clone(),
            parent_turn_id,
        }),
        status => EventData::SubagentFailed(SubagentFailed {
            id: id_of_task,
            name,
            status,
            error: error.clone(),
            parent_turn_id,
        }),
    };
    let event = Fact::Event { data, turn: None };
    added.extend(facts::store(tx, id, &[event], None, now)?);
    make_due(tx, id, &open, outcome, &result, error.as_ref())
}

/// Fails a completed task with a late violation. A parent that already received the result gets
/// no second message, but its stream has the event.
fn fail_completed(
    tx: &mut Tx<'_>,
    id: RowId,
    now: Timestamp,
    added: &mut Vec<(EventType, i64)>,
) -> Result<()> {
    let Some(late) = causes::completed_with_cause(tx.connection, id)? else { return Ok(()) };
    let text = serde_json::to_string(&late.error).map_err(|error| StoreError::BadRow(error.to_string()))?;
    let failed = TaskStatus::Failed;
    tx.execute(
        "UPDATE tasks SET outcome = ?2, error = ?3, cause = NULL WHERE worker = ?1",
        params![id.0, failed.as_str(), text],
    )?;
    let end_message = task::end_message(&late.name, &late.task_id, failed, "", Some(&late.error));
    tx.execute(
        "UPDATE task_deliveries SET status = ?2, text = ?3 WHERE task = ?1 AND run = ?4 AND turn_id IS NULL",
        params![id.0, failed.as_str(), end_message, signed(late.run)],
    )?;
    let data = SubagentFailed {
        id: late.task_id,
        name: late.name,
        status: failed,
        error: Some(late.error),
        parent_turn_id: late.parent_turn,
    };
    let event = Fact::Event { data: EventData::SubagentFailed(data), turn: None };
    added.extend(facts::store(tx, id, &[event], None, now)?);
    Ok(())
}

/// Discards the undelivered results of a worker's tasks, which would wake it again.
pub(super) fn discard_due_results(tx: &Tx<'_>, parent: RowId) -> Result<()> {
    tx.execute("DELETE FROM task_deliveries WHERE parent = ?1 AND turn_id IS NULL", [parent.0])?;
    Ok(())
}

/// Queues a background task's result for its parent, unless the parent is gone or was ended
/// itself.
fn make_due(
    tx: &Tx<'_>,
    id: RowId,
    open: &OpenTask,
    outcome: TaskStatus,
    result: &str,
    error: Option<&Error>,
) -> Result<()> {
    let (TaskMode::Background, Some(parent)) = (open.mode, open.parent) else { return Ok(()) };
    // The parent side requested this end, so it is not woken by it.
    if open.why.is_some() {
        return Ok(());
    }
    let mut text = task::end_message(&open.name, &open.task_id, outcome, result, error);
    if let Some(line) = open.merge.as_ref().and_then(task_result::merge_line) {
        // In a line of its own: the result is its agent's text.
        text.push_str(&format!("\n[Files of '{}': {line}]", open.name));
    }
    let insert = format!(
        "INSERT INTO task_deliveries (task, run, parent, task_id, name, status, text)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 FROM workers w
          WHERE w.id = ?3 AND w.desired = 'run' AND w.removed_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM tasks s WHERE s.worker = ?1 AND s.terms ->> '$.endsSilently')
            AND NOT EXISTS (SELECT 1 FROM tasks p WHERE p.worker = ?3 AND {WAS_ENDED})"
    );
    tx.execute(
        &insert,
        params![id.0, signed(open.run), parent.0, open.task_id.as_str(), open.name, outcome.as_str(), text,],
    )?;
    Ok(())
}

/// Stores the turn that delivers a result. A second delivery is refused.
///
/// # Errors
/// `TURN_NOT_QUEUED` if it was already delivered, `STORAGE_ERROR`.
pub(crate) fn deliver(tx: &Tx<'_>, due: &UndeliveredResult, turn_id: &TurnId) -> Result<()> {
    subagent_failpoint::hit("task_delivery.before_commit");
    let noted = tx.execute(
        "UPDATE task_deliveries SET turn_id = ?3 WHERE task = ?1 AND run = ?2 AND turn_id IS NULL",
        params![due.task.0, signed(due.run), turn_id.as_str()],
    )?;
    if noted != 1 {
        return Err(Error::new(Code::TurnNotQueued, "the end of the task was reported before"));
    }
    Ok(())
}

/// A result not yet delivered to the parent.
#[derive(Debug, Clone)]
pub(crate) struct UndeliveredResult {
    pub(crate) task: RowId,
    pub(crate) run: u64,
    pub(crate) task_id: WorkerId,
    pub(crate) name: String,
    pub(crate) status: TaskStatus,
    pub(crate) text: String,
}

/// Returns the undelivered results for a parent, in order of its tasks.
pub(crate) fn due(connection: &Connection, parent: RowId) -> Result<Vec<UndeliveredResult>> {
    let sql = "SELECT task, run, task_id, name, status, text FROM task_deliveries
               WHERE parent = ?1 AND turn_id IS NULL ORDER BY task, run";
    rows::all(connection, sql, [parent.0], |row| {
        Ok(UndeliveredResult {
            task: RowId(row.get(0)?),
            run: rows::unsigned(row, 1)?,
            task_id: rows::parsed(row, 2)?,
            name: row.get(3)?,
            status: rows::word(row, 4, TaskStatus::parse)?,
            text: row.get(5)?,
        })
    })
}

/// Whether a result of this task is still to be delivered.
pub(super) fn is_due(connection: &Connection, task: RowId) -> Result<bool> {
    let sql = "SELECT count(*) FROM task_deliveries WHERE task = ?1 AND turn_id IS NULL";
    Ok(count(connection, sql, [task.0])? > 0)
}

/// Returns the last turn of the current run, if it has ended.
pub(super) fn last_turn(connection: &Connection, id: RowId, first: u64) -> Result<Option<StoredTurnEnd>> {
    let sql = "SELECT t.no, t.status, e.payload FROM turns t LEFT JOIN events e ON e.seq = t.end_seq
               WHERE t.worker = ?1 AND t.no >= ?2 AND t.status <> 'accepted' ORDER BY t.no DESC LIMIT 1";
    rows::optional(connection, sql, params![id.0, signed(first)], |row| {
        let data: Option<String> = row.get(2)?;
        Ok(StoredTurnEnd {
            no: rows::unsigned(row, 0)?,
            status: rows::word(row, 1, TurnStatus::parse)?,
            data: data
                .and_then(|text| serde_json::from_str(&text).ok())
                .map(lenient::take)
                .unwrap_or_default(),
        })
    })
}

fn last_error(connection: &Connection, id: RowId) -> Result<Option<Error>> {
    let sql = "SELECT last_error FROM workers WHERE id = ?1";
    let text: Option<String> = rows::one(connection, sql, [id.0], |row| row.get(0))?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Returns the final message of a turn, with a mark where it is cut.
pub(super) fn last_message(connection: &Connection, id: RowId, no: u64) -> Result<String> {
    let mut message = final_message(connection, id, no, MAX_RESULT)?;
    if message.truncated {
        message.text.push_str(CUT);
    }
    Ok(message.text)
}

#[cfg(test)]
mod tests;
