//! Removes a worker: a mark hides it at once, then its rows go in pieces, children first. Pieces
//! that delete parents skip SQLite's foreign key check, which would scan all events. It must not
//! decide which workers may be removed.

use std::collections::HashSet;

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::placement::Placement;
use subagent_protocol::time::Timestamp;

use super::controllers::{self, ControllerRow, OwnerCheck};
use super::error::StoreError;
use super::retention::PIECE_ROWS;
use super::rows::{self, RowId};
use super::tasks;
use super::tx::Tx;

/// Approximate maximum size in bytes of the rows deleted in one transaction. One row may be larger.
const PIECE_BYTES: i64 = 1024 * 1024;

/// A removal whose rows are not all deleted.
#[derive(Debug, Clone)]
pub(crate) struct Removal {
    pub(crate) id: RowId,
    pub(crate) worker_id: WorkerId,
    /// Where its runtimes were started, if any was; `None` beside the daemon.
    pub(crate) placement: Option<Placement>,
}

/// Marks a stopped worker as removed. Returns false if it does not exist or is not stopped.
pub(crate) fn mark(tx: &Tx<'_>, id: RowId, now: Timestamp) -> Result<bool> {
    let marked = tx.execute(
        "UPDATE workers SET removed_at = ?2 WHERE id = ?1 AND state = 'stopped' AND removed_at IS NULL",
        params![id.0, now.0],
    )?;
    if marked == 1 {
        tx.execute(
            "INSERT INTO removed_workers (worker_id, stopped_at, removed_at)
             SELECT worker_id, coalesce(stopped_at, updated_at), ?2 FROM workers WHERE id = ?1",
            params![id.0, now.0],
        )?;
    }
    Ok(marked == 1)
}

/// Checks that the caller may remove data of these controllers, and data without a controller
/// (request keys, orphaned files). A handle is required if any controller requires one. A given
/// handle must be valid in any case.
///
/// # Errors
/// `INVALID_CONTROLLER_HANDLE`, `STORAGE_ERROR`.
pub(crate) fn check_owner_of_all(
    connection: &Connection,
    check: &OwnerCheck,
    concerned: &HashSet<ControllerId>,
) -> Result<()> {
    for controller in concerned {
        controllers::check_owner_of(connection, check, controller)?;
    }
    let all = controllers::list(connection, None)?;
    let mut requiring = Vec::new();
    for controller in &all {
        if controllers::requires_handle(connection, controller.id)? {
            requiring.push(controller);
        }
    }
    let named = |controller: &&ControllerRow| {
        check.0.as_ref().is_some_and(|handle| handle.controller_id == controller.controller_id.as_str())
    };
    let own = match requiring.as_slice() {
        [] => all.iter().find(named).or(all.first()),
        [first, ..] => requiring.iter().copied().find(named).or(Some(*first)),
    };
    own.map_or(Ok(()), |own| controllers::check_owner(connection, check, own))
}

/// Returns all unfinished removals, oldest first.
pub(crate) fn unfinished(connection: &Connection) -> Result<Vec<Removal>> {
    let sql = "SELECT id, worker_id, CASE WHEN incarnation > 0 THEN placement END FROM workers
               WHERE removed_at IS NOT NULL ORDER BY removed_at, id";
    let found = rows::all(connection, sql, [], |row| {
        let placement: Option<String> = row.get(2)?;
        Ok(Removal {
            id: RowId(row.get(0)?),
            worker_id: rows::parsed(row, 1)?,
            // An unreadable one must not keep the rest from being removed.
            placement: placement.and_then(|text| serde_json::from_str(&text).ok()),
        })
    })?;
    Ok(found)
}

/// Whether a worker has a row, including one that is being removed.
pub(crate) fn is_known(connection: &Connection, worker_id: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM workers WHERE worker_id = ?1)";
    rows::one(connection, sql, [worker_id], |row| row.get(0))
}

