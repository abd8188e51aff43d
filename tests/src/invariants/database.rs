//! The database is sound: for SQLite, in its references, and across its columns.

use rusqlite::Connection;

use super::evidence::Evidence;
use super::rows::none_of;

/// Impossible contents of the database: the meaning of a row, and the query that finds it.
const CONTRADICTIONS: &[(&str, &str)] = &[
    (
        "an event, a permission request or a turn belongs to another worker than its turn or event",
        "SELECT 'event' AS what, e.seq AS id FROM events e JOIN turns t ON t.id = e.turn WHERE t.worker <> e.worker
         UNION ALL
         SELECT 'approval', a.id FROM approvals a JOIN turns t ON t.id = a.turn WHERE t.worker <> a.worker
         UNION ALL
         SELECT 'message', t.id FROM turns t JOIN events e ON e.seq = t.message_seq WHERE e.worker <> t.worker",
    ),
    (
        "a worker's state does not agree with its open turn",
        "SELECT w.worker_id, w.state, t.turn_id, t.carrier FROM workers w
           LEFT JOIN turns t ON t.worker = w.id AND t.status = 'accepted'
         WHERE CASE w.state WHEN 'turn' THEN t.carrier IS NOT 'acp-stdio'
                            WHEN 'local' THEN t.carrier IS NOT 'local'
                            WHEN 'stopping' THEN t.carrier IS 'local'
                            ELSE t.id IS NOT NULL END",
    ),
    (
        "a worker that is stopped is not, or the other way round",
        "SELECT worker_id, state, desired, may_live, stopped_at FROM workers
         WHERE (state = 'stopped') <> (stopped_at IS NOT NULL)
            OR (state IN ('stopping', 'stopped')) <> (desired = 'stop')
            OR (state = 'stopped' AND may_live)",
    ),
    (
        "a worker without a runtime has one",
        "SELECT worker_id, runtime_pid, incarnation FROM workers
         WHERE (NOT may_live AND runtime_pid IS NOT NULL) OR (may_live AND incarnation = 0)",
    ),
    (
        "an event of the daemon's own has no data, or one of a runtime has no record",
        "SELECT seq, type FROM events
         -- A question that waited for hooks is shown by a copy of its record, at which its approval points.
         WHERE ((number IS NULL) <> (record IS NULL)
                AND NOT (number IS NULL AND type = 'approval.requested' AND record = 'approvalRequested'
                         AND EXISTS (SELECT 1 FROM approvals WHERE asked_seq = seq)))
            OR (number IS NULL AND NOT json_valid(payload))",
    ),
    (
        "a result that was kept for a repetition cannot be given",
        "SELECT key FROM requests WHERE response = '' OR fingerprint = ''",
    ),
    (
        "a handoff speaks of what was never stored",
        "SELECT snapshot_id, up_to FROM handoffs WHERE up_to > (SELECT coalesce(max(seq), 0) FROM events)",
    ),
    (
        "a count of the daemon is missing or below zero",
        "SELECT names.name, meta.value FROM
           (SELECT 'seq_reserved' AS name UNION ALL SELECT 'generation' UNION ALL SELECT 'syncs') names
           LEFT JOIN meta ON meta.key = names.name WHERE meta.value IS NULL OR meta.value < 0",
    ),
];

pub(super) fn check(_: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut violations = Vec::new();
    let mut statement = database.prepare("PRAGMA quick_check")?;
    for line in statement.query_map([], |row| row.get::<_, String>(0))? {
        let line = line?;
        if line != "ok" {
            violations.push(line);
        }
    }
    violations.extend(none_of(database, "a reference leads nowhere", "PRAGMA foreign_key_check")?);
    for (what, sql) in CONTRADICTIONS {
        violations.extend(none_of(database, what, sql)?);
    }
    Ok(violations)
}
