//! Names of workers, and resolution of addresses to workers.
//! It must not check permissions.

use std::collections::HashSet;

use rusqlite::{Connection, params};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Code, Error, Result, worker_name};

use subagent_protocol::api::{UNLABELED, UNLABELED_RUN};

use crate::store::rows::{self, RowId};
use crate::store::tx::Tx;

/// Maximum number of candidates in the error for an ambiguous address.
const MAX_CANDIDATES: usize = 10;

/// How a new worker is named.
#[derive(Debug, Clone)]
pub(crate) enum NewName {
    /// A name that a person chose.
    Chosen(String),
    /// The launcher's name with the smallest free number.
    OfLauncher,
    /// The name of its task, which is assigned later.
    OfTask,
}

/// A worker that matches an ambiguous address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressMatch {
    pub(crate) worker_id: WorkerId,
    pub(crate) name: String,
}

/// Returns the name of a new worker; `None` if its task provides it later.
///
/// # Errors
/// `NAME_TAKEN{name,workerId}`, `STORAGE_ERROR`.
pub(super) fn new_name(tx: &Tx<'_>, name: &NewName, launcher: &str) -> Result<Option<String>> {
    match name {
        NewName::Chosen(name) => {
            check_free(tx, name, None)?;
            Ok(Some(name.clone()))
        }
        NewName::OfLauncher => numbered_name(tx, &worker_name::of_text(launcher, "worker"), 1).map(Some),
        NewName::OfTask => Ok(None),
    }
}

/// Names a task's worker after the task, with a number if the name is taken.
pub(in crate::store) fn name_after_task(tx: &Tx<'_>, id: RowId, task: &str) -> Result<()> {
    let name = worker_name::of_text(task, "task");
    let name = match holder(tx.connection, &name)? {
        None => name,
        Some(_) => numbered_name(tx, &name, 2)?,
    };
    set(tx, id, &name)
}

/// Renames a worker.
///
/// # Errors
/// `NAME_TAKEN{name,workerId}`, `STORAGE_ERROR`.
pub(crate) fn rename(tx: &Tx<'_>, id: RowId, name: &str) -> Result<()> {
    check_free(tx, name, Some(id))?;
    set(tx, id, name)
}

/// Sets the label of a worker that was started without one.
pub(crate) fn label_unlabeled(tx: &Tx<'_>, id: RowId, label: &str) -> Result<()> {
    tx.execute(
        "UPDATE workers SET label = ?2 WHERE id = ?1 AND label IN (?3, ?4)",
        params![id.0, label, UNLABELED, UNLABELED_RUN],
    )?;
    Ok(())
}

fn set(tx: &Tx<'_>, id: RowId, name: &str) -> Result<()> {
    tx.execute(
        "UPDATE workers SET name = ?2, name_key = ?3 WHERE id = ?1",
        params![id.0, name, worker_name::key(name)],
    )?;
    Ok(())
}

fn check_free(tx: &Tx<'_>, name: &str, except: Option<RowId>) -> Result<()> {
    match holder(tx.connection, name)? {
        Some((id, worker_id)) if except != Some(id) => {
            Err(Error::new(Code::NameTaken, format!("worker {worker_id} already has the name {name}"))
                .with("name", name)
                .with("workerId", worker_id)
                .recommend("choose another name, or remove that worker with `subagent worker rm`"))
        }
        _ => Ok(()),
    }
}

fn numbered_name(tx: &Tx<'_>, name: &str, first: u64) -> Result<String> {
    let base = worker_name::base(name);
    // Keys that begin with the base and a hyphen: the character after the hyphen is the dot.
    let sql = "SELECT name_key FROM workers
               WHERE name_key >= ?1 || '-' AND name_key < ?1 || '.' AND removed_at IS NULL";
    let taken: HashSet<String> = rows::all(tx.connection, sql, [worker_name::key(&base)], |row| row.get(0))?;
    let mut names = (first..).map(|number| format!("{base}-{number}"));
    let free = names.find(|name| !taken.contains(&worker_name::key(name)));
    free.ok_or_else(|| Error::new(Code::Internal, "all numbers are taken"))
}

/// Returns the worker with this name.
fn holder(connection: &Connection, name: &str) -> Result<Option<(RowId, String)>> {
    let sql = "SELECT id, worker_id FROM workers WHERE name_key = ?1 AND removed_at IS NULL";
    rows::optional(connection, sql, [worker_name::key(name)], |row| Ok((RowId(row.get(0)?), row.get(1)?)))
}

/// Returns the id of the worker with this name.
pub(crate) fn by_name(connection: &Connection, name: &str) -> Result<Option<String>> {
    Ok(holder(connection, name)?.map(|(_, worker_id)| worker_id))
}

/// Returns the id of the worker with this name, else the text itself: it is an id.
pub(crate) fn id_of(connection: &Connection, address: &str) -> Result<String> {
    Ok(by_name(connection, address)?.unwrap_or_else(|| address.to_owned()))
}

/// Returns up to [`MAX_CANDIDATES`] existing workers whose ids begin with `prefix`, newest first.
pub(crate) fn by_id_prefix(connection: &Connection, prefix: &str) -> Result<Vec<AddressMatch>> {
    // All characters of an id sort before `g`.
    let sql = "SELECT worker_id, coalesce(name, worker_id) FROM workers
               WHERE worker_id >= ?1 AND worker_id < ?1 || 'g' AND removed_at IS NULL
               ORDER BY id DESC LIMIT ?2";
    let most = i64::try_from(MAX_CANDIDATES).unwrap_or(i64::MAX);
    rows::all(connection, sql, params![prefix, most], |row| {
        Ok(AddressMatch { worker_id: rows::parsed(row, 0)?, name: row.get(1)? })
    })
}

/// Returns the id of the worker that changed last, apart from workers of delegated tasks.
pub(crate) fn changed_last(connection: &Connection) -> Result<Option<String>> {
    let sql = "SELECT worker_id FROM workers WHERE removed_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.worker = workers.id AND t.parent IS NOT NULL)
               ORDER BY updated_at DESC, id DESC LIMIT 1";
    rows::optional(connection, sql, [], |row| row.get(0))
}

#[cfg(test)]
mod tests;