/// A deletion of a worker's events, with its progress.
#[derive(Debug, Clone)]
pub(crate) struct EventDeletion {
    worker: RowId,
    up_to: i64,
    /// Whether events that are still needed stay.
    careful: bool,
    /// Progress: records up to `number` and events up to `seq` were examined.
    number: i64,
    seq: i64,
    records: bool,
}

impl EventDeletion {
    /// Deletes all events of a worker.
    pub(crate) const fn all(worker: RowId) -> Self {
        Self { worker, up_to: i64::MAX, careful: false, number: 0, seq: 0, records: true }
    }

    /// Deletes the events up to `up_to`, except the worker's start and the questions of open
    /// permission requests.
    pub(crate) const fn up_to(worker: RowId, up_to: i64) -> Self {
        Self { worker, up_to, careful: true, number: 0, seq: 0, records: true }
    }
}

/// Deletes one piece of the events. Returns whether there may be more.
pub(crate) fn delete_events(connection: &Connection, sweep: &mut EventDeletion) -> Result<bool> {
    let needed = if sweep.careful { asked(connection, sweep.worker)? } else { Vec::new() };
    Ok(delete_piece(connection, sweep, &needed).map_err(StoreError::from)?)
}

fn delete_piece(
    connection: &Connection,
    sweep: &mut EventDeletion,
    needed: &[i64],
) -> rusqlite::Result<bool> {
    // Each event is in one of two indexes: hidden events are records without a kind, and all others
    // are shown.
    let sql = if sweep.records {
        "SELECT seq, number, type, octet_length(payload) FROM events INDEXED BY record_once
         WHERE worker = ?1 AND number > ?2 AND kind IS NULL ORDER BY number LIMIT ?3"
    } else {
        "SELECT seq, seq, type, octet_length(payload) FROM events INDEXED BY events_of_worker
         WHERE worker = ?1 AND internal = 0 AND seq > ?2 ORDER BY seq LIMIT ?3"
    };
    let from = if sweep.records { sweep.number } else { sweep.seq };
    let limit = i64::try_from(PIECE_ROWS).unwrap_or(i64::MAX);
    let (mut doomed, mut bytes, mut looked_at, mut last, mut beyond) = (Vec::new(), 0, 0, from, false);
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query(params![sweep.worker.0, from, limit])?;
    while bytes < PIECE_BYTES
        && let Some(row) = found.next()?
    {
        let seq: i64 = row.get(0)?;
        if seq > sweep.up_to {
            beyond = true;
            break;
        }
        last = row.get(1)?;
        looked_at += 1;
        let is_start = row.get_ref(2)?.as_bytes().is_ok_and(|t| t == b"worker.started");
        if !(sweep.careful && is_start || needed.contains(&seq)) {
            bytes += row.get::<_, i64>(3)?;
            doomed.push(seq);
        }
    }
    drop(found);
    let mut delete = connection.prepare_cached("DELETE FROM events WHERE seq = ?1")?;
    for seq in doomed {
        delete.execute([seq])?;
    }
    let over = beyond || (looked_at < PIECE_ROWS && bytes < PIECE_BYTES);
    match (sweep.records, over) {
        (true, true) => sweep.records = false,
        (true, false) => sweep.number = last,
        (false, true) => return Ok(false),
        (false, false) => sweep.seq = last,
    }
    Ok(true)
}

/// Returns the events that asked the open permission requests.
fn asked(connection: &Connection, worker: RowId) -> Result<Vec<i64>> {
    let sql = "SELECT asked_seq FROM approvals WHERE worker = ?1 AND status IN ('pending', 'decided')";
    rows::all(connection, sql, [worker.0], |row| row.get(0))
}

/// Deletes one piece of all other references to a worker, except its turns. Returns whether there
/// may be more.
pub(crate) fn delete_references(connection: &Connection, worker: RowId) -> Result<bool> {
    let mut deleted = 0;
    for table in ["approvals", "handoffs", "queued_turns", "owner_rules", "deliveries"] {
        let sql = format!(
            "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE worker = ?1 LIMIT {PIECE_ROWS})"
        );
        deleted += rows::execute(connection, &sql, [worker.0])?;
    }
    Ok(deleted > 0)
}

