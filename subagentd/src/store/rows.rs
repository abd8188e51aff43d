//! Queries and statements, and value types for database rows.

use rusqlite::{Connection, OptionalExtension as _, Params, Row};
use subagent_core::model::LifecycleState;
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::Placement;
use subagent_protocol::record::RecordType;
use subagent_protocol::time::Timestamp;

use super::error::StoreError;
use super::workers::names::NewName;

/// Integer primary key of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RowId(pub i64);

/// Runs a query for one row. Like the functions below, it keeps the compiled statement: to compile
/// it each time would take longer than most queries.
///
/// # Errors
/// `STORAGE_ERROR`, also if there is no row.
pub(super) fn one<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<T> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    Ok(statement.query_row(params, read).map_err(StoreError::from)?)
}

/// Runs a query for the first row, if there is one.
pub(super) fn optional<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    Ok(statement.query_row(params, read).optional().map_err(StoreError::from)?)
}

/// Runs a query and collects all its rows.
pub(super) fn all<T, C: FromIterator<T>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<C> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let rows = statement.query_map(params, read).and_then(Iterator::collect);
    Ok(rows.map_err(StoreError::from)?)
}

/// Runs a query and passes its rows to `see`.
pub(super) fn each(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut see: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> Result<()> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let mut rows = statement.query(params).map_err(StoreError::from)?;
    while let Some(row) = rows.next().map_err(StoreError::from)? {
        see(row).map_err(StoreError::from)?;
    }
    Ok(())
}

/// Executes a statement and returns the number of changed rows.
pub(super) fn execute(connection: &Connection, sql: &str, params: impl Params) -> Result<usize> {
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    Ok(statement.execute(params).map_err(StoreError::from)?)
}

/// Position in a worker's journal up to which records are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    /// Segment number; 0 before the first segment.
    pub segment: u64,
    /// Byte offset of the next record in the segment.
    pub offset: u64,
    /// Number of the last stored record.
    pub number: u64,
}

/// An event to store.
#[derive(Debug)]
pub(crate) struct NewEvent<'a> {
    /// Number of its journal record; `None` for the daemon's own events.
    pub number: Option<u64>,
    /// Number of the turn within its worker.
    pub turn: Option<u64>,
    /// Time at which it was written.
    pub at: Timestamp,
    /// Type of the event.
    pub event_type: EventType,
    /// Kind of a progress update.
    pub kind: Option<&'a str>,
    /// Type of its journal record; `None` for the daemon's own events.
    pub record: Option<RecordType>,
    /// Body of the record, or data of the daemon's own event, as JSON.
    pub payload: &'a str,
}

/// A worker to store.
#[derive(Debug)]
pub(crate) struct NewWorker {
    /// Public id of the worker.
    pub worker_id: WorkerId,
    /// Key of its controller.
    pub controller: RowId,
    /// Name by which users address it.
    pub name: NewName,
    /// Label shown to users.
    pub label: String,
    /// Name of the launcher that starts its agent.
    pub launcher: String,
    /// Role given at the start.
    pub role: String,
    /// Absolute working directory of the agent.
    pub cwd: String,
    /// Start specification as JSON.
    pub spec: String,
    /// Session id shown until the agent has reported one.
    pub placeholder: String,
    /// Initial state of the rules.
    pub state: LifecycleState,
    /// Where its runtimes are started.
    pub placement: Option<Placement>,
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
