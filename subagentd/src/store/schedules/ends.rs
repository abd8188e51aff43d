//! Ends of firings, and the pauses of schedules that follow.

use rusqlite::{Connection, Row, params};
use subagent_core::model::Fact;
use subagent_protocol::api::{SchedulePaused, TaskStatus, TriggerPaused};
use subagent_protocol::data::EventData;
use subagent_protocol::schedule::{FiringStatus, SchedulePause};
use subagent_protocol::state::TurnStatus;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::text;
use crate::schedule::{failures_in_a_row, pauses};
use crate::store::rows::{self, RowId};
use crate::store::tx::Tx;
use crate::store::{facts, tasks, workers};

/// The end of a firing.
#[derive(Debug, Clone)]
pub(crate) struct FiringEnd {
    pub(crate) firing: RowId,
    /// Whether the firing had started its task or turn.
    pub(crate) started: bool,
    pub(crate) status: FiringStatus,
    pub(crate) error: Option<Error>,
    /// Reason to pause the schedule, apart from the number of failures.
    pub(crate) pause: Option<SchedulePause>,
}

/// Returns ends that are not yet stored: of firings whose task or turn has ended.
pub(crate) fn ended(connection: &Connection) -> Result<Vec<FiringEnd>> {
    // A removed worker has neither task nor turn; a dropped message has no row.
    let sql = "SELECT f.id, CASE WHEN f.turn_id IS NOT NULL THEN coalesce(u.status, 'canceled')
                                 WHEN k.worker IS NULL THEN 'canceled' ELSE k.outcome END,
                      CASE WHEN f.turn_id IS NOT NULL THEN e.payload -> '$.error' ELSE k.error END
               FROM firings f
               LEFT JOIN workers w ON w.worker_id = f.worker_id
               LEFT JOIN tasks k ON k.worker = w.id
               LEFT JOIN turns u ON u.turn_id = f.turn_id
               LEFT JOIN events e ON e.seq = u.end_seq
               WHERE f.status = 'running'
                 AND NOT EXISTS (SELECT 1 FROM queued_turns q WHERE q.turn_id = f.turn_id)";
    let read = |row: &Row<'_>| {
        let word: Option<String> = row.get(1)?;
        let error = tasks::error(row, 2)?;
        Ok(word.and_then(|word| end(RowId(row.get(0).ok()?), &word, error)))
    };
    let found: Vec<_> = rows::all(connection, sql, [], read)?;
    Ok(found.into_iter().flatten().collect())
}

/// The end of a firing whose task or turn has this status; `error` is that of the task or turn.
fn end(firing: RowId, word: &str, error: Option<Error>) -> Option<FiringEnd> {
    let status = match (TurnStatus::parse(word), TaskStatus::parse(word)) {
        (Some(TurnStatus::Accepted), _) => return None,
        (Some(TurnStatus::Completed), _) | (_, Some(TaskStatus::Completed)) => FiringStatus::Completed,
        (Some(TurnStatus::Canceled), _) | (_, Some(TaskStatus::Cancelled)) => FiringStatus::Canceled,
        _ => FiringStatus::Failed,
    };
    let generic = || {
        let code = match TaskStatus::parse(word) {
            Some(TaskStatus::TimedOut) => Code::TimedOut,
            Some(TaskStatus::MaxIterationsReached) => Code::MaxIterationsReached,
            Some(TaskStatus::Lost) => Code::RuntimeLost,
            _ => Code::BackendRuntimeError,
        };
        Error::new(code, format!("what it started has ended as {word}"))
    };
    let error = (status == FiringStatus::Failed).then(|| error.unwrap_or_else(generic));
    Some(FiringEnd { firing, started: true, status, error, pause: None })
}

