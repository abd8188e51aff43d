//! A task ends once, when its worker has no more work, and its end is reported once for each run.

use rusqlite::Connection;

use crate::invariants::evidence::Evidence;
use crate::invariants::rows::none_of;

/// Impossible contents: the meaning of a row, and the query that finds it.
const CONTRADICTIONS: &[(&str, &str)] = &[
    (
        "a task goes on, and its worker has nothing to do",
        "SELECT w.worker_id, w.state FROM tasks t JOIN workers w ON w.id = t.worker
         WHERE t.outcome IS NULL AND w.queue_pause IS NOT 'restored' AND (w.state = 'stopped'
            OR (w.state IN ('idle', 'error') AND w.id NOT IN (SELECT worker FROM queued_turns)
                -- Its result may be being looked at.
                AND coalesce(json_type(t.terms, '$.resultSchema'), 'null') = 'null'))",
    ),
    (
        "the agent of a task was asked more than once in a run for a result that fits its schema",
        "SELECT asked.worker, asked.times, t.runs FROM
           (SELECT worker, count(*) AS times FROM
             (SELECT worker, payload ->> '$.text' AS text FROM events WHERE type = 'message.sent'
              UNION ALL SELECT worker, message ->> '$.text' FROM queued_turns)
            WHERE text LIKE 'Your last message is the result of this task, and does not fit%' GROUP BY worker) asked
         JOIN tasks t ON t.worker = asked.worker WHERE asked.times > t.runs",
    ),
    (
        "a task has ended, and its worker has an open turn",
        "SELECT w.worker_id, t.outcome FROM tasks t JOIN workers w ON w.id = t.worker
         WHERE t.outcome IS NOT NULL AND w.state IN ('turn', 'local')",
    ),
    (
        "the end of a task was reported more often than it ended",
        "SELECT sent.task_id, sent.times, t.runs FROM
           (SELECT task_id, count(*) AS times FROM
             (SELECT payload ->> '$.subagent.subagentId' AS task_id FROM events WHERE type = 'message.sent'
              UNION ALL SELECT message ->> '$.subagent.subagentId' FROM queued_turns)
            WHERE task_id IS NOT NULL GROUP BY task_id) sent
         JOIN workers w ON w.worker_id = sent.task_id JOIN tasks t ON t.worker = w.id
         WHERE sent.times > t.runs - (t.outcome IS NULL)",
    ),
    (
        "an end was reported by a missing turn",
        "SELECT d.task_id, d.run, d.turn_id FROM task_deliveries d JOIN workers p ON p.id = d.parent
         WHERE d.turn_id IS NOT NULL AND p.removed_at IS NULL AND p.expired_seq = 0
           AND d.turn_id NOT IN (SELECT turn_id FROM turns) AND d.turn_id NOT IN (SELECT turn_id FROM queued_turns)
           AND d.turn_id NOT IN (SELECT payload ->> '$.turnId' FROM events WHERE type = 'turn.dropped')
           AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'restored_at')",
    ),
    (
        "an end is due to a worker that hears nothing any more",
        "SELECT d.task_id, p.worker_id FROM task_deliveries d JOIN workers p ON p.id = d.parent
         WHERE d.turn_id IS NULL AND p.desired = 'stop'",
    ),
    (
        "an end is due to a task that was ended, and would begin another run of it",
        "SELECT d.task_id, w.worker_id FROM task_deliveries d JOIN tasks p ON p.worker = d.parent JOIN workers w ON w.id = p.worker
         WHERE d.turn_id IS NULL AND p.outcome IN ('cancelled', 'timed_out', 'max_iterations_reached')",
    ),
];

pub(in crate::invariants) fn check(_: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let knows = "SELECT EXISTS (SELECT 1 FROM pragma_table_info('tasks'))";
    if !database.query_row(knows, [], |row| row.get(0))? {
        // This version's daemon has not opened it yet.
        return Ok(Vec::new());
    }
    let mut violations = Vec::new();
    for (what, sql) in CONTRADICTIONS {
        violations.extend(none_of(database, what, sql)?);
    }
    Ok(violations)
}
