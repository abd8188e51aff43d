//! Rows of firings: what a schedule or a trigger has started, or is to start.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row, params};
use subagent_core::model::Fact;
use subagent_protocol::api::{FiringView, ScheduleFired, TriggerFired};
use subagent_protocol::data::EventData;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::schedule::FiringStatus;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::{ScheduleRow, error, text};
use crate::schedule::DueTime;
use crate::store::facts;
use crate::store::rows::{self, RowId};
use crate::store::tx::Tx;

/// Number of firings that are kept per schedule.
const MAX_KEPT: i64 = 1000;

/// A firing that is not due at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct NewFiring {
    /// Whether a person asked for it.
    pub(crate) manual: bool,
    /// No other firing is for this occurrence.
    pub(crate) occurrence: Option<String>,
    pub(crate) payload: Option<String>,
}

/// A waiting or running firing.
#[derive(Debug, Clone)]
pub(crate) struct OpenFiring {
    pub(crate) id: RowId,
    pub(crate) schedule: RowId,
    pub(crate) status: FiringStatus,
    pub(crate) worker_id: Option<String>,
    pub(crate) turn_id: Option<String>,
}

/// The payload of a firing.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn payload(connection: &Connection, firing: RowId) -> Result<Option<String>> {
    let sql = "SELECT payload FROM firings WHERE id = ?1";
    Ok(rows::optional(connection, sql, [firing.0], |row| row.get(0))?.flatten())
}

/// Returns the scheduled times after `after` that have a firing in any status.
pub(crate) fn fired(connection: &Connection, id: RowId, after: Timestamp) -> Result<BTreeSet<Timestamp>> {
    let sql = "SELECT at FROM firings WHERE schedule = ?1 AND at > ?2 AND manual = 0";
    rows::all(connection, sql, params![id.0, after.0], |row| Ok(Timestamp(row.get(0)?)))
}

/// Returns the unfinished firings, oldest first.
pub(crate) fn open(connection: &Connection) -> Result<Vec<OpenFiring>> {
    let sql = "SELECT id, schedule, status, worker_id, turn_id FROM firings
               WHERE status IN ('waiting', 'running') ORDER BY at, id";
    let read = |row: &Row<'_>| {
        Ok(OpenFiring {
            id: RowId(row.get(0)?),
            schedule: RowId(row.get(1)?),
            status: rows::word(row, 2, FiringStatus::parse)?,
            worker_id: row.get(3)?,
            turn_id: row.get(4)?,
        })
    };
    rows::all(connection, sql, [], read)
}

/// Returns the newest firings of a schedule, newest first.
pub(crate) fn log(connection: &Connection, schedule: &ScheduleRow, limit: u32) -> Result<Vec<FiringView>> {
    read_all(
        connection,
        &schedule.name,
        "schedule = ?1 ORDER BY at DESC, id DESC LIMIT ?2",
        params![schedule.id.0, limit],
    )
}

/// Returns one firing by its key.
pub(crate) fn get(connection: &Connection, schedule: &str, id: RowId) -> Result<Option<FiringView>> {
    Ok(read_all(connection, schedule, "id = ?1", [id.0])?.pop())
}

fn read_all(
    connection: &Connection,
    schedule: &str,
    which: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<FiringView>> {
    let sql = format!(
        "SELECT at, manual, left_out, status, worker_id, turn_id, error, created_at, started_at, ended_at, occurrence
         FROM firings WHERE {which}"
    );
    let read = |row: &Row<'_>| {
        let worker: Option<String> = row.get(4)?;
        let turn: Option<String> = row.get(5)?;
        let time = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp));
        Ok(FiringView {
            schedule: schedule.to_owned(),
            at: Timestamp(row.get(0)?),
            occurrence: row.get(10)?,
            manual: row.get(1)?,
            left_out: rows::unsigned(row, 2)?,
            status: rows::word(row, 3, FiringStatus::parse)?,
            worker_id: worker.and_then(|id| id.parse::<WorkerId>().ok()),
            turn_id: turn.and_then(|id| id.parse::<TurnId>().ok()),
            error: error(row, 6)?,
            created_at: Timestamp(row.get(7)?),
            started_at: time(8)?,
            ended_at: time(9)?,
        })
    };
    rows::all(connection, &sql, params, read)
}

