//! Every permission request is asked once, ends once, and is answered only with what somebody decided.

use rusqlite::Connection;

use super::evidence::Evidence;
use super::none_of;

pub(super) fn check(evidence: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut violations = none_of(
        database,
        "a permission request and its event do not belong together",
        "SELECT a.request_id, a.asked_seq, e.type FROM approvals a LEFT JOIN events e ON e.seq = a.asked_seq
         WHERE e.type IS NOT 'approval.requested' OR json_extract(e.payload, '$.requestId') <> a.request_id
            OR e.worker <> a.worker",
    )?;
    violations.extend(none_of(
        database,
        "an approval.requested has no permission request",
        "SELECT e.seq, json_extract(e.payload, '$.requestId') AS request FROM events e
         WHERE e.type = 'approval.requested' AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.asked_seq = e.seq)",
    )?);
    violations.extend(none_of(
        database,
        "a permission request does not have the events of its status",
        "SELECT a.request_id, a.status, sum(coalesce(e.type = 'approval.decided', 0)) AS decided,
                sum(coalesce(e.type = 'approval.lost', 0)) AS lost,
                sum(coalesce(e.type = 'approval.canceled', 0)) AS canceled
         FROM approvals a LEFT JOIN events e ON e.worker = a.worker AND e.record IS NULL
              AND e.type IN ('approval.decided', 'approval.lost', 'approval.canceled')
              AND json_extract(e.payload, '$.requestId') = a.request_id
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
        "an answer was written twice, or although nobody had decided",
        "SELECT json_extract(e.payload, '$.requestId') AS request, count(*) AS written, a.status, a.option_id,
                a.by_cancel, a.decided_seq
         FROM events e LEFT JOIN approvals a ON a.request_id = json_extract(e.payload, '$.requestId')
         WHERE e.type = 'runtime.answer_written'
         GROUP BY request HAVING written > 1 OR a.decided_seq > min(e.seq) OR
            (a.decided_seq IS NULL AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'restored_at'))",
    )?);
    if evidence.ended {
        violations.extend(none_of(
            database,
            "a permission request is still open",
            "SELECT request_id, status FROM approvals WHERE status IN ('pending', 'decided')",
        )?);
    }
    Ok(violations)
}
