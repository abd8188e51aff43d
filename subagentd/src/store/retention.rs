//! How long things are kept: the mark up to which the events of a worker were deleted, and what lies below it.
//!
//! Must not look at a clock: what is old is said by the caller.

use rusqlite::{Connection, OptionalExtension, params};
use subagent_protocol::ids::EventId;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::error::StoreError;
use super::removal::PIECE_ROWS;
use super::rows::{self, RowId};
use super::tx::Tx;

/// What of a worker's events is kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) worker_id: String,
    /// Events up to this one were deleted, but those that are still needed.
    pub(crate) expired_seq: i64,
}

/// What is kept of a worker; `None` if it was removed.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn kept(connection: &Connection, worker: RowId) -> Result<Option<Kept>> {
    let sql = "SELECT worker_id, expired_seq FROM workers WHERE id = ?1 AND removed_at IS NULL";
    let found = connection.prepare_cached(sql).and_then(|mut statement| {
        statement
            .query_row([worker.0], |row| Ok(Kept { worker_id: row.get(0)?, expired_seq: row.get(1)? }))
            .optional()
    });
    Ok(found.map_err(StoreError::from)?)
}

/// Of the events up to a worker's mark (`{mark}`) only those that are still needed: the others may not be deleted yet, and
/// half of them is worth less than none.
pub(super) fn needed(mark: &str) -> String {
    format!(
        "(e.seq > {mark} OR e.type = 'worker.started' OR EXISTS (SELECT 1 FROM approvals a WHERE a.worker = e.worker
            AND a.asked_seq = e.seq AND a.status IN ('pending', 'decided')))"
    )
}

/// Up to which event a worker's were deleted; 0 for one that is not there.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) fn mark(connection: &Connection, worker: RowId) -> Result<i64> {
    Ok(kept(connection, worker)?.map_or(0, |kept| kept.expired_seq))
}

/// The error for a cursor behind which events were deleted.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn cursor_expired(
    connection: &Connection,
    worker: RowId,
    kept: &Kept,
    cursor: EventId,
) -> Result<Error> {
    let sql = "SELECT min(seq) FROM events WHERE worker = ?1 AND internal = 0 AND seq > ?2";
    let oldest: Option<i64> =
        rows::one(connection, sql, params![worker.0, kept.expired_seq], |row| row.get(0))
            .map_err(StoreError::from)?;
    let message = "events after this cursor were deleted, since they were older than what is kept";
    Ok(Error::new(Code::CursorExpired, message)
        .with("workerId", kept.worker_id.as_str())
        .with("eventId", cursor.to_string())
        .with("oldestEventId", oldest.map(|seq| EventId(seq).to_string()))
        .recommend("begin without a cursor: the first event is then the oldest that is kept")
        .with("recommendedCommand", format!("subagent watch --worker-id {}", kept.worker_id)))
}

/// When this state was restored from a backup, if it was.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn restored_at(connection: &Connection) -> Result<Option<Timestamp>> {
    Ok(meta(connection, "restored_at")?.map(Timestamp))
}

fn meta(connection: &Connection, key: &str) -> Result<Option<i64>> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    Ok(rows::one(connection, sql, [key], |row| row.get(0)).optional().map_err(StoreError::from)?)
}

/// What the looks of the retention have seen of the clock, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Looks {
    /// The latest time that was believed.
    trusted: i64,
    /// The first look in a row that did not believe the clock.
    doubted: Option<i64>,
}

const DAY: i64 = 24 * 3600 * 1000;
/// So far the clock may go on between two looks.
const BELIEVED: i64 = 7 * DAY;

impl Looks {
    /// One more look. A clock that is far beyond the last look is believed when it says the same a day later.
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

/// Whether an event with this number is stored of another worker.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn is_of_another(connection: &Connection, worker: RowId, seq: i64) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM events WHERE seq = ?2 AND worker <> ?1)";
    Ok(rows::one(connection, sql, params![worker.0, seq], |row| row.get(0)).map_err(StoreError::from)?)
}

/// Up to which event a worker's may be deleted: the end of the turn before its oldest that is open, the latest, or ended
/// then or later. 0 if there is none: what no old turn follows is kept, however old it is.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn expirable(connection: &Connection, worker: RowId, cutoff: Timestamp) -> Result<i64> {
    // Of a turn whose end was deleted there is no row `e`.
    let sql = "SELECT coalesce(max(end_seq), 0) FROM turns WHERE worker = ?1 AND no < (
                 SELECT min(t.no) FROM turns t LEFT JOIN events e ON e.seq = t.end_seq
                 WHERE t.worker = ?1 AND (t.status = 'accepted' OR e.at >= ?2
                     OR t.no = (SELECT max(no) FROM turns WHERE worker = ?1)))";
    Ok(rows::one(connection, sql, params![worker.0, cutoff.0], |row| row.get(0)).map_err(StoreError::from)?)
}

