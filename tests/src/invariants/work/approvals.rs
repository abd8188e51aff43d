//! Every permission request and elicitation is asked once, ends once, and is answered only
//! with a real decision.

use rusqlite::Connection;

use crate::invariants::evidence::Evidence;
use crate::invariants::rows::none_of;

pub(in crate::invariants) fn check(
    evidence: &Evidence,
    database: &Connection,
) -> rusqlite::Result<Vec<String>> {
    let mut violations = none_of(
        database,
        "a permission request and its event do not belong together",
        "SELECT a.request_id, a.asked_seq, e.type FROM approvals a LEFT JOIN events e ON e.seq = a.asked_seq
         WHERE e.type IS NOT CASE a.kind WHEN 'elicitation' THEN 'elicitation.requested' ELSE 'approval.requested' END OR
               CASE WHEN json_valid(e.payload) THEN json_extract(e.payload, '$.requestId') <> a.request_id
                    ELSE instr(e.payload, a.request_id) = 0 END
            OR e.worker <> a.worker",
    )?;
    violations.extend(none_of(
        database,
        "a question has no row",
        "SELECT e.seq, json_extract(e.payload, '$.requestId') AS request FROM events e
         WHERE e.type IN ('approval.requested', 'elicitation.requested') AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.asked_seq = e.seq)",
    )?);
    violations.extend(none_of(
        database,
        "a permission request does not have the events of its status",
        "WITH ends AS MATERIALIZED
           (SELECT worker, type, json_extract(payload, '$.requestId') AS request_id FROM events
            WHERE record IS NULL AND type IN ('approval.decided', 'approval.lost', 'approval.canceled',
              'elicitation.answered', 'elicitation.lost', 'elicitation.canceled'))
         SELECT a.request_id, a.kind, a.status,
                sum(coalesce(e.type IN ('approval.decided', 'elicitation.answered'), 0)) AS decided,
                sum(coalesce(e.type IN ('approval.lost', 'elicitation.lost'), 0)) AS lost,
                sum(coalesce(e.type IN ('approval.canceled', 'elicitation.canceled'), 0)) AS canceled
         FROM approvals a LEFT JOIN ends e ON e.request_id = a.request_id AND e.worker = a.worker
              AND (e.type LIKE 'elicitation.%') = (a.kind = 'elicitation')
         GROUP BY a.id
         HAVING CASE a.status
           WHEN 'pending' THEN decided + lost + canceled <> 0
           WHEN 'lost' THEN lost <> 1 OR decided + canceled <> 0
           WHEN 'canceled' THEN canceled <> 1 OR decided + lost <> 0
           ELSE decided <> 1 OR lost <> 0 END
           AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'restored_at')",
    )?);
    violations.extend(none_of(
        database,
        "an answer was written twice, or without a decision",
        "SELECT json_extract(e.payload, '$.requestId') AS request, count(*) AS written, a.status, a.option_id,
                a.by_cancel, a.decided_seq
         FROM events e LEFT JOIN approvals a ON a.request_id = json_extract(e.payload, '$.requestId')
         WHERE e.type = 'runtime.answer_written'
         GROUP BY request HAVING written > 1 OR a.decided_seq > min(e.seq) OR
            (a.decided_seq IS NULL AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'restored_at'))",
    )?);
    violations.extend(none_of(
        database,
        "a permission request was delivered without an answer, or answered although that was not decided",
        "WITH answers AS MATERIALIZED
           (SELECT worker, seq, json_extract(payload, '$.requestId') AS request_id FROM events
            WHERE type = 'runtime.answer_written')
         SELECT a.request_id, a.status, a.by_cancel, count(e.seq) AS written
         FROM approvals a LEFT JOIN turns t ON t.id = a.turn
         LEFT JOIN answers e ON e.request_id = a.request_id AND e.worker = a.worker
         WHERE t.carrier IS NOT 'local'
         GROUP BY a.id
         HAVING CASE a.status WHEN 'delivered' THEN written = 0 AND NOT a.by_cancel ELSE written > 0 END",
    )?);
    violations.extend(none_of(
        database,
        "a permission request is open although its runtime is gone",
        "SELECT a.request_id, a.status, w.worker_id, w.state
         FROM approvals a JOIN workers w ON w.id = a.worker LEFT JOIN turns t ON t.id = a.turn
         WHERE a.status IN ('pending', 'decided') AND t.carrier IS NOT 'local' AND NOT w.may_live",
    )?);
    violations.extend(none_of(
        database,
        "a permission request was decided with an option that was not offered",
        "SELECT a.request_id, a.option_id FROM approvals a JOIN events e ON e.seq = a.asked_seq
         WHERE a.option_id IS NOT NULL AND e.record IS NOT NULL AND a.kind = 'permission'
           AND CASE WHEN json_valid(e.payload) THEN json_array_length(e.payload, '$.params.options') > 0 END
           AND NOT EXISTS (SELECT 1 FROM json_each(e.payload, '$.params.options') o
                           WHERE json_extract(o.value, '$.optionId') = a.option_id)",
    )?);
    violations.extend(none_of(
        database,
        "what was filled in for a question is kept although it is over, or was never accepted",
        "SELECT request_id, kind, status, option_id FROM approvals
         WHERE content IS NOT NULL AND (status <> 'decided' OR kind <> 'elicitation' OR option_id IS NOT 'accept')
            OR kind = 'elicitation' AND option_id NOT IN ('accept', 'decline')",
    )?);
    if evidence.acknowledged.all_attempted {
        let mut decided = database.prepare(
            "SELECT request_id, option_id FROM approvals WHERE decided_seq IS NOT NULL AND NOT by_cancel",
        )?;
        let decided = decided.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for row in decided {
            let (request, option): (String, Option<String>) = row?;
            if !evidence.acknowledged.attempted.contains(&request) {
                violations.push(format!("{request} was decided ({option:?}) without any command"));
            }
        }
    }
    if evidence.ended {
        violations.extend(none_of(
            database,
            "a permission request is still open",
            "SELECT request_id, status FROM approvals WHERE status IN ('pending', 'decided')",
        )?);
    }
    Ok(violations)
}
