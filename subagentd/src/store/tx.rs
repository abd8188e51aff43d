//! The transaction that a job of the writer sees: statements about single rows, no rules.

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::error::StoreError;
use super::rows::{NewEvent, RowId};
use super::words;

/// When a request with a key was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// In this transaction.
    Now,
    /// In an earlier one.
    Before,
}

/// A running transaction (a savepoint within the writer's).
pub struct Tx<'a> {
    pub(super) connection: &'a Connection,
    pub(super) next_seq: &'a mut i64,
    pub(super) failed: bool,
    /// Whether it overwrote something that may be a secret: an earlier copy of it may be in the WAL.
    pub(super) forgets: bool,
}

impl Tx<'_> {
    /// The connection, for queries that see what this transaction has changed.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.connection
    }

    pub(super) fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
        let mut statement = self.connection.prepare_cached(sql).map_err(StoreError::from)?;
        Ok(statement.execute(params).map_err(StoreError::from)?)
    }

    /// Adds an event and gives its sequence number.
    ///
    /// # Errors
    /// `STORAGE_ERROR`; a record that was added before is one.
    pub fn insert_event(&mut self, worker: RowId, event: &NewEvent<'_>) -> Result<i64> {
        let seq = *self.next_seq;
        *self.next_seq += 1;
        self.execute(
            "INSERT INTO events (seq, worker, number, turn, at, type, kind, record, internal, payload)
             VALUES (?1, ?2, ?3, (SELECT id FROM turns WHERE worker = ?2 AND no = ?4), ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                seq,
                worker.0,
                event.number.map(signed),
                event.turn.map(signed),
                event.at.0,
                words::of_type(event.event_type),
                event.kind.map(words::of_kind),
                event.record.map(words::of_record),
                event.event_type.is_internal(),
                event.payload,
            ],
        )?;
        Ok(seq)
    }

    /// Carries out a change unless a request with this key was carried out before: then its result counts. Says which
    /// of the two it was.
    ///
    /// # Errors
    /// `IDEMPOTENCY_CONFLICT` if that request was another one; those of the change.
    pub fn once<T: Serialize + DeserializeOwned>(
        &mut self,
        key: Option<&(String, String)>,
        now: Timestamp,
        change: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(T, Once)> {
        let Some((key, fingerprint)) = key else { return Ok((change(self)?, Once::Now)) };
        let unreadable = |error: serde_json::Error| StoreError::BadRow(format!("a stored result: {error}"));
        if let Some(earlier) = self.recall(key, fingerprint)? {
            return Ok((serde_json::from_str(&earlier).map_err(unreadable)?, Once::Before));
        }
        let result = change(self)?;
        self.remember(key, fingerprint, &serde_json::to_string(&result).map_err(unreadable)?, now)?;
        Ok((result, Once::Now))
    }

    /// The result that an earlier request with this key had.
    ///
    /// # Errors
    /// `IDEMPOTENCY_CONFLICT` if that request was another one.
    pub fn recall(&self, key: &str, fingerprint: &str) -> Result<Option<String>> {
        recall(self.connection, key, fingerprint)
    }

    /// Keeps a result for repetitions of the request. A newer one takes its place: of an ownership that was granted
    /// again only the last counts.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn remember(&self, key: &str, fingerprint: &str, response: &str, now: Timestamp) -> Result<()> {
        self.execute(
            "INSERT INTO requests (key, fingerprint, response, created_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (key) DO UPDATE SET response = excluded.response",
            params![key, fingerprint, response, now.0],
        )?;
        Ok(())
    }

    /// Raises the generation of the daemon, at least above this one, and gives it.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn raise_generation(&self, above: u64) -> Result<u64> {
        self.execute("UPDATE meta SET value = max(value, ?1) + 1 WHERE key = 'generation'", [signed(above)])?;
        let generation: i64 = self
            .connection
            .query_row("SELECT value FROM meta WHERE key = 'generation'", [], |row| row.get(0))
            .map_err(StoreError::from)?;
        Ok(generation.unsigned_abs())
    }
}

/// The result that an earlier request with this key had.
///
/// # Errors
/// `IDEMPOTENCY_CONFLICT` if that request was another one.
pub(crate) fn recall(connection: &Connection, key: &str, fingerprint: &str) -> Result<Option<String>> {
    let found: Option<(String, String)> = connection
        .query_row("SELECT fingerprint, response FROM requests WHERE key = ?1", [key], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()
        .map_err(StoreError::from)?;
    match found {
        _ if subagent_failpoint::sabotaged("requests.forget") => Ok(None),
        None => Ok(None),
        Some((stored, response)) if stored == fingerprint => Ok(Some(response)),
        Some(_) => Err(used_for_another(key)),
    }
}

/// The refusal of a request whose key is another one's.
pub(crate) fn used_for_another(key: &str) -> Error {
    Error::new(
        Code::IdempotencyConflict,
        "this key was used for another request; use a new key for a new request",
    )
    .with("key", key)
}

/// Numbers of turns and records fit: they count up from 1.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
