//! Rows of schedules and triggers. `firings` has what became of their times and occurrences, `ends`
//! how firings end. It must not decide what is due or what starts: `schedule` does.

pub(crate) mod ends;
pub(crate) mod firings;
pub(crate) mod moves;
pub(crate) mod trigger_ends;
pub(crate) mod trigger_sources;

use std::path::PathBuf;

use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use subagent_protocol::api::ScheduledWork;
use subagent_protocol::ids::ControllerId;
use subagent_protocol::schedule::{FiringStatus, Missed, Overlap, SchedulePause, When};
use subagent_protocol::time::Timestamp;
use subagent_protocol::trigger::TriggerSource;
use subagent_protocol::{Code, Error, Result};

use super::events;
use super::rows::{self, RowId};
use super::tx::Tx;
use crate::schedule::{DueTime, DueTimes};
use firings::NewFiring;

/// What has rows here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ScheduleKind {
    Schedule,
    Trigger,
}

impl ScheduleKind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Trigger => "trigger",
        }
    }

    /// The error for a name that none of this kind has.
    pub(crate) fn not_found(self, name: &str) -> Error {
        let code = match self {
            Self::Schedule => Code::ScheduleNotFound,
            Self::Trigger => Code::TriggerNotFound,
        };
        let word = self.word();
        Error::new(code, format!("there is no {word} {name:?}"))
            .with(word, name)
            .recommend(format!("`subagent {word} list` shows all"))
    }
}

/// What fires it, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum FiringSource {
    Times { when: When, timezone: String, missed: Missed },
    Trigger { source: TriggerSource },
}

impl FiringSource {
    pub(crate) const fn kind(&self) -> ScheduleKind {
        match self {
            Self::Times { .. } => ScheduleKind::Schedule,
            Self::Trigger { .. } => ScheduleKind::Trigger,
        }
    }
}

/// When a schedule fires, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredTimes {
    #[serde(flatten)]
    pub(crate) starter: FiringSource,
    pub(crate) overlap: Overlap,
    pub(crate) max_failures: u32,
    /// The entry of a config file; `None` if a command added it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) declared: Option<Declaration>,
}

/// An entry of a config file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Declaration {
    pub(crate) file: PathBuf,
    /// SHA-256 of the entry as it was stored.
    pub(crate) sha256: String,
    /// Whether the entry has no time zone: the stored one is the system's of that time.
    #[serde(default)]
    pub(crate) zone_of_system: bool,
}

/// A schedule or a trigger.
#[derive(Debug, Clone)]
pub(crate) struct ScheduleRow {
    pub(crate) id: RowId,
    pub(crate) name: String,
    pub(crate) controller_id: ControllerId,
    pub(crate) times: StoredTimes,
    pub(crate) work: ScheduledWork,
    pub(crate) anchor: Timestamp,
    pub(crate) cursor: Timestamp,
    pub(crate) failures: u32,
    pub(crate) paused: Option<SchedulePause>,
    pub(crate) error: Option<Error>,
    pub(crate) created_at: Timestamp,
}

const COLUMNS: &str =
    "id, name, controller_id, times, work, anchor, cursor, failures, paused, error, created_at";

pub(super) fn bad(column: usize, problem: impl std::fmt::Display) -> rusqlite::Error {
    let problem = problem.to_string().into();
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, problem)
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(&row.get::<_, String>(column)?).map_err(|error| bad(column, error))
}

