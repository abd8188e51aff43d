//! Results of requests with an idempotency key, for repeated requests.

use rusqlite::{Connection, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::error::StoreError;
use super::rows;
use super::tx::Tx;

/// Whether a request with an idempotency key was executed or replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execution {
    /// Executed in this transaction.
    Fresh,
    /// Executed in an earlier transaction; the stored result is returned.
    Replayed,
}

/// Executes a change, or returns the stored result of an earlier request with this key. The second
/// value says which.
///
/// # Errors
/// `IDEMPOTENCY_CONFLICT` if the key belongs to a different request; errors of the change.
pub(crate) fn once<T: Serialize + DeserializeOwned>(
    tx: &mut Tx<'_>,
    key: Option<&(String, String)>,
    now: Timestamp,
    change: impl FnOnce(&mut Tx<'_>) -> Result<T>,
) -> Result<(T, Execution)> {
    let Some((key, fingerprint)) = key else { return Ok((change(tx)?, Execution::Fresh)) };
    let unreadable = |error: serde_json::Error| StoreError::BadRow(format!("a stored result: {error}"));
    if let Some(earlier) = recall(tx.connection, key, fingerprint)? {
        return Ok((serde_json::from_str(&earlier).map_err(unreadable)?, Execution::Replayed));
    }
    let result = change(tx)?;
    remember(tx, key, fingerprint, &serde_json::to_string(&result).map_err(unreadable)?, now)?;
    Ok((result, Execution::Fresh))
}

/// Stores a result for repeated requests, replacing an earlier one. If an ownership was granted
/// again, only the last grant counts.
pub(crate) fn remember(
    tx: &Tx<'_>,
    key: &str,
    fingerprint: &str,
    response: &str,
    now: Timestamp,
) -> Result<()> {
    tx.execute(
        "INSERT INTO requests (key, fingerprint, response, created_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (key) DO UPDATE SET response = excluded.response",
        params![key, fingerprint, response, now.0],
    )?;
    Ok(())
}

/// Returns the stored result of an earlier request with this key.
///
/// # Errors
/// `IDEMPOTENCY_CONFLICT` if the key belongs to a different request.
pub(crate) fn recall(connection: &Connection, key: &str, fingerprint: &str) -> Result<Option<String>> {
    let found: Option<(String, String)> = rows::optional(
        connection,
        "SELECT fingerprint, response FROM requests WHERE key = ?1",
        [key],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    match found {
        _ if subagent_failpoint::sabotaged("requests.forget") => Ok(None),
        None => Ok(None),
        Some((stored, response)) if stored == fingerprint => Ok(Some(response)),
        Some(_) => Err(used_for_another(key)),
    }
}

/// The error for a key that belongs to a different request.
pub(crate) fn used_for_another(key: &str) -> Error {
    Error::new(
        Code::IdempotencyConflict,
        "this key was used for another request; use a new key for a new request",
    )
    .with("key", key)
}