/// Deletes the oldest firings that are over.
pub(super) fn prune(tx: &Tx<'_>, id: RowId) -> Result<()> {
    tx.execute(
        "DELETE FROM firings WHERE schedule = ?1 AND status NOT IN ('waiting', 'running') AND id NOT IN
           (SELECT id FROM firings WHERE schedule = ?1 ORDER BY at DESC LIMIT ?2)",
        params![id.0, MAX_KEPT],
    )?;
    Ok(())
}

pub(super) fn insert_due(
    tx: &Tx<'_>,
    id: RowId,
    due: &DueTime,
    status: FiringStatus,
    why: Option<&Error>,
    now: Timestamp,
) -> Result<()> {
    tx.execute(
        "INSERT OR IGNORE INTO firings (schedule, at, manual, left_out, status, error, created_at, ended_at)
         VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7)",
        params![
            id.0,
            due.at.0,
            i64::try_from(due.left_out).unwrap_or(i64::MAX),
            status.as_str(),
            why.map(text).transpose()?,
            now.0,
            status.is_over().then_some(now.0)
        ],
    )?;
    Ok(())
}

/// Adds a firing that is not due at a time. It gets the first time from now on that no other
/// firing has. Gives the earlier one of an occurrence that has one.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn insert_now(tx: &Tx<'_>, id: RowId, firing: &NewFiring, now: Timestamp) -> Result<RowId> {
    if let Some(occurrence) = &firing.occurrence {
        let sql = "SELECT id FROM firings WHERE schedule = ?1 AND occurrence = ?2";
        let earlier = rows::optional(tx.connection, sql, params![id.0, occurrence], |row| row.get(0))?;
        if let Some(earlier) = earlier {
            return Ok(RowId(earlier));
        }
    }
    let mut at = now.0;
    let sql = "INSERT OR IGNORE INTO firings
                 (schedule, at, manual, left_out, status, created_at, occurrence, payload)
               VALUES (?1, ?2, ?4, 0, 'waiting', ?3, ?5, ?6)";
    let NewFiring { manual, occurrence, payload } = firing;
    while tx.execute(sql, params![id.0, at, now.0, manual, occurrence, payload])? == 0 {
        at += 1;
    }
    let added = RowId(tx.connection.last_insert_rowid());
    prune(tx, id)?;
    Ok(added)
}

/// Stores the task or turn of a firing, in the transaction that stores that task or turn.
///
/// # Errors
/// `INVALID_WORKER_STATE` if the firing is not waiting; `STORAGE_ERROR`.
pub(crate) fn start(
    tx: &mut Tx<'_>,
    firing: RowId,
    worker: (RowId, &WorkerId),
    turn_id: Option<&TurnId>,
    now: Timestamp,
) -> Result<()> {
    let started = tx.execute(
        "UPDATE firings SET status = 'running', worker_id = ?2, turn_id = ?3, started_at = ?4
         WHERE id = ?1 AND status = 'waiting'",
        params![firing.0, worker.1.as_str(), turn_id.map(TurnId::as_str), now.0],
    )?;
    if started != 1 {
        return Err(Error::new(Code::InvalidWorkerState, "the firing is no longer waiting"));
    }
    let sql = "SELECT s.name, f.at, f.left_out, f.occurrence, s.times ->> '$.source' IS NOT NULL
               FROM firings f JOIN schedules s ON s.id = f.schedule WHERE f.id = ?1";
    let data = rows::one(tx.connection, sql, [firing.0], |row| {
        let (name, at) = (row.get(0)?, Timestamp(row.get(1)?));
        if row.get(4)? {
            let fired = TriggerFired { trigger: name, at, occurrence: row.get(3)? };
            return Ok(EventData::TriggerFired(fired));
        }
        let fired = ScheduleFired { schedule: name, at, left_out: rows::unsigned(row, 2)? };
        Ok(EventData::ScheduleFired(fired))
    })?;
    let fact = Fact::Event { data, turn: None };
    facts::store(tx, worker.0, &[fact], None, now).map(drop)
}
