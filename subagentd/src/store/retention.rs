//! Retention: the mark up to which a worker's events were deleted, and the rows below it.
//! It must not read a clock; callers pass cutoff times.

use rusqlite::{Connection, params};
use subagent_protocol::ids::EventId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::rows::{self, RowId};
use super::tx::Tx;

/// Maximum number of rows deleted in one transaction.
pub(super) const PIECE_ROWS: usize = 200;

/// Retention state of a worker.
#[derive(Debug, Clone)]
pub(crate) struct RetentionState {
    pub(crate) worker_id: String,
    /// Events up to this sequence number were deleted, except those still needed.
    pub(crate) expired_seq: i64,
}

/// Returns the retention state of a worker; `None` if it was removed.
pub(crate) fn kept(connection: &Connection, worker: RowId) -> Result<Option<RetentionState>> {
    let sql = "SELECT worker_id, expired_seq FROM workers WHERE id = ?1 AND removed_at IS NULL";
    rows::optional(connection, sql, [worker.0], |row| {
        Ok(RetentionState { worker_id: row.get(0)?, expired_seq: row.get(1)? })
    })
}

/// SQL condition that hides events up to a worker's mark (`{mark}`), except those still needed.
/// Deletion below the mark may be incomplete, and an arbitrary rest must not show.
pub(super) fn needed(mark: &str) -> String {
    format!(
        "(e.seq > {mark} OR e.type = 'worker.started' OR EXISTS (SELECT 1 FROM approvals a WHERE a.worker = e.worker
            AND a.asked_seq = e.seq AND a.status IN ('pending', 'decided')))"
    )
}

/// Returns the deletion mark of a worker, 0 for an unknown one.
pub(super) fn mark(connection: &Connection, worker: RowId) -> Result<i64> {
    Ok(kept(connection, worker)?.map_or(0, |kept| kept.expired_seq))
}

/// Returns the error for a cursor whose next events were deleted.
pub(crate) fn cursor_expired(
    connection: &Connection,
    worker: RowId,
    kept: &RetentionState,
    cursor: EventId,
) -> Result<Error> {
    let sql = "SELECT min(seq) FROM events WHERE worker = ?1 AND internal = 0 AND seq > ?2";
    let oldest: Option<i64> =
        rows::one(connection, sql, params![worker.0, kept.expired_seq], |row| row.get(0))?;
    let message = "events after this cursor were deleted, since they were older than what is kept";
    Ok(Error::new(Code::CursorExpired, message)
        .with("workerId", kept.worker_id.as_str())
        .with("eventId", cursor.to_string())
        .with("oldestEventId", oldest.map(|seq| EventId(seq).to_string()))
        .recommend("begin without a cursor: the first event is then the oldest that is kept")
        .with("recommendedCommand", format!("subagent watch --worker-id {}", kept.worker_id)))
}

/// Returns when this state was restored from a backup, if it was.
pub(crate) fn restored_at(connection: &Connection) -> Result<Option<Timestamp>> {
    Ok(meta(connection, "restored_at")?.map(Timestamp))
}

fn meta(connection: &Connection, key: &str) -> Result<Option<i64>> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    rows::optional(connection, sql, [key], |row| row.get(0))
}

/// Clock observations of the retention runs, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockTrust {
    /// Latest time that was accepted.
    trusted: i64,
    /// Time of the first in a row of rejected observations.
    doubted: Option<i64>,
}

const DAY: i64 = 24 * 3600 * 1000;
/// Maximum accepted clock advance between two runs.
const BELIEVED: i64 = 7 * DAY;

impl ClockTrust {
    /// Adds an observation. A clock far ahead of the last one is accepted when it is consistent a
    /// day later.
    fn again(self, now: i64) -> Self {
        let trusted = self.trusted;
        let after_doubt = self.doubted.map(|doubted| now.saturating_sub(doubted));
        match after_doubt {
            _ if now <= trusted.saturating_add(BELIEVED) => Self { trusted: trusted.max(now), doubted: None },
            Some(DAY..=BELIEVED) => Self { trusted: now, doubted: None },
            Some(0..DAY) => self,
            _ => Self { trusted, doubted: Some(now) },
        }
    }
}

/// Whether another worker's event has this sequence number.
pub(crate) fn is_of_another(connection: &Connection, worker: RowId, seq: i64) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM events WHERE seq = ?2 AND worker <> ?1)";
    rows::one(connection, sql, params![worker.0, seq], |row| row.get(0))
}

/// Returns the event up to which a worker's events may be deleted: the end of the turn before its
/// oldest turn that is open, latest, or ended at `cutoff` or later. 0 if there is none, so events
/// after the last old turn are kept.
pub(crate) fn expirable(connection: &Connection, worker: RowId, cutoff: Timestamp) -> Result<i64> {
    // The left join keeps turns whose ending event was deleted.
    let sql = "SELECT coalesce(max(end_seq), 0) FROM turns WHERE worker = ?1 AND no < (
                 SELECT min(t.no) FROM turns t LEFT JOIN events e ON e.seq = t.end_seq
                 WHERE t.worker = ?1 AND (t.status = 'accepted' OR e.at >= ?2
                     OR t.no = (SELECT max(no) FROM turns WHERE worker = ?1)))";
    rows::one(connection, sql, params![worker.0, cutoff.0], |row| row.get(0))
}

