//! Rows of handoff snapshots.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::ids::SnapshotId;
use subagent_protocol::time::Timestamp;

use super::rows::{self, RowId};
use super::tx::Tx;

/// A snapshot of a worker for its successor.
#[derive(Debug, Clone)]
pub(crate) struct HandoffRow {
    pub(crate) snapshot_id: SnapshotId,
    /// Sequence number of the newest event that it covers.
    pub(crate) up_to: i64,
    pub(crate) handoff_path: String,
    pub(crate) checkpoint_path: String,
    pub(crate) created_at: Timestamp,
}

/// Stores a snapshot whose files are in place.
pub(crate) fn insert(tx: &Tx<'_>, worker: RowId, row: &HandoffRow) -> Result<()> {
    tx.execute(
        "INSERT INTO handoffs (snapshot_id, worker, up_to, handoff_path, checkpoint_path, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            row.snapshot_id.as_str(),
            worker.0,
            row.up_to,
            row.handoff_path,
            row.checkpoint_path,
            row.created_at.0
        ],
    )?;
    Ok(())
}

/// Returns the snapshot ids of each worker. Workers without snapshots have an empty set.
pub(crate) fn by_worker(connection: &Connection) -> Result<HashMap<String, HashSet<String>>> {
    let sql = "SELECT w.worker_id, h.snapshot_id FROM workers w LEFT JOIN handoffs h ON h.worker = w.id
               WHERE w.removed_at IS NULL";
    let mut all: HashMap<String, HashSet<String>> = HashMap::new();
    rows::each(connection, sql, [], |row| {
        all.entry(row.get(0)?).or_default().extend(row.get::<_, Option<String>>(1)?);
        Ok(())
    })?;
    Ok(all)
}

/// Returns the snapshot that covers the newest events; among equals the newest.
pub(crate) fn latest(connection: &Connection, worker: RowId) -> Result<Option<HandoffRow>> {
    rows::optional(
        connection,
        "SELECT snapshot_id, up_to, handoff_path, checkpoint_path, created_at FROM handoffs
             WHERE worker = ?1 ORDER BY up_to DESC, id DESC LIMIT 1",
        [worker.0],
        |row| {
            Ok(HandoffRow {
                snapshot_id: rows::parsed(row, 0)?,
                up_to: row.get(1)?,
                handoff_path: row.get(2)?,
                checkpoint_path: row.get(3)?,
                created_at: Timestamp(row.get(4)?),
            })
        },
    )
}
