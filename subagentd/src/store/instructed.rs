//! Whether a worker's session holds the prompt of its definition.

use rusqlite::{Connection, params};
use subagent_protocol::Result;

use super::error::StoreError;
use super::rows::RowId;
use super::tx::Tx;

impl Tx<'_> {
    /// Writes that the session holds it, or that there is another session.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub fn update_instructed(&self, id: RowId, instructed: bool) -> Result<()> {
        self.execute("UPDATE workers SET instructed = ?2 WHERE id = ?1", params![id.0, instructed])?;
        Ok(())
    }
}

/// Whether the session holds it.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn instructed(connection: &Connection, id: RowId) -> Result<bool> {
    let sql = "SELECT instructed FROM workers WHERE id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    Ok(statement.query_row([id.0], |row| row.get(0)).map_err(StoreError::from)?)
}