/// Stores a clock observation. Returns whether the clock is accepted: a deletion cannot be
/// undone.
pub(crate) fn trust_clock(tx: &Tx<'_>, now: Timestamp) -> Result<bool> {
    let trusted = match meta(tx.connection, "clock_trusted")? {
        Some(trusted) => trusted,
        // On the first run, the time of the newest event is the best known value.
        None => {
            rows::optional(tx.connection, "SELECT at FROM events ORDER BY seq DESC LIMIT 1", [], |row| {
                row.get(0)
            })?
            .unwrap_or(now.0)
        }
    };
    let before = ClockTrust { trusted, doubted: meta(tx.connection, "clock_doubted")? };
    let looks = before.again(now.0);
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('clock_trusted', ?1)";
    tx.execute(sql, [looks.trusted])?;
    match looks.doubted {
        Some(doubted) => {
            tx.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('clock_doubted', ?1)", [doubted])?
        }
        None => tx.execute("DELETE FROM meta WHERE key = 'clock_doubted'", [])?,
    };
    Ok(looks.doubted.is_none())
}

/// Marks a worker's events up to this one as deleted, and stores the number of the last deleted
/// record.
pub(crate) fn mark_expired(tx: &Tx<'_>, worker: RowId, up_to: i64) -> Result<()> {
    tx.execute(
        // The unary plus forces a backward scan from the mark, where a record is near.
        "UPDATE workers SET expired_seq = max(expired_seq, ?2), expired_number = max(expired_number, coalesce(
           (SELECT number FROM events WHERE seq <= ?2 AND +worker = ?1 AND +number IS NOT NULL
            ORDER BY seq DESC LIMIT 1), 0))
         WHERE id = ?1 AND removed_at IS NULL",
        params![worker.0, up_to],
    )?;
    Ok(())
}

/// Deletes one piece of the closed permission requests below a worker's mark. Returns whether there
/// may be more.
pub(crate) fn delete_approvals(connection: &Connection, worker: RowId, mark: i64) -> Result<bool> {
    let sql = format!(
        "DELETE FROM approvals WHERE id IN (SELECT id FROM approvals INDEXED BY approvals_of_worker
         WHERE worker = ?1 AND asked_seq <= ?2 AND status NOT IN ('pending', 'decided') LIMIT {PIECE_ROWS})"
    );
    deleted(connection, &sql, params![worker.0, mark])
}

/// Deletes one piece of the unreferenced turns below a worker's mark. Returns whether there may be
/// more.
pub(crate) fn delete_turns(connection: &Connection, worker: RowId, mark: i64) -> Result<bool> {
    // Late updates may arrive until the next turn whose prompt was sent has ended.
    let sql = format!(
        "DELETE FROM turns WHERE id IN (SELECT t.id FROM turns t
         WHERE t.worker = ?1 AND t.end_seq <= ?2
           AND t.no < (SELECT max(no) FROM turns WHERE worker = ?1 AND dispatched <> 'no' AND end_seq <= ?2)
           AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.worker = ?1 AND a.turn = t.id)
         ORDER BY t.no LIMIT {PIECE_ROWS})"
    );
    deleted(connection, &sql, params![worker.0, mark])
}

/// Deletes one piece of the request results older than `before`. Returns whether there may be more.
pub(crate) fn delete_requests(connection: &Connection, before: Timestamp) -> Result<bool> {
    let sql = format!(
        "DELETE FROM requests WHERE key IN
         (SELECT key FROM requests INDEXED BY requests_by_age WHERE created_at < ?1 LIMIT {PIECE_ROWS})"
    );
    deleted(connection, &sql, [before.0])
}

/// Counts the request results older than `before`.
pub(crate) fn count_requests(connection: &Connection, before: Timestamp) -> Result<u64> {
    let sql = "SELECT count(*) FROM requests WHERE created_at < ?1";
    let count: i64 = rows::one(connection, sql, [before.0], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

fn deleted(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<bool> {
    Ok(rows::execute(connection, sql, params)? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns for each day whether the clock is accepted.
    fn believed(days: &[i64]) -> Vec<bool> {
        let mut looks = ClockTrust { trusted: 100 * DAY, doubted: None };
        days.iter()
            .map(|day| {
                looks = looks.again(day * DAY);
                looks.doubted.is_none()
            })
            .collect()
    }

    #[test]
    fn a_clock_that_jumps_is_believed_a_day_later() {
        assert_eq!(believed(&[100, 101, 108, 90, 115]), [true; 5]);
        // Wrong once, then right again.
        assert_eq!(believed(&[5000, 5000, 101, 108]), [false, false, true, true]);
        // No run for a long time.
        assert_eq!(believed(&[200, 201, 208]), [false, true, true]);
        // Inconsistent errors, or set back to a time when nothing is old.
        assert_eq!(believed(&[5000, 4000, 6000, 0, 101]), [false, false, false, true, true]);
        assert_eq!(believed(&[i64::MAX / DAY, 200]), [false, false]);
    }
}