fn error(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Error>> {
    match row.get::<_, Option<String>>(column)? {
        Some(text) => serde_json::from_str(&text).map(Some).map_err(|error| bad(column, error)),
        None => Ok(None),
    }
}

/// The error for the name of another schedule or trigger.
pub(crate) fn name_taken(name: &str) -> Error {
    let message = format!("a schedule or trigger named {name} already exists");
    Error::new(Code::NameTaken, message).with("name", name).recommend(
        "choose another name, or remove that one with `subagent schedule rm` or `subagent trigger rm`",
    )
}

fn read(row: &Row<'_>) -> rusqlite::Result<ScheduleRow> {
    let paused: Option<String> = row.get(8)?;
    Ok(ScheduleRow {
        id: RowId(row.get(0)?),
        name: row.get(1)?,
        controller_id: rows::parsed(row, 2)?,
        times: json(row, 3)?,
        work: json(row, 4)?,
        anchor: Timestamp(row.get(5)?),
        cursor: Timestamp(row.get(6)?),
        failures: row.get(7)?,
        paused: paused
            .map(|word| {
                SchedulePause::parse(&word).ok_or_else(|| bad(8, format!("unknown pause reason: {word}")))
            })
            .transpose()?,
        error: error(row, 9)?,
        created_at: Timestamp(row.get(10)?),
    })
}

/// Serializes a value to the JSON text of a column.
pub(super) fn text(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(Code::InvalidArgument, format!("a schedule cannot be stored: {error}")))
}

/// Returns all schedules, ordered by name.
pub(crate) fn all(connection: &Connection) -> Result<Vec<ScheduleRow>> {
    let sql = format!("SELECT {COLUMNS} FROM schedules ORDER BY name");
    rows::all(connection, &sql, [], read)
}

/// The one of this kind with this name.
///
/// # Errors
/// `SCHEDULE_NOT_FOUND{schedule}`, `TRIGGER_NOT_FOUND{trigger}`, `STORAGE_ERROR`.
pub(crate) fn named(connection: &Connection, kind: ScheduleKind, name: &str) -> Result<ScheduleRow> {
    let sql = format!("SELECT {COLUMNS} FROM schedules WHERE name = ?1");
    let found = rows::optional(connection, &sql, [name], read)?;
    found.filter(|row| row.times.starter.kind() == kind).ok_or_else(|| kind.not_found(name))
}

/// Adds a schedule or a trigger.
///
/// # Errors
/// `NAME_TAKEN{name}`, those of [`trigger_sources::task_of_source`], `STORAGE_ERROR`.
pub(crate) fn insert(
    tx: &Tx<'_>,
    name: &str,
    controller: &ControllerId,
    times: &StoredTimes,
    work: &ScheduledWork,
    now: Timestamp,
) -> Result<()> {
    check_source(tx, &times.starter)?;
    let cursor = first_cursor(tx, &times.starter, now)?;
    let inserted = tx.execute(
        "INSERT OR IGNORE INTO schedules (name, controller_id, times, work, anchor, cursor, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5)",
        params![name, controller.as_str(), text(times)?, text(work)?, now.0, cursor],
    )?;
    if inserted == 0 {
        return Err(name_taken(name));
    }
    Ok(())
}

/// Stores a new version of what a config file declares. Its log and its pause stay. If what
/// fires it has changed, only times and occurrences from now on count. Returns whether it has.
///
/// # Errors
/// Those of [`trigger_sources::task_of_source`], `STORAGE_ERROR`.
pub(crate) fn redeclare(
    tx: &Tx<'_>,
    row: &ScheduleRow,
    controller: &ControllerId,
    times: &StoredTimes,
    work: &ScheduledWork,
    now: Timestamp,
) -> Result<bool> {
    tx.execute(
        "UPDATE schedules SET controller_id = ?2, times = ?3, work = ?4 WHERE id = ?1",
        params![row.id.0, controller.as_str(), text(times)?, text(work)?],
    )?;
    if text(&row.times.starter)? == text(&times.starter)? {
        return Ok(false);
    }
    check_source(tx, &times.starter)?;
    let cursor = next_cursor(tx, row, &times.starter, now)?;
    tx.execute(
        "UPDATE schedules SET anchor = ?2, cursor = ?3, observed = NULL WHERE id = ?1",
        params![row.id.0, now.0, cursor],
    )?;
    Ok(true)
}

