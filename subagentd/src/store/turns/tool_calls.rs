//! Tool calls of a turn: its end closes open ones, and a new daemon loads them into its rules.
//! `protocol` defines when a call is open.

use rusqlite::{Connection, params};
use subagent_protocol::Result;
use subagent_protocol::event::EventType;
use subagent_protocol::record::RecordType;
use subagent_protocol::time::Timestamp;
use subagent_protocol::tool_calls::{CLOSING, TurnToolCalls};

use crate::store::error::StoreError;
use crate::store::events::words;
use crate::store::rows::{self, NewEvent, RowId};
use crate::store::tx::{Tx, signed};

/// Limits on what is read of one turn: this runs on the writer thread.
const MAX_RECORDS: i64 = 20_000;
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Adds a closing event for each tool call that is open in this turn, which is about to end.
pub(in crate::store) fn close_open(tx: &mut Tx<'_>, id: RowId, turn: u64, now: Timestamp) -> Result<()> {
    for data in closings(tx, id, turn)? {
        tx.insert_event(
            id,
            &NewEvent {
                number: None,
                turn: Some(turn),
                at: now,
                event_type: EventType::ProgressUpdate,
                kind: Some(CLOSING),
                record: None,
                payload: &data,
            },
        )?;
    }
    Ok(())
}

fn closings(tx: &Tx<'_>, id: RowId, turn: u64) -> Result<Vec<String>> {
    let mut calls = TurnToolCalls::default();
    for_each_report(tx.connection, id, turn, |record, body| calls.see(record, body))?;
    Ok(calls.closings().iter().map(ToString::to_string).collect())
}

/// Passes the agent's reports about its calls in this turn to `see`: permission requests first,
/// then all others in order.
pub(crate) fn for_each_report(
    connection: &Connection,
    id: RowId,
    turn: u64,
    mut see: impl FnMut(RecordType, &str),
) -> Result<()> {
    let asked = "SELECT e.record, e.payload FROM turns t JOIN approvals a ON a.turn = t.id JOIN events e ON e.seq = a.asked_seq
                 WHERE t.worker = ?1 AND t.no = ?2 AND a.worker = ?1 AND e.record IS NOT NULL ORDER BY e.seq LIMIT ?3";
    let updates =
        "SELECT e.record, e.payload FROM turns t JOIN events e INDEXED BY tool_calls ON e.turn = t.id
                   WHERE t.worker = ?1 AND t.no = ?2 AND e.kind IN ('tool_call', 'tool_call_update')
                     AND e.record IS NOT NULL ORDER BY e.seq LIMIT ?3";
    let mut bytes = 0;
    for sql in [asked, updates] {
        let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
        let mut found =
            statement.query(params![id.0, signed(turn), MAX_RECORDS]).map_err(StoreError::from)?;
        while let Some(row) = found.next().map_err(StoreError::from)? {
            let record = rows::word(row, 0, words::record).map_err(StoreError::from)?;
            let body = row.get_ref(1).map_err(StoreError::from)?.as_str().unwrap_or_default();
            bytes += body.len();
            if bytes > MAX_BYTES {
                break;
            }
            see(record, body);
        }
    }
    Ok(())
}
