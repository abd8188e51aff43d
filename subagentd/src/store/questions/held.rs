//! Permission requests held back until their hooks have answered.

use rusqlite::params;
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::RequestId;
use subagent_protocol::record::RecordType;
use subagent_protocol::time::Timestamp;

use crate::store::rows::{self, NewEvent, RowId};
use crate::store::tx::Tx;

/// Publishes a held request. Adds its `approval.requested` event, starts its deadline, and
/// returns the sequence number.
pub(in crate::store) fn release(
    tx: &mut Tx<'_>,
    worker: RowId,
    request_id: &RequestId,
    now: Timestamp,
) -> Result<i64> {
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