/// Deletes one piece of a worker's turns, to which nothing else may refer. Returns whether there
/// may be more.
pub(crate) fn delete_turns(connection: &Connection, worker: RowId) -> Result<bool> {
    let sql = format!(
        "DELETE FROM turns WHERE id IN (SELECT id FROM turns WHERE worker = ?1 ORDER BY no LIMIT {PIECE_ROWS})"
    );
    let deleted = rows::execute(connection, &sql, [worker.0])?;
    Ok(deleted > 0)
}

/// Deletes the row of a removed worker if nothing refers to it. Returns whether it did.
pub(crate) fn delete_worker(connection: &Connection, worker: RowId) -> Result<bool> {
    let left = rows::one(
        connection,
        "SELECT EXISTS (SELECT 1 FROM turns WHERE worker = ?1)
                 OR EXISTS (SELECT 1 FROM approvals WHERE worker = ?1)
                 OR EXISTS (SELECT 1 FROM handoffs WHERE worker = ?1)
                 OR EXISTS (SELECT 1 FROM queued_turns WHERE worker = ?1)
                 OR EXISTS (SELECT 1 FROM owner_rules WHERE worker = ?1)
                 OR EXISTS (SELECT 1 FROM deliveries WHERE worker = ?1)
                 OR EXISTS (SELECT 1 FROM events WHERE worker = ?1 AND internal = 0)
                 OR EXISTS (SELECT 1 FROM events WHERE worker = ?1 AND number > 0 AND kind IS NULL)",
        [worker.0],
        |row| row.get::<_, bool>(0),
    )?;
    if !left {
        // The worker's spending stays included in the accounts above it.
        rows::execute(connection, "DELETE FROM accounts WHERE scope = 'worker' AND key = ?1", [worker.0])?;
        rows::execute(connection, "DELETE FROM hook_cursors WHERE worker = ?1", [worker.0])?;
        rows::execute(connection, "DELETE FROM journal_cursors WHERE worker = ?1", [worker.0])?;
        tasks::delete(connection, worker)?;
        let sql = "DELETE FROM workers WHERE id = ?1 AND removed_at IS NOT NULL";
        rows::execute(connection, sql, [worker.0])?;
    }
    Ok(!left)
}

/// Returns free pages to the file system. Returns whether there may be more.
pub(crate) fn give_back(connection: &Connection) -> Result<bool> {
    let free = || rows::one(connection, "PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
    let before = free()?;
    if before == 0 {
        return Ok(false);
    }
    // Each step moves one page.
    rows::each(connection, "PRAGMA incremental_vacuum(64)", [], |_| Ok(()))?;
    let after = free()?;
    // A database created without incremental vacuum never shrinks.
    Ok(after > 0 && after < before)
}

/// Number and bytes of a worker's shown events, as counted up to `seen`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// Sequence number up to which events were counted.
    pub(crate) seen: i64,
}

/// Counts the next part; `None` at the end.
pub(crate) fn measure(connection: &Connection, worker: RowId, so_far: Size) -> Result<Option<Size>> {
    let sql = "SELECT count(*), coalesce(sum(octet_length(payload)), 0), max(seq) FROM (SELECT seq, payload FROM
               events INDEXED BY events_of_worker WHERE worker = ?1 AND internal = 0 AND seq > ?2 ORDER BY seq LIMIT 10000)";
    let counted = rows::optional(connection, sql, params![worker.0, so_far.seen], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<i64>>(2)?))
    })?;
    Ok(match counted {
        Some((events, bytes, Some(seen))) => Some(Size {
            events: so_far.events + events.unsigned_abs(),
            bytes: so_far.bytes + bytes.unsigned_abs(),
            seen,
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
