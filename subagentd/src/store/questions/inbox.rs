//! Questions of all workers: their deciders and deadlines.

use rusqlite::{Connection, Row, params};
use serde_json::Value;
use subagent_core::model::{Fact, InboxFact};
use subagent_protocol::Result;
use subagent_protocol::api::{DecidedBy, Decider};
use subagent_protocol::ids::{ControllerId, RequestId, WorkerId};
use subagent_protocol::lenient;
use subagent_protocol::state::{ApprovalStatus, Carrier, QuestionKind};
use subagent_protocol::time::Timestamp;

use super::decided::DecidedData;
use super::{ApprovalRow, owner_rules};
use crate::store::controllers::OwnerCheck;
use crate::store::error::StoreError;
use crate::store::rows::{self, RowId};
use crate::store::tx::Tx;

/// A question with its worker.
#[derive(Debug, Clone)]
pub(crate) struct InboxRow {
    pub(crate) asked: ApprovalRow,
    pub(crate) worker: RowId,
    pub(crate) worker_id: WorkerId,
    pub(crate) name: String,
    pub(crate) label: String,
    /// For a task: names from the root of its tree to the task itself.
    pub(crate) path: Vec<String>,
    pub(crate) controller_id: ControllerId,
    pub(crate) cwd: String,
    /// The worker's spec as JSON.
    pub(crate) spec: String,
    pub(crate) deadline_at: Option<Timestamp>,
    /// The rule that caused the question.
    pub(crate) asked_by: Option<Value>,
}

const COLUMNS: &str = "a.request_id, t.turn_id, a.status, e.at, e.payload, e.record IS NULL, a.kind, \
     w.id, w.worker_id, w.label, c.controller_id, w.cwd, w.spec, a.deadline_at, a.asked_by, k.path, coalesce(w.name, w.worker_id)";
const TABLES: &str = "approvals a JOIN events e ON e.seq = a.asked_seq JOIN workers w ON w.id = a.worker \
     JOIN controllers c ON c.id = w.controller LEFT JOIN turns t ON t.id = a.turn LEFT JOIN tasks k ON k.worker = w.id";

impl InboxRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let turn_id: Option<String> = row.get(1)?;
        Ok(Self {
            asked: ApprovalRow {
                request_id: rows::parsed(row, 0)?,
                turn_id: turn_id.and_then(|id| id.parse().ok()),
                status: rows::word(row, 2, ApprovalStatus::parse)?,
                asked_at: Timestamp(row.get(3)?),
                asked: row.get(4)?,
                carrier: if row.get(5)? { Carrier::Local } else { Carrier::Runtime },
                kind: rows::word(row, 6, QuestionKind::parse)?,
            },
            worker: RowId(row.get(7)?),
            worker_id: rows::parsed(row, 8)?,
            label: row.get(9)?,
            controller_id: rows::parsed(row, 10)?,
            cwd: row.get(11)?,
            spec: row.get(12)?,
            deadline_at: row.get::<_, Option<i64>>(13)?.map(Timestamp),
            asked_by: json(row.get(14)?),
            path: path(row.get(15)?),
            name: row.get(16)?,
        })
    }
}

fn path(text: Option<String>) -> Vec<String> {
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn json(text: Option<String>) -> Option<Value> {
    text.and_then(|text| serde_json::from_str(&text).ok())
}

/// Maps the undecided questions of all workers with `each`, oldest first. Rows are large, so they
/// are passed one at a time.
pub(crate) fn open<T>(
    connection: &Connection,
    mut each: impl FnMut(InboxRow) -> Option<T>,
) -> Result<Vec<T>> {
    // The first condition repeats that of the partial index, which has few rows.
    let sql = format!(
        "SELECT {COLUMNS} FROM {TABLES}
         WHERE a.status IN ('pending', 'decided') AND a.status = 'pending' AND a.held = 0 AND w.removed_at IS NULL ORDER BY a.id"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let rows = statement.query_map([], InboxRow::read).map_err(StoreError::from)?;
    let found: rusqlite::Result<Vec<T>> = rows.filter_map(|row| row.map(&mut each).transpose()).collect();
    Ok(found.map_err(StoreError::from)?)
}

/// Returns a question in any state; `None` if unknown or if its worker was removed.
pub(crate) fn get(connection: &Connection, request_id: &str) -> Result<Option<InboxRow>> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE a.request_id = ?1 AND w.removed_at IS NULL");
    rows::optional(connection, &sql, [request_id], InboxRow::read)
}

/// Returns the question of this event; `None` if it is not open.
pub(crate) fn open_of_event(connection: &Connection, worker: RowId, seq: i64) -> Result<Option<InboxRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {TABLES} WHERE a.worker = ?1 AND a.asked_seq = ?2
           AND a.status IN ('pending', 'decided') AND a.status = 'pending' AND w.removed_at IS NULL"
    );
    rows::optional(connection, &sql, params![worker.0, seq], InboxRow::read)
}

