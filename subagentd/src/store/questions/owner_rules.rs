//! Standing rules that owners' decisions created. A rule lives until it or its worker is removed.

use rusqlite::{Connection, Row, params};
use subagent_core::model::NewRule;
use subagent_protocol::Result;
use subagent_protocol::api::{OwnerRule, RuleScope};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::policy::PolicyRule;
use subagent_protocol::time::Timestamp;

use crate::store::controllers::ControllerRow;
use crate::store::rows::{self, RowId};
use crate::store::tx::Tx;

const COLUMNS: &str = "r.rule_id, r.rule, r.action, c.controller_id, w.worker_id, r.request_id, r.created_at";
const TABLES: &str =
    "owner_rules r JOIN controllers c ON c.id = r.controller LEFT JOIN workers w ON w.id = r.worker";

fn read(row: &Row<'_>) -> rusqlite::Result<OwnerRule> {
    let worker: Option<String> = row.get(4)?;
    Ok(OwnerRule {
        rule_id: rows::parsed(row, 0)?,
        rule: PolicyRule { rule: row.get(1)?, action: row.get(2)?, line: None, column: None },
        scope: if worker.is_some() { RuleScope::Worker } else { RuleScope::Controller },
        controller_id: rows::parsed(row, 3)?,
        worker_id: worker.and_then(|id| id.parse().ok()),
        request_id: rows::parsed(row, 5)?,
        created_at: Timestamp(row.get(6)?),
    })
}

pub(super) fn insert(tx: &Tx<'_>, worker: RowId, rule: &NewRule) -> Result<()> {
    tx.execute(
        "INSERT INTO owner_rules (rule_id, controller, worker, rule, action, request_id, created_at)
         SELECT ?2, w.controller, CASE WHEN ?6 THEN NULL ELSE w.id END, ?3, ?4, ?5, ?7
         FROM workers w WHERE w.id = ?1",
        params![
            worker.0,
            rule.rule_id.as_str(),
            rule.rule,
            rule.action,
            rule.request_id.as_str(),
            rule.for_controller,
            rule.created_at.0,
        ],
    )?;
    Ok(())
}

/// Removes a rule. Returns whether it existed.
pub(crate) fn delete(tx: &Tx<'_>, rule_id: &str) -> Result<bool> {
    Ok(tx.execute("DELETE FROM owner_rules WHERE rule_id = ?1", [rule_id])? == 1)
}

/// The standing rules of a worker and its ancestors, each in order of creation.
#[derive(Debug, Clone, Default)]
pub(crate) struct RulesOfChain {
    /// Rules of each ancestor, from the root to the parent.
    pub(crate) above: Vec<Vec<OwnerRule>>,
    /// Rules of the worker itself.
    pub(crate) own: Vec<OwnerRule>,
}

impl RulesOfChain {
    /// Whether there is at least one rule.
    pub(crate) fn any(&self) -> bool {
        !self.own.is_empty() || self.above.iter().any(|rules| !rules.is_empty())
    }
}

/// Returns the standing rules of a worker and of the ancestors `above`. Controller-wide rules
/// belong to each of them. Rules of removed workers are gone.
pub(crate) fn of_chain<'a>(
    connection: &Connection,
    worker: RowId,
    above: impl Iterator<Item = &'a WorkerId>,
) -> Result<RulesOfChain> {
    let own = of_worker(connection, worker)?;
    let above = above.map(|ancestor| of_ancestor(connection, worker, ancestor)).collect::<Result<_>>()?;
    Ok(RulesOfChain { above, own })
}

fn of_ancestor(connection: &Connection, worker: RowId, ancestor: &WorkerId) -> Result<Vec<OwnerRule>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {TABLES} WHERE r.worker = (SELECT id FROM workers WHERE worker_id = ?2)
           OR (r.worker IS NULL AND r.controller = (SELECT controller FROM workers WHERE id = ?1)) ORDER BY r.id"
    );
    rows::all(connection, &sql, params![worker.0, ancestor.as_str()], read)
}

/// Returns the rules that apply to a worker, in order of creation.
pub(crate) fn of_worker(connection: &Connection, worker: RowId) -> Result<Vec<OwnerRule>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {TABLES} WHERE (r.worker = ?1 OR r.worker IS NULL)
           AND r.controller = (SELECT controller FROM workers WHERE id = ?1) ORDER BY r.id"
    );
    rows::all(connection, &sql, [worker.0], read)
}

/// Returns all rules in order of creation.
pub(crate) fn all(connection: &Connection) -> Result<Vec<OwnerRule>> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE w.removed_at IS NULL ORDER BY r.id");
    rows::all(connection, &sql, [], read)
}

/// Returns a rule, and the controller whose owner may remove it.
pub(crate) fn get(connection: &Connection, rule_id: &str) -> Result<Option<(OwnerRule, ControllerRow)>> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE r.rule_id = ?1 AND w.removed_at IS NULL");
    let found = rows::optional(connection, &sql, [rule_id], read)?;
    let Some(rule) = found else { return Ok(None) };
    let controller = crate::store::controllers::by_id(connection, rule.controller_id.as_str())?;
    Ok(controller.map(|controller| (rule, controller)))
}

/// Returns the workspace key of a worker's controller.
pub(crate) fn workspace_of(connection: &Connection, worker: RowId) -> Result<String> {
    let sql =
        "SELECT workspace_key FROM controllers WHERE id = (SELECT controller FROM workers WHERE id = ?1)";
    rows::one(connection, sql, [worker.0], |row| row.get(0))
}
