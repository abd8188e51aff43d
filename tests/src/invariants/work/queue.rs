//! A queued message is nowhere else, and no message waits that could start.

use rusqlite::{Connection, OptionalExtension as _};

use crate::invariants::evidence::Evidence;
use crate::invariants::remains;
use crate::invariants::rows::none_of;

pub(in crate::invariants) fn check(
    evidence: &Evidence,
    database: &Connection,
) -> rusqlite::Result<Vec<String>> {
    let knows = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('queued_turns'))";
    if !database.query_row(knows, [], |row| row.get(0))? {
        // This version's daemon has not opened it yet.
        return Ok(Vec::new());
    }
    let mut violations = none_of(
        database,
        "a message waits that was begun",
        "SELECT q.turn_id, t.status FROM queued_turns q JOIN turns t ON t.turn_id = q.turn_id",
    )?;
    violations.extend(none_of(
        database,
        "messages wait for a worker that could begin them, or that is over",
        "SELECT w.worker_id, w.state, count(*) FROM queued_turns q JOIN workers w ON w.id = q.worker
         WHERE w.state IN ('stopping', 'stopped') OR (w.state IN ('idle', 'error') AND w.queue_pause IS NULL
           -- A task may wait for its place.
           AND w.id NOT IN (SELECT worker FROM tasks))
         GROUP BY w.id",
    )?);
    violations.extend(none_of(
        database,
        "a queue is paused in which nothing waits",
        "SELECT worker_id, queue_pause FROM workers
         WHERE queue_pause IS NOT NULL AND id NOT IN (SELECT worker FROM queued_turns)",
    )?);
    let mut places = database.prepare(
        "SELECT EXISTS (SELECT 1 FROM queued_turns WHERE turn_id = ?1) + EXISTS (SELECT 1 FROM turns WHERE turn_id = ?1)
              + EXISTS (SELECT 1 FROM events WHERE type = 'turn.dropped' AND json_extract(payload, '$.turnId') = ?1)",
    )?;
    let mut worker = database.prepare("SELECT 1 FROM workers WHERE worker_id = ?1 AND removed_at IS NULL")?;
    for (turn, of) in &evidence.acknowledged.queued {
        let places: i64 = places.query_row([turn], |row| row.get(0))?;
        let there = worker.query_row([of], |row| row.get::<_, i64>(0)).optional()?.is_some();
        let whole = there && remains::of(database, of)? == remains::Kept::Above(0);
        if whole && places != 1 && !is_restored(database)? {
            violations.push(format!("{turn} of {of} was accepted as waiting, and is in {places} places"));
        }
    }
    Ok(violations)
}

fn is_restored(database: &Connection) -> rusqlite::Result<bool> {
    database.query_row("SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'restored_at')", [], |row| row.get(0))
}
