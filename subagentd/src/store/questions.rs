//! What was filled in for an elicitation: kept from the answer until the question is over, whatever dies in between, and
//! then overwritten, because it may be a secret.

use rusqlite::{Connection, OptionalExtension, params};
use subagent_protocol::Result;
use subagent_protocol::ids::RequestId;
use subagent_protocol::secret::Secret;
use subagent_protocol::state::ApprovalStatus;

use super::error::StoreError;
use super::rows;
use super::tx::Tx;

impl Tx<'_> {
    /// Writes how a question ended, and forgets what was answered.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub(super) fn close_question(&mut self, request_id: &RequestId, status: ApprovalStatus) -> Result<()> {
        let connection = self.connection;
        // Only then SQLite overwrites what it frees, which elsewhere would cost more than it is worth.
        let secure = |on: bool| connection.pragma_update(None, "secure_delete", on).map_err(StoreError::from);
        let kept: bool = self
            .connection
            .prepare_cached("SELECT content IS NOT NULL FROM approvals WHERE request_id = ?1")
            .and_then(|mut statement| statement.query_row([request_id.as_str()], |row| row.get(0)).optional())
            .map_err(StoreError::from)?
            .unwrap_or(false);
        if kept {
            secure(true)?;
        }
        let closed = self.execute(
            "UPDATE approvals SET status = ?2, content = CASE WHEN ?3 THEN content END WHERE request_id = ?1",
            params![
                request_id.as_str(),
                status.as_str(),
                subagent_failpoint::sabotaged("elicitation.keep_content")
            ],
        );
        if kept {
            secure(false)?;
            self.forgets = true;
        }
        closed.map(drop)
    }
}

/// What was filled in for a question whose answer is under way: `None` if it is over, `Some(None)` if nothing was.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn content(
    connection: &Connection,
    request_id: &RequestId,
) -> Result<Option<Option<Secret<String>>>> {
    let sql = "SELECT content FROM approvals WHERE request_id = ?1 AND status = 'decided'";
    let found = rows::one(connection, sql, [request_id.as_str()], |row| {
        Ok(row.get::<_, Option<String>>(0)?.map(Secret))
    })
    .optional();
    Ok(found.map_err(StoreError::from)?)
}