/// Stores the end of a firing, and pauses its schedule if required. Returns the pause event
/// with its worker.
pub(crate) fn end_firing(tx: &mut Tx<'_>, end: &FiringEnd, now: Timestamp) -> Result<Option<(RowId, i64)>> {
    let before = if end.started { FiringStatus::Running } else { FiringStatus::Waiting };
    let error = end.error.as_ref().map(text).transpose()?;
    let ended = tx.execute(
        "UPDATE firings SET status = ?2, error = ?3, ended_at = ?4, payload = NULL
         WHERE id = ?1 AND status = ?5",
        params![end.firing.0, end.status.as_str(), error, now.0, before.as_str()],
    )?;
    if ended != 1 {
        return Ok(None);
    }
    let sql = "SELECT s.id, s.times ->> '$.maxFailures' FROM firings f
               JOIN schedules s ON s.id = f.schedule WHERE f.id = ?1";
    let read = |row: &Row<'_>| Ok((RowId(row.get(0)?), row.get(1)?));
    let (schedule, limit) = rows::one(tx.connection, sql, [end.firing.0], read)?;
    let too_many = pauses(end.status, count_failures(tx, schedule)?, limit);
    match end.pause.or(too_many.then_some(SchedulePause::Failures)) {
        Some(reason) => pause(tx, schedule, reason, end.error.as_ref(), now),
        None => Ok(None),
    }
}

/// Counts the failures in a row anew: by the order of the firings, not by that of their ends.
pub(super) fn count_failures(tx: &Tx<'_>, schedule: RowId) -> Result<u32> {
    let sql = "SELECT f.status FROM schedules s JOIN firings f ON f.schedule = s.id
               WHERE s.id = ?1 AND f.status IN ('completed', 'failed') AND f.id > s.failures_after
                 AND (f.id > s.runs_after OR f.error ->> '$.code' IS NOT ?2)
               ORDER BY f.id DESC";
    let read = |row: &Row<'_>| rows::word(row, 0, FiringStatus::parse);
    let ends: Vec<FiringStatus> =
        rows::all(tx.connection, sql, params![schedule.0, Code::CommandFailed.as_str()], read)?;
    let failures = failures_in_a_row(ends);
    tx.execute("UPDATE schedules SET failures = ?2 WHERE id = ?1", params![schedule.0, failures])?;
    Ok(failures)
}

/// Pauses a schedule and skips its waiting firings. Returns the pause event with the worker of
/// the newest firing.
pub(crate) fn pause(
    tx: &mut Tx<'_>,
    id: RowId,
    reason: SchedulePause,
    error: Option<&Error>,
    now: Timestamp,
) -> Result<Option<(RowId, i64)>> {
    let paused = tx.execute(
        "UPDATE schedules SET paused = ?2, error = ?3 WHERE id = ?1 AND paused IS NULL",
        params![id.0, reason.as_str(), error.map(text).transpose()?],
    )?;
    if paused != 1 {
        return Ok(None);
    }
    let why = Error::new(Code::QueuePaused, "it was paused before this firing could start");
    tx.execute(
        "UPDATE firings SET status = 'skipped', error = ?2, ended_at = ?3, payload = NULL
         WHERE schedule = ?1 AND status = 'waiting' AND manual = 0",
        params![id.0, text(&why)?, now.0],
    )?;
    let sql = "SELECT s.name, (SELECT f.worker_id FROM firings f WHERE f.schedule = s.id AND f.worker_id IS NOT NULL
                               ORDER BY f.at DESC LIMIT 1), s.times ->> '$.source' IS NOT NULL FROM schedules s WHERE s.id = ?1";
    let Some((name, Some(worker), is_trigger)) = rows::optional(tx.connection, sql, [id.0], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?, row.get(2)?))
    })?
    else {
        return Ok(None);
    };
    let Some(worker) = workers::get(tx.connection, &worker)? else { return Ok(None) };
    let error = error.cloned();
    let data = match is_trigger {
        true => EventData::TriggerPaused(TriggerPaused { trigger: name, reason, error }),
        false => EventData::SchedulePaused(SchedulePaused { schedule: name, reason, error }),
    };
    let fact = Fact::Event { data, turn: None };
    let added = facts::store(tx, worker.id, &[fact], None, now)?;
    Ok(added.last().map(|(_, seq)| (worker.id, *seq)))
}

#[cfg(test)]
mod tests;