/// Stores that a time does not fire, because it had passed when its schedule was declared.
///
/// # Errors
/// `SCHEDULE_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) fn leave_out_passed(tx: &Tx<'_>, name: &str, at: Timestamp, now: Timestamp) -> Result<()> {
    let row = named(tx.connection, ScheduleKind::Schedule, name)?;
    let why = Error::new(Code::TimedOut, "this time had passed when the daemon read it: it does not fire");
    firings::insert_due(tx, row.id, &DueTime { at, left_out: 0 }, FiringStatus::Skipped, Some(&why), now)
}

/// Checked in the transaction, since an end before the cursor is never looked at.
fn check_source(tx: &Tx<'_>, starter: &FiringSource) -> Result<()> {
    match starter {
        FiringSource::Trigger { source: TriggerSource::After { worker, .. } } => {
            trigger_sources::task_of_source(tx.connection, worker).map(drop)
        }
        _ => Ok(()),
    }
}

/// Where one begins that fires from now on.
fn first_cursor(tx: &Tx<'_>, starter: &FiringSource, now: Timestamp) -> Result<i64> {
    match starter {
        FiringSource::Times { .. } => Ok(now.0),
        // It has not run yet.
        FiringSource::Trigger { source: TriggerSource::Command { .. } } => Ok(0),
        FiringSource::Trigger { .. } => events::all::last_seq(tx.connection),
    }
}

/// Where one begins again, fired by this from now on.
fn next_cursor(tx: &Tx<'_>, row: &ScheduleRow, starter: &FiringSource, now: Timestamp) -> Result<i64> {
    match starter {
        // A run that began before has another cursor.
        FiringSource::Trigger { source: TriggerSource::Command { .. } } => Ok(row.cursor.0.min(0) - 1),
        _ => first_cursor(tx, starter, now),
    }
}

/// Removes a schedule and what is kept of its firings. What they have started goes on.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn delete(tx: &Tx<'_>, id: RowId) -> Result<()> {
    tx.execute("DELETE FROM firings WHERE schedule = ?1", [id.0])?;
    tx.execute("DELETE FROM schedules WHERE id = ?1", [id.0])?;
    Ok(())
}

/// Lets a schedule fire again, from now on.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn resume(tx: &Tx<'_>, row: &ScheduleRow, now: Timestamp) -> Result<()> {
    let cursor = next_cursor(tx, row, &row.times.starter, now)?;
    tx.execute(
        "UPDATE schedules SET paused = NULL, error = NULL, failures = 0, cursor = ?2, observed = NULL,
            failures_after = coalesce((SELECT max(id) FROM firings WHERE schedule = ?1), 0)
         WHERE id = ?1 AND paused IS NOT NULL",
        params![row.id.0, cursor],
    )?;
    Ok(())
}

/// Stores the result of a clock check. Due firings wait until they are started.
pub(crate) fn store_look(tx: &Tx<'_>, id: RowId, look: &DueTimes, now: Timestamp) -> Result<()> {
    for due in &look.fire {
        firings::insert_due(tx, id, due, FiringStatus::Waiting, None, now)?;
    }
    if let Some(due) = &look.skip {
        let why = Error::new(Code::TimedOut, "no daemon was there at this time (missed: skip)");
        firings::insert_due(tx, id, due, FiringStatus::Skipped, Some(&why), now)?;
    }
    tx.execute("UPDATE schedules SET cursor = ?2 WHERE id = ?1", params![id.0, look.cursor.0])?;
    firings::prune(tx, id)
}

/// Stores the firings for ends of a worker, and that all events up to `seen` were looked at.
/// Stores nothing if the trigger was paused or removed since the events were read.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn store_ends(
    tx: &Tx<'_>,
    id: RowId,
    ends: &[NewFiring],
    seen: i64,
    now: Timestamp,
) -> Result<()> {
    let sql = "UPDATE schedules SET cursor = ?2 WHERE id = ?1 AND paused IS NULL";
    if tx.execute(sql, params![id.0, seen])? == 0 {
        return Ok(());
    }
    for end in ends {
        firings::insert_now(tx, id, end, now)?;
    }
    Ok(())
}
