//! Rows of git worktrees.
//! It must not run git, or decide the fate of a worktree when its worker ends.

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use subagent_protocol::api::{PlacedWorktreeView, WorktreeState, WorktreeView};
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::state::Desired;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Setup, Worktree};
use subagent_protocol::{Code, Error, Result};

use super::controllers::{self, OwnerCheck};
use super::rows::{self, RowId};
use super::tx::Tx;
use super::{removal, workers};

/// A worktree as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorktreeRow {
    pub(crate) id: RowId,
    pub(crate) worker_id: WorkerId,
    pub(crate) controller_id: ControllerId,
    pub(crate) state: WorktreeState,
    pub(crate) worktree: Worktree,
    pub(crate) setup: Setup,
    pub(crate) created_at: Timestamp,
    /// Start of a landing whose end is not stored.
    pub(crate) landing_at: Option<Timestamp>,
}

const COLUMNS: &str = "id, worker_id, controller_id, state, worktree, setup, created_at, landing_at";

impl WorktreeRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let word: String = row.get(3)?;
        let state = WorktreeState::parse(&word).ok_or_else(|| bad(3, format!("unknown state: {word}")))?;
        Ok(Self {
            id: RowId(row.get(0)?),
            worker_id: rows::parsed(row, 1)?,
            controller_id: rows::parsed(row, 2)?,
            state,
            worktree: json(row, 4)?,
            setup: json(row, 5)?,
            created_at: Timestamp(row.get(6)?),
            landing_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        })
    }

    /// The worktree as shown to users, without its contents.
    pub(crate) fn view(self) -> WorktreeView {
        let Self { worker_id, state, worktree, created_at, .. } = self;
        let Worktree {
            name,
            repository,
            main,
            path,
            branch,
            base,
            source_branch,
            with_changes,
            copied,
            identity_missing,
            sandbox,
            placed,
        } = worktree;
        let placed =
            placed.map(|placed| PlacedWorktreeView { placement: placed.placement.name, path: placed.path });
        WorktreeView {
            name,
            state,
            path,
            branch,
            base,
            source_branch,
            with_changes,
            main,
            repository,
            copied,
            identity_missing,
            worker_id,
            created_at,
            sandbox,
            placed,
            contents: None,
        }
    }
}

fn bad(column: usize, problem: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, problem.into())
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| bad(column, error.to_string()))
}

fn text(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| {
        Error::new(Code::InvalidArgument, format!("a worktree's path cannot be stored: {error}"))
    })
}

/// Stores the worktree of a new worker.
///
/// # Errors
/// `INVALID_ARGUMENT` for a path that is not UTF-8, `STORAGE_ERROR`.
pub(crate) fn insert(
    tx: &Tx<'_>,
    (worker_id, controller_id): (&WorkerId, &ControllerId),
    worktree: &Worktree,
    setup: &Setup,
    now: Timestamp,
) -> Result<()> {
    tx.execute(
        "INSERT INTO worktrees (name, worker_id, controller_id, state, worktree, setup, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
        params![
            worktree.name,
            worker_id.as_str(),
            controller_id.as_str(),
            WorktreeState::Creating.as_str(),
            text(worktree)?,
            text(setup)?,
            now.0,
        ],
    )?;
    Ok(())
}

/// Stores the state of a worktree.
pub(crate) fn update(tx: &Tx<'_>, row: &WorktreeRow, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE worktrees SET state = ?2, worktree = ?3, updated_at = ?4, landing_at = ?5 WHERE id = ?1",
        params![row.id.0, row.state.as_str(), text(&row.worktree)?, now.0, row.landing_at.map(|at| at.0)],
    )?;
    Ok(())
}

/// Assigns a worktree to another worker, which continues in it.
pub(crate) fn move_to(tx: &Tx<'_>, id: RowId, worker_id: &WorkerId, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE worktrees SET worker_id = ?2, state = ?3, updated_at = ?4 WHERE id = ?1",
        params![id.0, worker_id.as_str(), WorktreeState::Ready.as_str(), now.0],
    )?;
    Ok(())
}

/// Deletes the row of a removed worktree. Returns whether it existed.
pub(crate) fn delete(tx: &Tx<'_>, id: RowId) -> Result<bool> {
    Ok(tx.execute("DELETE FROM worktrees WHERE id = ?1", [id.0])? > 0)
}

/// Returns the names of all worktrees.
pub(crate) fn names(connection: &Connection) -> Result<HashSet<String>> {
    rows::all(connection, "SELECT name FROM worktrees", [], |row| row.get(0))
}

/// Returns all worktrees, newest first.
pub(crate) fn list(connection: &Connection) -> Result<Vec<WorktreeRow>> {
    let sql = format!("SELECT {COLUMNS} FROM worktrees ORDER BY id DESC");
    rows::all(connection, &sql, [], WorktreeRow::read)
}

/// Returns the worktree of a worker.
pub(crate) fn of_worker(connection: &Connection, worker_id: &str) -> Result<Option<WorktreeRow>> {
    one(connection, "worker_id", worker_id)
}

/// Returns the worktree with this name.
pub(crate) fn by_name(connection: &Connection, name: &str) -> Result<Option<WorktreeRow>> {
    one(connection, "name", name)
}

/// Returns worktrees with an unfinished landing.
pub(crate) fn landing(connection: &Connection) -> Result<Vec<WorktreeRow>> {
    let mut rows = list(connection)?;
    rows.retain(|row| row.state == WorktreeState::Landing);
    Ok(rows)
}

fn one(connection: &Connection, column: &str, value: &str) -> Result<Option<WorktreeRow>> {
    let sql = format!("SELECT {COLUMNS} FROM worktrees WHERE {column} = ?1");
    rows::optional(connection, &sql, [value], WorktreeRow::read)
}

/// Checks that the caller may change this worktree.
pub(crate) fn check_owner(connection: &Connection, owner: &OwnerCheck, row: &WorktreeRow) -> Result<()> {
    if workers::get(connection, row.worker_id.as_str())?.is_some() {
        return controllers::check_owner_of(connection, owner, &row.controller_id);
    }
    removal::check_owner_of_all(connection, owner, &[row.controller_id.clone()].into())
}

/// Returns the state of a worktree after a landing that left it in place: `ready` while its worker
/// runs, else `kept`.
pub(crate) fn after_landing(connection: &Connection, row: &WorktreeRow) -> Result<WorktreeState> {
    let worker = workers::get(connection, row.worker_id.as_str())?;
    // A worker that is stopping does not update it after the landing.
    let is_live =
        worker.is_some_and(|worker| worker.state != "stopped" && worker.rules.desired == Desired::Run);
    Ok(if is_live { WorktreeState::Ready } else { WorktreeState::Kept })
}
