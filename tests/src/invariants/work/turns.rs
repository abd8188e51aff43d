//! Every turn ends exactly once, consistent with its events, and its prompt was sent at most once.

use rusqlite::Connection;

use crate::invariants::evidence::Evidence;
use crate::invariants::rows::none_of;

pub(in crate::invariants) fn check(
    evidence: &Evidence,
    database: &Connection,
) -> rusqlite::Result<Vec<String>> {
    let mut violations = none_of(
        database,
        "a turn's status does not agree with the events that end it",
        "SELECT t.turn_id, t.status, t.end_seq, count(e.seq) AS ends, group_concat(e.type) AS types,
                max(e.seq) AS last
         FROM turns t LEFT JOIN events e
           ON e.turn = t.id AND e.type IN ('turn.completed', 'turn.failed', 'turn.canceled')
         GROUP BY t.id
         HAVING CASE t.status
           WHEN 'accepted' THEN ends <> 0 OR t.end_seq IS NOT NULL
           ELSE ends <> 1 OR types <> 'turn.' || t.status OR t.end_seq IS NOT last END",
    )?;
    violations.extend(none_of(
        database,
        "a turn does not begin with one turn.started and one message.sent",
        "SELECT t.turn_id, sum(e.type = 'turn.started') AS started, sum(e.type = 'message.sent') AS sent,
                min(CASE WHEN e.type = 'message.sent' THEN e.seq END) AS message, t.message_seq
         FROM turns t LEFT JOIN events e ON e.turn = t.id
         GROUP BY t.id HAVING (started IS NOT 1 OR sent IS NOT 1 OR message IS NOT t.message_seq)
            AND NOT (started IS 1 AND sent IS 0 AND EXISTS (SELECT 1 FROM meta WHERE key = 'restored_at')
                       AND EXISTS (SELECT 1 FROM events r WHERE r.turn = t.id
                         AND r.seq = t.message_seq AND json_extract(r.payload, '$.recovered')))",
    )?);
    violations.extend(none_of(
        database,
        "a prompt was dispatched more than once, or ended more than once for the runtime",
        "SELECT t.turn_id, sum(e.type = 'runtime.turn_dispatching') AS dispatches,
                sum(e.type = 'runtime.turn_end') AS ends
         FROM turns t JOIN events e ON e.turn = t.id GROUP BY t.id HAVING dispatches > 1 OR ends > 1",
    )?);
    violations.extend(none_of(
        database,
        "a turn says that its prompt was never sent, but the runtime was about to, or the other way round",
        "SELECT t.turn_id, t.status, t.dispatched, sum(coalesce(e.type = 'runtime.turn_dispatching', 0)) AS records
         FROM turns t JOIN workers w ON w.id = t.worker LEFT JOIN events e ON e.turn = t.id GROUP BY t.id
         HAVING (t.dispatched = 'no') <> (records = 0)
            AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'restored_at')
            -- The end of the journal can be lost with a pod.
            AND NOT (t.dispatched = 'maybe' AND coalesce(json_extract(w.placement, '$.kind'), '')
              IN ('kubernetes', 'command'))",
    )?);
    violations.extend(none_of(
        database,
        "a turn was completed although the runtime had taken a cancel before",
        "SELECT t.turn_id, t.status FROM turns t
           JOIN events c ON c.turn = t.id AND c.type = 'runtime.cancel_requested'
           JOIN events e ON e.turn = t.id AND e.type IN ('turn.completed', 'turn.failed') AND e.seq > c.seq",
    )?);
    if evidence.ended {
        violations.extend(none_of(
            database,
            "a turn is still open",
            "SELECT turn_id, status FROM turns WHERE status = 'accepted'",
        )?);
    }
    Ok(violations)
}
