//! Reads who decided a permission request.

use rusqlite::{Connection, params};
use serde_json::Value;
use subagent_protocol::Result;

use crate::store::{RowId, rows};

/// Whether a rule or a hook decided this request, without asking the owner.
pub(crate) fn by_rule(connection: &Connection, worker: RowId, request_id: &str) -> Result<bool> {
    let decided = decided(connection, worker, request_id)?;
    Ok(decided.is_some_and(|decided| decided["policy"].is_object() || decided["hook"].is_object()))
}

/// Returns the text of the rule that decided this request.
pub(crate) fn rule(connection: &Connection, worker: RowId, request_id: &str) -> Result<Option<String>> {
    let policy = policy(connection, worker, request_id)?;
    Ok(policy.and_then(|policy| policy["rule"].as_str().map(str::to_owned)))
}

fn policy(connection: &Connection, worker: RowId, request_id: &str) -> Result<Option<Value>> {
    let decided = decided(connection, worker, request_id)?;
    Ok(decided.map(|mut decided| decided["policy"].take()).filter(Value::is_object))
}

/// Returns the data of the deciding event.
fn decided(connection: &Connection, worker: RowId, request_id: &str) -> Result<Option<Value>> {
    let sql = "SELECT e.payload FROM approvals a JOIN events e ON e.seq = a.decided_seq
               WHERE a.request_id = ?2 AND a.worker = ?1";
    let decided: Option<String> =
        rows::optional(connection, sql, params![worker.0, request_id], |row| row.get(0))?;
    Ok(decided.and_then(|payload| serde_json::from_str(&payload).ok()))
}