impl Tx<'_> {
    /// Remembers a look of the retention. Says whether the clock is to be believed: nothing that was removed comes back.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) fn trust_clock(&self, now: Timestamp) -> Result<bool> {
        let trusted = match meta(self.connection, "clock_trusted")? {
            Some(trusted) => trusted,
            // The first look: what was stored last is the best that is known.
            None => {
                rows::one(self.connection, "SELECT at FROM events ORDER BY seq DESC LIMIT 1", [], |row| {
                    row.get(0)
                })
                .optional()
                .map_err(StoreError::from)?
                .unwrap_or(now.0)
            }
        };
        let before = Looks { trusted, doubted: meta(self.connection, "clock_doubted")? };
        let looks = before.again(now.0);
        let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES ('clock_trusted', ?1)";
        self.execute(sql, [looks.trusted])?;
        match looks.doubted {
            Some(doubted) => self.execute(
                "INSERT OR REPLACE INTO meta (key, value) VALUES ('clock_doubted', ?1)",
                [doubted],
            )?,
            None => self.execute("DELETE FROM meta WHERE key = 'clock_doubted'", [])?,
        };
        Ok(looks.doubted.is_none())
    }

    /// Marks the events of a worker up to this one as deleted, and notes which record is the last of them.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(crate) fn mark_expired(&self, worker: RowId, up_to: i64) -> Result<()> {
        self.execute(
            // The plus has the events looked through from the mark on backwards: a record lies near it.
            "UPDATE workers SET expired_seq = max(expired_seq, ?2), expired_number = max(expired_number, coalesce(
               (SELECT number FROM events WHERE seq <= ?2 AND +worker = ?1 AND +number IS NOT NULL
                ORDER BY seq DESC LIMIT 1), 0))
             WHERE id = ?1 AND removed_at IS NULL",
            params![worker.0, up_to],
        )?;
        Ok(())
    }
}

/// Deletes a piece of the permission requests below a worker's mark that are over. Says whether there may be more.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn delete_approvals(connection: &Connection, worker: RowId, mark: i64) -> Result<bool> {
    let sql = format!(
        "DELETE FROM approvals WHERE id IN (SELECT id FROM approvals INDEXED BY approvals_of_worker
         WHERE worker = ?1 AND asked_seq <= ?2 AND status NOT IN ('pending', 'decided') LIMIT {PIECE_ROWS})"
    );
    deleted(connection, &sql, params![worker.0, mark])
}

/// Deletes a piece of the turns below a worker's mark to which nothing belongs any more. Says whether there may be more.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn delete_turns(connection: &Connection, worker: RowId, mark: i64) -> Result<bool> {
    // Updates that come late may follow until the end of the next turn whose prompt was sent.
    let sql = format!(
        "DELETE FROM turns WHERE id IN (SELECT t.id FROM turns t
         WHERE t.worker = ?1 AND t.end_seq <= ?2
           AND t.no < (SELECT max(no) FROM turns WHERE worker = ?1 AND dispatched <> 'no' AND end_seq <= ?2)
           AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.worker = ?1 AND a.turn = t.id)
         ORDER BY t.no LIMIT {PIECE_ROWS})"
    );
    deleted(connection, &sql, params![worker.0, mark])
}

/// Deletes a piece of the results of requests that were made before. Says whether there may be more.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn delete_requests(connection: &Connection, before: Timestamp) -> Result<bool> {
    let sql = format!(
        "DELETE FROM requests WHERE key IN
         (SELECT key FROM requests INDEXED BY requests_by_age WHERE created_at < ?1 LIMIT {PIECE_ROWS})"
    );
    deleted(connection, &sql, [before.0])
}

/// How many results of requests there are that were made before.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn count_requests(connection: &Connection, before: Timestamp) -> Result<u64> {
    let sql = "SELECT count(*) FROM requests WHERE created_at < ?1";
    let count: i64 = rows::one(connection, sql, [before.0], |row| row.get(0)).map_err(StoreError::from)?;
    Ok(count.unsigned_abs())
}

fn deleted(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<bool> {
    let deleted = connection.prepare_cached(sql).and_then(|mut statement| statement.execute(params));
    Ok(deleted.map_err(StoreError::from)? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the clock is believed at each of these days.
    fn believed(days: &[i64]) -> Vec<bool> {
        let mut looks = Looks { trusted: 100 * DAY, doubted: None };
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
        // Wrong once, and right again.
        assert_eq!(believed(&[5000, 5000, 101, 108]), [false, false, true, true]);
        // A long time without any look.
        assert_eq!(believed(&[200, 201, 208]), [false, true, true]);
        // Wrong in another way each time, or set back to where nothing is old.
        assert_eq!(believed(&[5000, 4000, 6000, 0, 101]), [false, false, false, true, true]);
        assert_eq!(believed(&[i64::MAX / DAY, 200]), [false, false]);
    }
}
