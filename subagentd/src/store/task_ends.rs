//! The end of a task, in the transaction of what it follows from, and what is due to its parent because of it.
//!
//! What a task has come to is the rules' to say (`core::task`).

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};
use subagent_protocol::api::{TaskMode, TaskStatus};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::state::TurnStatus;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::error::StoreError;
use super::message_text::final_message;
use super::rows::{self, RowId};
use super::task_causes;
use super::tasks::{self, OpenTask, count};
use super::tx::{Tx, signed};
use crate::core::task::{self, LastTurn, beginning, event_of};
use crate::core::{Fact, Worker};

/// No more of a result is kept, in bytes.
const MOST_RESULT: usize = 1024 * 1024;
/// What stands at the end of one that was longer.
const CUT: &str = "\n[cut here: the rest is in the events of the task]";
/// Of a result so much is told in an event, in characters.
const SUMMARY_CHARS: usize = 1_000;

/// A task that somebody has ended, or is ending: who asked for that, a limit, or what is above it.
const WAS_ENDED: &str = "(p.ending IS NOT NULL OR (p.outcome IS NULL AND p.why IS NOT NULL)
     OR p.outcome IN ('cancelled', 'timed_out', 'max_iterations_reached'))";

/// The same of a task that has ended.
const fn was_ended(outcome: TaskStatus) -> bool {
    matches!(outcome, TaskStatus::Cancelled | TaskStatus::TimedOut | TaskStatus::MaxIterationsReached)
}

/// The end of a turn as it is stored.
pub(super) struct Ended {
    pub(super) no: u64,
    pub(super) status: TurnStatus,
    /// Data of the event that ended it.
    data: Value,
}

impl Ended {
    fn error(&self) -> Option<Error> {
        serde_json::from_value(self.data["error"].clone()).ok()
    }
}

