//! The state dir that a database belongs to, and the workers that were copied into it with another
//! database.

use rusqlite::{OptionalExtension as _, params};
use sha2::{Digest as _, Sha256};
use subagent_protocol::Result;

use super::error::StoreError;
use super::{RowId, Tx, rows};

/// Hash of the id of the state dir whose daemon used this database last.
const STATE_DIR: &str = "state_dir";
/// Key of the newest copied worker.
const COPIED: &str = "copied_key";

impl Tx<'_> {
    /// Stores the state dir that this database is in. If the database is a copy of the previous
    /// state dir's, all present workers are copies from now on. Returns the key of the newest
    /// copied worker, 0 for none.
    pub(crate) fn belong_to(&self, state_id: &str, copy_of: Option<&str>) -> Result<RowId> {
        let (own, before) = (number(state_id), self.number_of(STATE_DIR)?);
        if before != Some(own) {
            let copied =
                copy_of.is_some_and(|original| before.is_none_or(|before| before == number(original)));
            if copied {
                let newest =
                    rows::one(self.connection, "SELECT coalesce(max(id), 0) FROM workers", [], |row| {
                        row.get(0)
                    })
                    .map_err(StoreError::from)?;
                self.note_number(COPIED, newest)?;
            }
            self.note_number(STATE_DIR, own)?;
        }
        Ok(RowId(self.number_of(COPIED)?.unwrap_or(0)))
    }

    fn number_of(&self, key: &str) -> Result<Option<i64>> {
        let sql = "SELECT value FROM meta WHERE key = ?1";
        Ok(rows::one(self.connection, sql, [key], |row| row.get(0)).optional().map_err(StoreError::from)?)
    }

    fn note_number(&self, key: &str, value: i64) -> Result<()> {
        self.execute("INSERT OR REPLACE INTO meta VALUES (?1, ?2)", params![key, value]).map(drop)
    }
}

/// Hashes an id to a number, for a table of numbers.
fn number(id: &str) -> i64 {
    let digest = Sha256::digest(id.as_bytes());
    digest.iter().take(8).fold(0, |number, byte| (number << 8) | i64::from(*byte))
}
