//! Questions of agents: permission requests and elicitations, all in the table `approvals`.

pub(crate) mod below;
pub(crate) mod decided;
pub(crate) mod inbox;
pub(crate) mod owner_rules;

use rusqlite::{Connection, OptionalExtension, params};
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::record::RecordType;
use subagent_protocol::secret::Secret;
use subagent_protocol::state::{ApprovalStatus, Carrier, QuestionKind};
use subagent_protocol::time::Timestamp;

use super::error::StoreError;
use super::rows::{self, NewEvent, RowId};
use super::tx::{Tx, signed};

/// Inserts a question that its agent has asked in the event `asked_seq`.
pub(super) fn open(
    tx: &Tx<'_>,
    worker: RowId,
    request_id: &RequestId,
    kind: QuestionKind,
    turn: Option<u64>,
    asked_seq: Option<i64>,
) -> Result<()> {
    tx.execute(
        "INSERT INTO approvals (request_id, worker, turn, status, asked_seq, kind, deadline_at)
         VALUES (?1, ?2, (SELECT id FROM turns WHERE worker = ?2 AND no = ?3), 'pending', ?4, ?5,
                 (SELECT e.at + json_extract(w.spec, '$.answerTime.timeoutMs')
                  FROM events e, workers w WHERE e.seq = ?4 AND w.id = ?2))",
        params![request_id.as_str(), worker.0, turn.map(signed), asked_seq.unwrap_or(0), kind.as_str()],
    )?;
    Ok(())
}

/// Holds a permission request back until its hooks have answered.
pub(super) fn hold(tx: &Tx<'_>, request_id: &RequestId) -> Result<()> {
    tx.execute("UPDATE approvals SET held = 1 WHERE request_id = ?1", [request_id.as_str()])?;
    Ok(())
}

/// Publishes a held request. Adds its `approval.requested` event, starts its deadline, and
/// returns the sequence number.
pub(super) fn release(tx: &mut Tx<'_>, worker: RowId, request_id: &RequestId, now: Timestamp) -> Result<i64> {
    let sql = "SELECT e.payload, t.no FROM approvals a JOIN events e ON e.seq = a.asked_seq
               LEFT JOIN turns t ON t.id = e.turn WHERE a.request_id = ?1";
    let (payload, turn): (String, Option<i64>) =
        rows::one(tx.connection, sql, [request_id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let seq = tx.insert_event(
        worker,
        &NewEvent {
            number: None,
            turn: turn.map(i64::unsigned_abs),
            at: now,
            event_type: EventType::ApprovalRequested,
            kind: None,
            record: Some(RecordType::ApprovalRequested),
            payload: &payload,
        },
    )?;
    tx.execute(
        "UPDATE approvals SET held = 0, asked_seq = ?2,
                deadline_at = (SELECT ?3 + json_extract(w.spec, '$.answerTime.timeoutMs') FROM workers w
                               WHERE w.id = approvals.worker) WHERE request_id = ?1",
        params![request_id.as_str(), seq, now.0],
    )?;
    Ok(seq)
}

/// Stores a decision, which is in the event `decided_seq`. An answer with content is kept until the
/// question ends. It survives crashes, and is then overwritten, because it may be a secret.
pub(super) fn decide(
    tx: &Tx<'_>,
    request_id: &RequestId,
    option_id: Option<&str>,
    content: Option<&String>,
    by_cancel: bool,
    decided_seq: Option<i64>,
) -> Result<()> {
    tx.execute(
        "UPDATE approvals SET status = 'decided', option_id = ?2, by_cancel = ?3, decided_seq = ?4,
                content = ?5 WHERE request_id = ?1",
        params![request_id.as_str(), option_id, by_cancel, decided_seq, content],
    )?;
    Ok(())
}

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

/// A question as stored.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalRow {
    pub(crate) request_id: RequestId,
    pub(crate) kind: QuestionKind,
    pub(crate) turn_id: Option<TurnId>,
    pub(crate) status: ApprovalStatus,
    pub(crate) asked_at: Timestamp,
    /// Executor of the asking turn: the runtime, or the daemon itself.
    pub(crate) carrier: Carrier,
    /// Body of the record `approvalRequested` or `elicitationRequested`, or data of the daemon's
    /// event.
    pub(crate) asked: String,
}

/// Returns one question of a worker (`request_id`), or all pending ones, oldest first.
pub(crate) fn list(
    connection: &Connection,
    worker: RowId,
    request_id: Option<&str>,
) -> Result<Vec<ApprovalRow>> {
    // Each condition has an index: that of the id, or the partial index of open questions.
    let which = match request_id {
        Some(_) => "a.request_id = ?2",
        None => "a.status IN ('pending', 'decided') AND a.status = 'pending' AND a.held = 0 AND ?2 IS NULL",
    };
    let sql = format!(
        "SELECT a.request_id, t.turn_id, a.status, e.at, e.payload, e.record IS NULL, a.kind
         FROM approvals a JOIN events e ON e.seq = a.asked_seq LEFT JOIN turns t ON t.id = a.turn
         WHERE a.worker = ?1 AND {which} ORDER BY a.id"
    );
    rows::all(connection, &sql, params![worker.0, request_id], |row| {
        let turn_id: Option<String> = row.get(1)?;
        Ok(ApprovalRow {
            request_id: rows::parsed(row, 0)?,
            turn_id: turn_id.and_then(|id| id.parse().ok()),
            status: rows::word(row, 2, ApprovalStatus::parse)?,
            asked_at: Timestamp(row.get(3)?),
            asked: row.get(4)?,
            kind: rows::word(row, 6, QuestionKind::parse)?,
            carrier: if row.get(5)? { Carrier::Local } else { Carrier::Runtime },
        })
    })
}
