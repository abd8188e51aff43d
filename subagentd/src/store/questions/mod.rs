//! Stores the answer to an elicitation from the moment it is given until the question ends. It
//! survives crashes, and is then overwritten, because it may be a secret.

pub(crate) mod below;
pub(crate) mod decided;
pub(super) mod held;
pub(crate) mod inbox;
pub(crate) mod owner_rules;

use rusqlite::{Connection, OptionalExtension, params};
use subagent_protocol::Result;
use subagent_protocol::ids::RequestId;
use subagent_protocol::secret::Secret;
use subagent_protocol::state::ApprovalStatus;

use super::error::StoreError;
use super::rows;
use super::tx::Tx;

/// Stores the final status of a question and erases its answer.
pub(super) fn close(tx: &mut Tx<'_>, request_id: &RequestId, status: ApprovalStatus) -> Result<()> {
    let connection = tx.connection;
    // `secure_delete` makes SQLite overwrite freed bytes. It is too costly to be always on.
    let secure = |on: bool| connection.pragma_update(None, "secure_delete", on).map_err(StoreError::from);
    let kept: bool = tx
        .connection
        .prepare_cached("SELECT content IS NOT NULL FROM approvals WHERE request_id = ?1")
        .and_then(|mut statement| statement.query_row([request_id.as_str()], |row| row.get(0)).optional())
        .map_err(StoreError::from)?
        .unwrap_or(false);
    if kept {
        secure(true)?;
    }
    let closed = tx.execute(
        "UPDATE approvals SET status = ?2, content = CASE WHEN ?3 THEN content END WHERE request_id = ?1",
        params![
            request_id.as_str(),
            status.as_str(),
            subagent_failpoint::sabotaged("elicitation.keep_content")
        ],
    );
    if kept {
        secure(false)?;
        tx.forgets = true;
    }
    closed.map(drop)
}

/// Returns the answer that is being delivered: `None` if the question is over, `Some(None)` if the
/// answer has no content.
pub(crate) fn content(
    connection: &Connection,
    request_id: &RequestId,
) -> Result<Option<Option<Secret<String>>>> {
    let sql = "SELECT content FROM approvals WHERE request_id = ?1 AND status = 'decided'";
    rows::optional(connection, sql, [request_id.as_str()], |row| {
        Ok(row.get::<_, Option<String>>(0)?.map(Secret))
    })
}
