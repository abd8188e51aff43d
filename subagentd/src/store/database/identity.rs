//! The state dir that a database belongs to, the generation of its daemon, and the workers that were
//! copied into it with another database.

use rusqlite::params;
use sha2::{Digest as _, Sha256};
use subagent_protocol::Result;

use crate::store::tx::signed;
use crate::store::{RowId, Tx, rows};

/// Hash of the id of the state dir whose daemon used this database last.
const STATE_DIR: &str = "state_dir";
/// Key of the newest copied worker.
const COPIED: &str = "copied_key";

/// Stores the state dir that this database is in. If the database is a copy of the previous
/// state dir's, all present workers are copies from now on. Returns the key of the newest
/// copied worker, 0 for none.
pub(crate) fn belong_to(tx: &Tx<'_>, state_id: &str, copy_of: Option<&str>) -> Result<RowId> {
    let (own, before) = (number(state_id), number_of(tx, STATE_DIR)?);
    if before != Some(own) {
        let copied = copy_of.is_some_and(|original| before.is_none_or(|before| before == number(original)));
        if copied {
            let newest =
                rows::one(tx.connection, "SELECT coalesce(max(id), 0) FROM workers", [], |row| row.get(0))?;
            note_number(tx, COPIED, newest)?;
        }
        note_number(tx, STATE_DIR, own)?;
    }
    Ok(RowId(number_of(tx, COPIED)?.unwrap_or(0)))
}

/// Raises the daemon's generation to a value greater than `above` and the stored one, and returns
/// it.
pub(crate) fn raise_generation(tx: &Tx<'_>, above: u64) -> Result<u64> {
    // The column holds only integers, and a sum beyond the largest one would be none.
    let sql = "UPDATE meta SET value = min(max(value, ?1), ?2) + 1 WHERE key = 'generation'";
    tx.execute(sql, [signed(above), i64::MAX - 1])?;
    let generation: i64 =
        rows::one(tx.connection, "SELECT value FROM meta WHERE key = 'generation'", [], |row| row.get(0))?;
    Ok(generation.unsigned_abs())
}

/// Makes the generation of the next daemon higher than this one.
pub(crate) fn remember_generation(tx: &Tx<'_>, other: u64) -> Result<()> {
    let sql = "UPDATE meta SET value = ?1 WHERE key = 'generation' AND value < ?1";
    tx.execute(sql, [signed(other)]).map(drop)
}

fn number_of(tx: &Tx<'_>, key: &str) -> Result<Option<i64>> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    rows::optional(tx.connection, sql, [key], |row| row.get(0))
}

fn note_number(tx: &Tx<'_>, key: &str, value: i64) -> Result<()> {
    tx.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", params![key, value]).map(drop)
}

/// Hashes an id to a number, for a table of numbers.
fn number(id: &str) -> i64 {
    let digest = Sha256::digest(id.as_bytes());
    digest.iter().take(8).fold(0, |number, byte| (number << 8) | i64::from(*byte))
}