/// Returns the decider of a question; `None` while it is undecided.
pub(crate) fn decider(connection: &Connection, request_id: &str) -> Result<Option<Decider>> {
    let sql = "SELECT e.at, e.payload, a.by_cancel, a.decided_by, c.controller_id
               FROM approvals a JOIN events e ON e.seq = a.decided_seq JOIN workers w ON w.id = a.worker
               JOIN controllers c ON c.id = w.controller WHERE a.request_id = ?1";
    rows::optional(connection, sql, [request_id], |row| {
        let decided: DecidedData = json(Some(row.get(1)?)).map(lenient::take).unwrap_or_default();
        let by_cancel: bool = row.get(2)?;
        let instance: Option<String> = row.get(3)?;
        let controller_id: ControllerId = rows::parsed(row, 4)?;
        let rule = decided.policy.0.map(Value::Object);
        // Older rows have no `by`: a named rule or a stored cancel decides.
        let by = decided.by.0.as_deref().and_then(DecidedBy::parse).unwrap_or(match (&rule, by_cancel) {
            (Some(_), _) => DecidedBy::Rule,
            (None, true) => DecidedBy::Cancel,
            (None, false) => DecidedBy::Owner,
        });
        let instance_id = instance.and_then(|instance| instance.parse().ok());
        Ok(Decider {
            by,
            controller_id: instance_id.is_some().then_some(controller_id),
            instance_id,
            at: Timestamp(row.get(0)?),
            decision: decided.decision.0.or(decided.action.0).unwrap_or_default(),
            rule,
        })
    })
}

/// Returns the deadlines of a worker's open questions, earliest first. Questions without a deadline
/// are left out.
pub(crate) fn deadlines(connection: &Connection, worker: RowId) -> Result<Vec<(RequestId, Timestamp)>> {
    let sql = "SELECT request_id, deadline_at FROM approvals
               WHERE worker = ?1 AND status IN ('pending', 'decided') AND status = 'pending' AND held = 0
                 AND deadline_at IS NOT NULL ORDER BY deadline_at, id";
    rows::all(connection, sql, [worker.0], |row| Ok((rows::parsed(row, 0)?, Timestamp(row.get(1)?))))
}

/// Stores details of a question, or a standing rule that its decision created.
pub(in crate::store) fn store(tx: &mut Tx<'_>, worker: RowId, fact: &InboxFact) -> Result<()> {
    match fact {
        InboxFact::AskedFor { request_id, rule } => {
            let sql = "UPDATE approvals SET asked_by = ?2 WHERE request_id = ?1";
            let rule = serde_json::to_string(rule).map_err(|error| StoreError::BadRow(error.to_string()))?;
            tx.execute(sql, params![request_id.as_str(), rule]).map(drop)
        }
        InboxFact::RuleAdded(rule) => owner_rules::insert(tx, worker, rule),
    }
}

/// Stores the owner instance behind the decisions among these facts. Its handle was checked
/// before.
pub(crate) fn note_decider(tx: &Tx<'_>, owner: &OwnerCheck, controller: RowId, facts: &[Fact]) -> Result<()> {
    if owner.0.is_none() {
        return Ok(());
    }
    for fact in facts {
        if let Fact::ApprovalDecided { request_id, by_cancel: false, .. } = fact {
            tx.execute(
                "UPDATE approvals SET decided_by =
                     (SELECT instance_id FROM owners WHERE controller = ?2 AND released_at IS NULL)
                 WHERE request_id = ?1",
                params![request_id.as_str(), controller.0],
            )?;
        }
    }
    Ok(())
}
