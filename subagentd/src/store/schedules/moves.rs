//! What is kept of a declared schedule or trigger that moves to the database of another workspace.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use subagent_protocol::api::FiringView;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::schedule::SchedulePause;
use subagent_protocol::time::Timestamp;
use subagent_protocol::trigger::TriggerSource;
use subagent_protocol::{Code, Error, Result};

use super::{FiringSource, ScheduleKind, ScheduleRow, ends, firings, text};
use crate::store::rows::RowId;
use crate::store::schedules;
use crate::store::tx::Tx;

/// Firings that move along.
const MAX_FIRINGS: u32 = 1000;

/// A pause and a log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MovedSchedule {
    pub(crate) kind: ScheduleKind,
    pub(crate) paused: Option<SchedulePause>,
    pub(crate) error: Option<Error>,
    /// The firings that are over.
    pub(crate) firings: Vec<FiringView>,
}

/// Reads what moves along.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn of_row(connection: &Connection, row: &ScheduleRow) -> Result<MovedSchedule> {
    let mut firings = firings::log(connection, row, MAX_FIRINGS)?;
    firings.retain(|firing| firing.status.is_over());
    if let FiringSource::Trigger { source: TriggerSource::After { .. } } = row.times.starter {
        // An event of the other database may have the same id.
        firings.iter_mut().for_each(|firing| firing.occurrence = None);
    }
    let (kind, paused, error) = (row.times.starter.kind(), row.paused, row.error.clone());
    Ok(MovedSchedule { kind, paused, error, firings })
}

/// Adds what has moved here to the declared row with this name. Its failures count no more.
/// Returns whether there is such a row, and the pause event with its worker.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn adopt(
    tx: &mut Tx<'_>,
    name: &str,
    moved: &MovedSchedule,
    now: Timestamp,
) -> Result<(bool, Option<(RowId, i64)>)> {
    let row = match schedules::named(tx.connection, moved.kind, name) {
        Ok(row) if row.times.declared.is_some() => row,
        Err(error) if !matches!(error.code, Code::ScheduleNotFound | Code::TriggerNotFound) => {
            return Err(error);
        }
        _ => return Ok((false, None)),
    };
    for firing in &moved.firings {
        // One that is there already was adopted before.
        tx.execute(
            "INSERT OR IGNORE INTO firings (schedule, at, manual, left_out, status, worker_id, turn_id,
               error, created_at, started_at, ended_at, occurrence)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                row.id.0,
                firing.at.0,
                firing.manual,
                i64::try_from(firing.left_out).unwrap_or(i64::MAX),
                firing.status.as_str(),
                firing.worker_id.as_ref().map(WorkerId::as_str),
                firing.turn_id.as_ref().map(TurnId::as_str),
                firing.error.as_ref().map(text).transpose()?,
                firing.created_at.0,
                firing.started_at.map(|at| at.0),
                firing.ended_at.map(|at| at.0),
                firing.occurrence,
            ],
        )?;
    }
    tx.execute(
        "UPDATE schedules SET failures = 0,
            failures_after = coalesce((SELECT max(id) FROM firings WHERE schedule = ?1), 0)
         WHERE id = ?1",
        [row.id.0],
    )?;
    firings::prune(tx, row.id)?;
    let paused = match moved.paused {
        Some(reason) => ends::pause(tx, row.id, reason, moved.error.as_ref(), now)?,
        None => None,
    };
    Ok((true, paused))
}
