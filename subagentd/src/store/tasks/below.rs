//! Effects of a turn's end or a stop on the tasks below the worker (M9).
//! It only stores that their end is wanted; each task's own worker carries it out.

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::state::TurnStatus;

use crate::store::rows::{self, RowId};
use crate::store::tx::{Tx, signed};

/// Selects the tasks of a worker that are not wanted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskSelection {
    /// Foreground tasks of its turn.
    Foreground,
    /// All tasks below it.
    All,
}

impl TaskSelection {
    /// Returns the selection after a turn with this end.
    pub(super) const fn after(status: TurnStatus) -> Self {
        match status {
            TurnStatus::Canceled => Self::All,
            TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Accepted => Self::Foreground,
        }
    }

    const fn why(self) -> &'static str {
        match self {
            Self::Foreground => "the turn that waited for it has ended",
            Self::All => "the turn or the worker above it was canceled",
        }
    }
}

/// Stores that the selected tasks of a worker, whose `turn` has ended, and all tasks below them
/// should end. This includes tasks below an ended or removed one.
pub(super) fn end(tx: &Tx<'_>, parent: RowId, which: TaskSelection, turn: Option<u64>) -> Result<()> {
    tx.execute(
        "WITH RECURSIVE below (worker) AS (
           SELECT worker FROM tasks WHERE parent = ?1 AND (?2 OR (mode = 'foreground' AND outcome IS NULL AND parent_turn = ?4))
           UNION SELECT t.worker FROM workers r CROSS JOIN tasks t ON t.controller = r.controller AND t.root = r.id
                  WHERE r.id = ?1 AND ?2
           UNION SELECT t.worker FROM tasks t JOIN below b ON t.parent = b.worker)
         UPDATE tasks SET why = ?3
         WHERE worker IN (SELECT worker FROM below) AND outcome IS NULL AND why IS NULL",
        params![parent.0, which == TaskSelection::All, which.why(), turn.map(signed)],
    )?;
    Ok(())
}

/// Returns the tasks below a worker that should end.
pub(crate) fn wanted_below(connection: &Connection, parent: RowId) -> Result<Vec<RowId>> {
    let sql = "WITH RECURSIVE below (worker) AS (
                 SELECT worker FROM tasks WHERE parent = ?1
                 UNION SELECT t.worker FROM workers r CROSS JOIN tasks t ON t.controller = r.controller AND t.root = r.id
                        WHERE r.id = ?1
                 UNION SELECT t.worker FROM tasks t JOIN below b ON t.parent = b.worker)
               SELECT worker FROM tasks WHERE worker IN (SELECT worker FROM below)
                 AND outcome IS NULL AND why IS NOT NULL";
    ids(connection, sql, [parent.0])
}

fn ids(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<Vec<RowId>> {
    rows::all(connection, sql, params, |row| Ok(RowId(row.get(0)?)))
}

#[cfg(test)]
pub(in crate::store) mod tests;
