//! Trusted file contents (by SHA-256) whose hooks may run.

use rusqlite::{Connection, Row, params};
use subagent_protocol::Result;
use subagent_protocol::api::TrustedHooks;
use subagent_protocol::time::Timestamp;

use super::rows;
use super::tx::Tx;

/// Number of trusted contents kept per file; a new one replaces the oldest.
const MAX_CONTENTS: u32 = 20;

fn read(row: &Row<'_>) -> rusqlite::Result<TrustedHooks> {
    let file: String = row.get(0)?;
    Ok(TrustedHooks { file: file.into(), sha256: row.get(1)?, trusted_at: Timestamp(row.get(2)?) })
}

/// Trusts one content of a file.
pub(crate) fn trust(tx: &Tx<'_>, file: &str, sha256: &str, now: Timestamp) -> Result<()> {
    tx.execute(
        "INSERT INTO hook_trust (file, sha256, trusted_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (file, sha256) DO UPDATE SET trusted_at = excluded.trusted_at",
        params![file, sha256, now.0],
    )?;
    tx.execute(
        "DELETE FROM hook_trust WHERE file = ?1 AND sha256 NOT IN
         (SELECT sha256 FROM hook_trust WHERE file = ?1 ORDER BY trusted_at DESC, sha256 LIMIT ?2)",
        params![file, MAX_CONTENTS],
    )?;
    Ok(())
}

/// Revokes all trust in a file. Returns the number of revoked contents.
pub(crate) fn distrust(tx: &Tx<'_>, file: &str) -> Result<usize> {
    tx.execute("DELETE FROM hook_trust WHERE file = ?1", [file])
}

/// Whether this content of a file is trusted.
pub(crate) fn is_trusted(connection: &Connection, file: &str, sha256: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM hook_trust WHERE file = ?1 AND sha256 = ?2)";
    rows::one(connection, sql, [file, sha256], |row| row.get(0))
}

/// Lists all trusted contents, by file and time.
pub(crate) fn all(connection: &Connection) -> Result<Vec<TrustedHooks>> {
    let sql = "SELECT file, sha256, trusted_at FROM hook_trust ORDER BY file, trusted_at, sha256";
    rows::all(connection, sql, [], read)
}
