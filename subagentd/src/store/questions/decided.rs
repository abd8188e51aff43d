//! Reads who decided a permission request.

use rusqlite::{Connection, params};
use serde::Deserialize;
use serde_json::{Map, Value};
use subagent_protocol::Result;
use subagent_protocol::lenient::{self, Lenient};

use crate::store::{RowId, rows};

/// Whether a rule or a hook decided this request, without asking the owner.
pub(crate) fn by_rule(connection: &Connection, worker: RowId, request_id: &str) -> Result<bool> {
    let decided = decided(connection, worker, request_id)?;
    Ok(decided.policy.0.is_some() || decided.hook.0.is_some())
}

/// Returns the text of the rule that decided this request.
pub(crate) fn rule(connection: &Connection, worker: RowId, request_id: &str) -> Result<Option<String>> {
    let policy = decided(connection, worker, request_id)?.policy.0;
    Ok(policy.and_then(|policy| lenient::take::<DecidingPolicy>(policy.into()).rule.0))
}

/// The data of the deciding event, as far as it says who decided.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DecidedData {
    /// The rule that decided.
    pub(super) policy: Lenient<Map<String, Value>>,
    hook: Lenient<Map<String, Value>>,
    pub(super) by: Lenient<String>,
    pub(super) decision: Lenient<String>,
    pub(super) action: Lenient<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DecidingPolicy {
    rule: Lenient<String>,
}

/// Returns the data of the deciding event.
fn decided(connection: &Connection, worker: RowId, request_id: &str) -> Result<DecidedData> {
    let sql = "SELECT e.payload FROM approvals a JOIN events e ON e.seq = a.decided_seq
               WHERE a.request_id = ?2 AND a.worker = ?1";
    let decided: Option<String> =
        rows::optional(connection, sql, params![worker.0, request_id], |row| row.get(0))?;
    let decided = decided.and_then(|payload| serde_json::from_str(&payload).ok());
    Ok(decided.map(lenient::take).unwrap_or_default())
}