impl Tx<'_> {
    /// Ends the task of a worker, if this is what the worker has come to. To be called after whatever may have done it. One
    /// whose result has to meet a schema is not completed before that was looked at.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn settle_task(
        &mut self,
        id: RowId,
        worker: &Worker,
        now: Timestamp,
        added: &mut Vec<(EventType, i64)>,
    ) -> Result<()> {
        self.settle(id, worker, None, now, added)
    }

    /// The same of one whose result was looked at: it fits its schema, or does not for this reason.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) fn settle_judged(
        &mut self,
        id: RowId,
        worker: &Worker,
        refused: Option<Error>,
        now: Timestamp,
        added: &mut Vec<(EventType, i64)>,
    ) -> Result<()> {
        self.settle(id, worker, Some(refused), now, added)
    }

    fn settle(
        &mut self,
        id: RowId,
        worker: &Worker,
        judged: Option<Option<Error>>,
        now: Timestamp,
        added: &mut Vec<(EventType, i64)>,
    ) -> Result<()> {
        let Some(open) = tasks::open(self.connection, id)? else {
            return self.fail_completed(id, now, added);
        };
        let last = last_turn(self.connection, id, open.first_turn)?;
        let lost = |ended: &Ended| ended.error().is_some_and(|error| error.code == Code::RuntimeLost);
        let known = last.as_ref().map(|ended| LastTurn { status: ended.status, lost: lost(ended) });
        let Some(outcome) = task::outcome(worker, open.ending, known) else { return Ok(()) };
        let canceled = last.as_ref().and_then(|ended| ended.data["reason"].as_str()).map(str::to_owned);
        let reason = canceled.clone().or_else(|| open.why.clone());
        let (outcome, cause) = task::explained(outcome, open.cause.clone(), reason.clone());
        let (outcome, refused) = match (outcome, judged) {
            (TaskStatus::Completed, None) if open.has_schema => return Ok(()),
            (TaskStatus::Completed, Some(Some(refused))) => (TaskStatus::Failed, Some(refused)),
            (outcome, _) => (outcome, cause),
        };
        subagent_failpoint::hit("task_end.before_commit");
        let result = match &last {
            Some(ended) => last_message(self.connection, id, ended.no)?,
            None => String::new(),
        };
        let error = match outcome {
            _ if refused.is_some() => refused,
            TaskStatus::Failed | TaskStatus::Lost => match last.as_ref().and_then(Ended::error) {
                Some(error) => Some(error),
                None => last_error(self.connection, id)?,
            },
            _ => None,
        };
        let text = error.as_ref().map(serde_json::to_string).transpose();
        let text = text.map_err(|error| StoreError::BadRow(error.to_string()))?;
        self.execute(
            "UPDATE tasks SET outcome = ?2, error = ?3, result = ?4, completed_at = ?5, cause = NULL WHERE worker = ?1",
            params![id.0, outcome.as_str(), text, result, now.0],
        )?;
        if open.why.is_some() || was_ended(outcome) {
            // It is not woken by what it has left: that would begin another run, with its limits anew.
            self.tell_no_ends(id)?;
        }
        let mut data = match outcome {
            TaskStatus::Completed => json!({"summary": beginning(&result, SUMMARY_CHARS)}),
            TaskStatus::Cancelled => json!({"reason": reason, "error": error}),
            _ => json!({"status": outcome, "error": error}),
        };
        (data["id"], data["name"]) = (json!(open.task_id), json!(open.name));
        data["parentTurnId"] = json!(open.parent_turn);
        let event = Fact::Event { event_type: event_of(outcome), data, turn: None };
        added.extend(self.store_facts(id, &[event], None, now)?);
        self.make_due(id, &open, outcome, &result, error.as_ref())
    }

    /// Fails a task that had completed when a violation of its last run was noticed. A parent that was told the end already is
    /// told nothing more; its stream has the event.
    fn fail_completed(&mut self, id: RowId, now: Timestamp, added: &mut Vec<(EventType, i64)>) -> Result<()> {
        let Some(late) = task_causes::completed_with_cause(self.connection, id)? else { return Ok(()) };
        let text =
            serde_json::to_string(&late.error).map_err(|error| StoreError::BadRow(error.to_string()))?;
        let failed = TaskStatus::Failed;
        self.execute(
            "UPDATE tasks SET outcome = ?2, error = ?3, cause = NULL WHERE worker = ?1",
            params![id.0, failed.as_str(), text],
        )?;
        let told = task::told(&late.name, &late.task_id, failed, "", Some(&late.error));
        self.execute(
            "UPDATE task_deliveries SET status = ?2, text = ?3 WHERE task = ?1 AND run = ?4 AND turn_id IS NULL",
            params![id.0, failed.as_str(), told, signed(late.run)],
        )?;
        let data = json!({"id": late.task_id, "name": late.name, "status": failed, "error": late.error, "parentTurnId": late.parent_turn});
        let event = Fact::Event { event_type: event_of(failed), data, turn: None };
        added.extend(self.store_facts(id, &[event], None, now)?);
        Ok(())
    }

    /// A worker is not told any more what has come of its tasks: it would go on because of that.
    pub(super) fn tell_no_ends(&self, parent: RowId) -> Result<()> {
        self.execute("DELETE FROM task_deliveries WHERE parent = ?1 AND turn_id IS NULL", [parent.0])?;
        Ok(())
    }

    /// The end of a background task is told to its parent, as long as there is one that can hear it and was not ended itself.
    fn make_due(
        &self,
        id: RowId,
        open: &OpenTask,
        outcome: TaskStatus,
        result: &str,
        error: Option<&Error>,
    ) -> Result<()> {
        let (TaskMode::Background, Some(parent)) = (open.mode, open.parent) else { return Ok(()) };
        // Who is above it had it ended, and is not woken by that.
        if open.why.is_some() {
            return Ok(());
        }
        let text = task::told(&open.name, &open.task_id, outcome, result, error);
        let insert = format!(
            "INSERT INTO task_deliveries (task, run, parent, task_id, name, status, text)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 FROM workers w
              WHERE w.id = ?3 AND w.desired = 'run' AND w.removed_at IS NULL
                AND NOT EXISTS (SELECT 1 FROM tasks s WHERE s.worker = ?1 AND s.terms ->> '$.endsSilently')
                AND NOT EXISTS (SELECT 1 FROM tasks p WHERE p.worker = ?3 AND {WAS_ENDED})"
        );
        self.execute(
            &insert,
            params![
                id.0,
                signed(open.run),
                parent.0,
                open.task_id.as_str(),
                open.name,
                outcome.as_str(),
                text,
            ],
        )?;
        Ok(())
    }

    /// Notes the turn that tells an end. Whoever comes second tells nothing.
    ///
    /// # Errors
    /// `TURN_NOT_QUEUED` if it was told, `STORAGE_ERROR`.
    pub(crate) fn deliver(&self, due: &Due, turn_id: &TurnId) -> Result<()> {
        subagent_failpoint::hit("task_delivery.before_commit");
        let noted = self.execute(
            "UPDATE task_deliveries SET turn_id = ?3 WHERE task = ?1 AND run = ?2 AND turn_id IS NULL",
            params![due.task.0, signed(due.run), turn_id.as_str()],
        )?;
        if noted != 1 {
            return Err(Error::new(Code::TurnNotQueued, "the end of the task was told before"));
        }
        Ok(())
    }
}

