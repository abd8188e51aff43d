//! Only data that may be deleted is gone: workers that a command removed or that were stopped long
//! ago, and events below a worker's mark. The mark never passes events that are still needed.

use rusqlite::{Connection, params};
use subagent_protocol::event::EventType;

use super::evidence::Evidence;
use super::remains::{Kept, of};
use super::rows::{none_of, rows};

/// Minimum time since the stop of a worker that no command removed, in milliseconds.
const SHORTEST_RETENTION: i64 = 24 * 3600 * 1000;

pub(super) fn check(evidence: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let known = &evidence.acknowledged;
    let mut violations = none_of(
        database,
        "a worker is marked as removed and not remembered as such, or not stopped, or the other way round",
        "SELECT w.worker_id, w.state, w.removed_at, r.removed_at AS remembered FROM main.workers w
         LEFT JOIN removed_workers r USING (worker_id)
         WHERE w.removed_at IS NOT r.removed_at OR (w.removed_at IS NOT NULL AND w.state <> 'stopped')",
    )?;
    violations.extend(none_of(
        database,
        "events of the open or of the latest turn may be deleted",
        "SELECT w.worker_id, w.expired_seq, t.no, t.message_seq FROM main.workers w
         JOIN main.turns t ON t.worker = w.id AND (t.status = 'accepted' OR t.no = w.last_turn)
         WHERE w.expired_seq > 0 AND w.expired_seq >= t.message_seq - 1",
    )?);
    violations.extend(none_of(
        database,
        "events of a worker that is not even a day old may be deleted",
        "SELECT worker_id, expired_seq, created_at FROM main.workers
         WHERE expired_seq > 0 AND created_at > (unixepoch() - 24 * 3600) * 1000",
    )?);
    violations.extend(none_of(
        database,
        "what an open permission request asks was deleted",
        "SELECT a.request_id, a.asked_seq FROM main.approvals a JOIN main.workers w ON w.id = a.worker
         WHERE w.removed_at IS NULL AND a.status IN ('pending', 'decided')
           AND NOT EXISTS (SELECT 1 FROM main.events e WHERE e.seq = a.asked_seq AND e.worker = a.worker)",
    )?);
    let mut tombstone =
        database.prepare("SELECT EXISTS (SELECT 1 FROM removed_workers WHERE worker_id = ?1)")?;
    for worker in &known.removed {
        if !tombstone.query_row([worker], |row| row.get::<_, bool>(0))? {
            violations.push(format!("{worker} was reported as removed, but still exists"));
        }
    }
    if !known.pruned {
        let unasked = "SELECT worker_id FROM removed_workers WHERE removed_at - stopped_at < ?1";
        let mut unasked = database.prepare(unasked)?;
        for worker in unasked.query_map([SHORTEST_RETENTION], |row| row.get::<_, String>(0))? {
            let worker = worker?;
            // For a worker unknown to the recorder, attempts to remove it are unknown too.
            if known.started.contains(&worker) && !known.asked_removals.contains(&worker) {
                violations.push(format!("{worker} was removed without a request"));
            }
        }
    }
    let mut start =
        database.prepare("SELECT EXISTS (SELECT 1 FROM main.events WHERE seq = ?1 AND type = ?2)")?;
    let started = EventType::WorkerStarted.as_str();
    for seen in known.events.iter().filter(|seen| seen.event_type == started) {
        let there: bool = start.query_row(params![seen.event.0, started], |row| row.get(0))?;
        if !there && of(database, &seen.worker)? != Kept::Nothing {
            violations.push(format!("the start of {} was deleted", seen.worker));
        }
    }
    // The order is: deleted rows, then files, then the worker's row.
    let finished = "SELECT r.worker_id FROM removed_workers r
                    WHERE NOT EXISTS (SELECT 1 FROM main.workers w WHERE w.worker_id = r.worker_id)";
    for row in rows(database, finished)? {
        let worker = row.trim_start_matches("worker_id ");
        for place in [
            format!("runtimes/{worker}"),
            format!("runtimes/{worker}.log"),
            format!("runtimes/{worker}.log.1"),
            format!("handoffs/{worker}"),
        ] {
            if evidence.state_dir.join(&place).exists() {
                violations.push(format!("{place} remains of a removed worker"));
            }
        }
    }
    Ok(violations)
}
