//! A worker's records are stored once each, without a gap, and every assigned
//! sequence number was reserved.

use rusqlite::Connection;

use super::evidence::Evidence;
use super::rows::none_of;

pub(super) fn check(_: &Evidence, database: &Connection) -> rusqlite::Result<Vec<String>> {
    // Gaps are allowed where the product reports them (`journal.gap`), which
    // requires a damaged journal.
    let mut violations = none_of(
        database,
        "the records of a worker are not 1, 2, 3, ... up to its cursor",
        "SELECT w.worker_id, j.number AS cursor, count(e.number) AS stored, min(e.number) AS first,
                max(e.number) AS last, count(DISTINCT e.number) AS different, w.expired_number
         FROM workers w JOIN journal_cursors j ON j.worker = w.id
         LEFT JOIN events e ON e.worker = w.id AND e.number IS NOT NULL GROUP BY w.id
         HAVING CASE w.expired_seq
             WHEN 0 THEN stored <> cursor OR different <> cursor OR coalesce(first, 1) <> 1
                  OR coalesce(last, 0) <> cursor
             ELSE stored <> cursor - w.expired_number OR different <> stored
                  OR coalesce(first, w.expired_number + 1) <> w.expired_number + 1
                  OR coalesce(last, w.expired_number) <> cursor END
            AND NOT EXISTS (SELECT 1 FROM events g WHERE g.worker = w.id AND g.type = 'journal.gap')",
    )?;
    violations.extend(none_of(
        database,
        "records of a worker are stored in another order than they were written",
        "SELECT worker, number, seq FROM
           (SELECT worker, number, seq, lag(number) OVER (PARTITION BY worker ORDER BY seq) AS before
            FROM events WHERE number IS NOT NULL)
         WHERE before >= number",
    )?);
    violations.extend(none_of(
        database,
        "an event has a number that was never reserved",
        "SELECT max(seq) AS seq, (SELECT value FROM meta WHERE key = 'seq_reserved') AS reserved FROM events
         HAVING seq > reserved",
    )?);
    violations.extend(none_of(
        database,
        "the turns of a worker are not 1, 2, 3, ...",
        "SELECT w.worker_id, w.last_turn, count(t.no) AS turns, max(t.no) AS last
         FROM workers w LEFT JOIN turns t ON t.worker = w.id GROUP BY w.id
         HAVING (turns <> w.last_turn - CASE w.expired_seq WHEN 0 THEN 0 ELSE coalesce(min(t.no), 1) - 1 END
             OR coalesce(last, 0) <> w.last_turn)
             AND NOT EXISTS (SELECT 1 FROM meta WHERE key = 'restored_at')",
    )?);
    Ok(violations)
}
