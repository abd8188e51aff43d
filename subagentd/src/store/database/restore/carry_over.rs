//! Values carried over from the replaced database, and the corrections that rows need after a
//! restore.

use rusqlite::{Connection, params};
use subagent_protocol::ids::InstanceId;
use subagent_protocol::time::Timestamp;

use crate::store::tx::signed;

/// Added to monotonic numbers when their last value cannot be read.
const JUMP: i64 = 1_000_000_000;

/// Only raises numbers and adds rows. A controller missing in the backup keeps its id and epochs,
/// unless its workspace belongs to another controller in the backup.
pub(super) const TAKE_OVER: &str = "
    UPDATE meta SET value = max(value, (SELECT o.value FROM old.meta o WHERE o.key = meta.key))
     WHERE key IN ('seq_reserved', 'generation', 'syncs', 'worker_key');
    UPDATE meta SET value = max(value, (SELECT coalesce(max(seq), 0) FROM old.events)) WHERE key = 'seq_reserved';
    INSERT OR IGNORE INTO controllers (controller_id, label, workspace_key, require_handle, created_at, updated_at)
      SELECT controller_id, label, workspace_key, require_handle, created_at, updated_at FROM old.controllers;
    UPDATE controllers SET require_handle = 1 WHERE controller_id IN
      (SELECT controller_id FROM old.controllers WHERE require_handle = 1);
    INSERT OR IGNORE INTO owners
        (controller, instance_id, epoch, token_hash, pid, start_time, boot_id, created_at, released_at)
      SELECT c.id, o.instance_id, o.epoch, o.token_hash, o.pid, o.start_time, o.boot_id, o.created_at,
             coalesce(o.released_at, o.created_at)
        FROM old.owners o JOIN old.controllers oc ON oc.id = o.controller
        JOIN main.controllers c ON c.controller_id = oc.controller_id;
    UPDATE workers SET last_turn = max(last_turn, coalesce(
      (SELECT o.last_turn FROM old.workers o WHERE o.worker_id = workers.worker_id), 0));
    INSERT OR IGNORE INTO handoffs (snapshot_id, worker, up_to, handoff_path, checkpoint_path, created_at)
      SELECT h.snapshot_id, w.id, h.up_to, h.handoff_path, h.checkpoint_path, h.created_at
        FROM old.handoffs h JOIN old.workers o ON o.id = h.worker JOIN main.workers w ON w.worker_id = o.worker_id;
    INSERT OR IGNORE INTO requests (key, fingerprint, response, created_at)
      SELECT key, fingerprint, response, created_at FROM old.requests;
    DELETE FROM queued_turns WHERE turn_id IN (SELECT turn_id FROM old.turns);
    INSERT OR IGNORE INTO removed_workers (worker_id, stopped_at, removed_at)
      SELECT worker_id, stopped_at, removed_at FROM old.removed_workers
       WHERE worker_id NOT IN (SELECT worker_id FROM main.workers);
";

pub(super) fn jump(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE meta SET value = max(value, (SELECT coalesce(max(seq), 0) FROM events)) + ?1
         WHERE key IN ('seq_reserved', 'generation', 'worker_key')",
        [JUMP],
    )?;
    connection.execute("UPDATE workers SET last_turn = last_turn + ?1 WHERE state <> 'stopped'", [JUMP])?;
    Ok(())
}

/// Inserts an ended ownership with an epoch above all earlier ones.
pub(super) fn jump_epoch(
    connection: &Connection,
    controller: i64,
    instance_id: &InstanceId,
    now: Timestamp,
) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO owners (controller, instance_id, epoch, token_hash, pid, start_time, boot_id, created_at, released_at)
         SELECT ?1, ?2, coalesce(max(epoch), 0) + ?3, x'', 0, 0, '', ?4, ?4 FROM owners WHERE controller = ?1",
        params![controller, instance_id.as_str(), JUMP, now.0],
    )?;
    Ok(())
}

/// Corrects rows whose state may have changed since the backup. Returns the number of ended
/// ownerships.
pub(super) fn settle(
    connection: &Connection,
    to_look_at: &[String],
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let released =
        connection.execute("UPDATE owners SET released_at = ?1 WHERE released_at IS NULL", [now.0])?;
    // The prompt may have been sent since the backup, so it must not be sent again.
    connection.execute(
        "UPDATE turns SET dispatched = 'maybe' WHERE status = 'accepted' AND dispatched = 'no' AND carrier = 'acp-stdio'",
        [],
    )?;
    // A queued message may have been sent too, so the queue pauses for a person to check it.
    connection.execute(
        "UPDATE workers SET queue_pause =
           CASE WHEN EXISTS (SELECT 1 FROM queued_turns q WHERE q.worker = workers.id) THEN 'restored' END",
        [],
    )?;
    // Pending notifications are older than the backup: delivered already, or no longer news.
    connection.execute(
        "UPDATE deliveries SET status = 'dropped', error = 'a backup was restored', changed_at = ?1
         WHERE status = 'pending'",
        [now.0],
    )?;
    // The backup does not know which times have fired since.
    connection.execute("UPDATE schedules SET paused = 'restored' WHERE paused IS NULL", [])?;
    connection.execute(
        "UPDATE firings SET status = 'skipped', ended_at = ?1, payload = NULL WHERE status = 'waiting'",
        [now.0],
    )?;
    connection.execute_batch(
        "UPDATE delivery_cursor SET seq = max(seq, (SELECT coalesce(max(seq), 0) FROM events));
         UPDATE hook_cursors SET seq = max(seq, (SELECT coalesce(max(seq), 0) FROM events));",
    )?;
    // The next daemon checks the locks and journals of these workers.
    connection.execute(
        "UPDATE workers SET may_live = 1 WHERE state <> 'stopped' AND id IN
           (SELECT worker FROM turns WHERE status = 'accepted' AND carrier = 'acp-stdio')",
        [],
    )?;
    for worker_id in to_look_at {
        connection.execute(
            "UPDATE workers SET may_live = 1 WHERE worker_id = ?1 AND state <> 'stopped'",
            [worker_id],
        )?;
        connection.execute(
            "UPDATE journal_cursors SET segment = max(segment, 1)
             WHERE worker = (SELECT id FROM workers WHERE worker_id = ?1 AND state <> 'stopped')",
            [worker_id],
        )?;
    }
    connection.execute(
        "INSERT OR REPLACE INTO meta (key, value) VALUES ('restored_at', ?1)",
        [signed(now.0.unsigned_abs())],
    )?;
    Ok(released)
}

pub(super) fn ids(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<i64>> {
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}