/// An end that a parent has not been told.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) task: RowId,
    pub(crate) run: u64,
    pub(crate) task_id: WorkerId,
    pub(crate) name: String,
    pub(crate) status: TaskStatus,
    pub(crate) text: String,
}

/// What a parent has not been told, in the order of its tasks.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn due(connection: &Connection, parent: RowId) -> Result<Vec<Due>> {
    let sql = "SELECT task, run, task_id, name, status, text FROM task_deliveries
               WHERE parent = ?1 AND turn_id IS NULL ORDER BY task, run";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let found = statement.query_map([parent.0], |row| {
        Ok(Due {
            task: RowId(row.get(0)?),
            run: rows::unsigned(row, 1)?,
            task_id: rows::parsed(row, 2)?,
            name: row.get(3)?,
            status: rows::word(row, 4, TaskStatus::parse)?,
            text: row.get(5)?,
        })
    });
    Ok(found.and_then(Iterator::collect).map_err(StoreError::from)?)
}

/// Whether the end of a task is due to somebody.
pub(super) fn is_due(connection: &Connection, task: RowId) -> Result<bool> {
    let sql = "SELECT count(*) FROM task_deliveries WHERE task = ?1 AND turn_id IS NULL";
    Ok(count(connection, sql, [task.0])? > 0)
}

/// The last turn of the present run, if it has ended.
pub(super) fn last_turn(connection: &Connection, id: RowId, first: u64) -> Result<Option<Ended>> {
    let sql = "SELECT t.no, t.status, e.payload FROM turns t LEFT JOIN events e ON e.seq = t.end_seq
               WHERE t.worker = ?1 AND t.no >= ?2 AND t.status <> 'accepted' ORDER BY t.no DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let found = statement.query_row(params![id.0, signed(first)], |row| {
        let data: Option<String> = row.get(2)?;
        Ok(Ended {
            no: rows::unsigned(row, 0)?,
            status: rows::word(row, 1, TurnStatus::parse)?,
            data: data.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        })
    });
    Ok(found.optional().map_err(StoreError::from)?)
}

fn last_error(connection: &Connection, id: RowId) -> Result<Option<Error>> {
    let sql = "SELECT last_error FROM workers WHERE id = ?1";
    let text: Option<String> =
        rows::one(connection, sql, [id.0], |row| row.get(0)).map_err(StoreError::from)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Returns the final message of a turn, with a mark where it is cut.
pub(super) fn last_message(connection: &Connection, id: RowId, no: u64) -> Result<String> {
    let mut message = final_message(connection, id, no, MOST_RESULT)?;
    if message.truncated {
        message.text.push_str(CUT);
    }
    Ok(message.text)
}

#[cfg(test)]
mod tests;
