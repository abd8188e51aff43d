//! Rows of queued messages.
//! It must not decide which message is next: the rules do, and their decision is stored in the
//! transaction of its cause.

use std::collections::VecDeque;

use rusqlite::{Connection, params};
use serde_json::{Value, json};
use subagent_core::model::{Fact, Queued};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::TurnId;
use subagent_protocol::state::Carrier;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use crate::store::error::StoreError;
use crate::store::rows::{self, NewEvent, RowId};
use crate::store::turns;
use crate::store::tx::{Tx, signed};

/// Stores a fact about the queue. Returns the added events.
pub(in crate::store) fn store_fact(
    tx: &mut Tx<'_>,
    id: RowId,
    fact: &Fact,
    now: Timestamp,
) -> Result<Vec<(EventType, i64)>> {
    match fact {
        Fact::TurnQueued { queued, first } => insert(tx, id, queued, *first, now)?,
        Fact::TurnUnqueued { id: turn_id } => delete(tx, id, turn_id)?,
        Fact::QueueOrdered { turns } => {
            for (place, turn_id) in turns.iter().enumerate() {
                tx.execute(
                    "UPDATE queued_turns SET place = ?3 WHERE worker = ?1 AND turn_id = ?2",
                    params![id.0, turn_id.as_str(), i64::try_from(place).unwrap_or(i64::MAX)],
                )?;
            }
        }
        Fact::QueuedAppended { id: turn_id, text } => append(tx, id, turn_id, text)?,
        Fact::QueuedTurnOpened { no, id: turn_id } => return open(tx, id, *no, turn_id, now),
        _ => {}
    }
    Ok(Vec::new())
}

fn insert(tx: &Tx<'_>, id: RowId, queued: &Queued, first: bool, now: Timestamp) -> Result<()> {
    let input =
        serde_json::to_string(&queued.input).map_err(|error| StoreError::BadRow(error.to_string()))?;
    tx.execute(
        "INSERT INTO queued_turns (worker, turn_id, place, input, message, sender, created_at)
         VALUES (?1, ?2, (SELECT CASE WHEN ?3 THEN coalesce(min(place), 1) - 1 ELSE coalesce(max(place), 0) + 1 END
                            FROM queued_turns WHERE worker = ?1), ?4, ?5,
                 (SELECT o.instance_id FROM owners o JOIN workers w ON w.controller = o.controller
                   WHERE w.id = ?1 AND o.epoch = ?6), ?7)",
        params![
            id.0,
            queued.turn_id.as_str(),
            first,
            input,
            queued.message.to_string(),
            queued.sender,
            now.0,
        ],
    )?;
    Ok(())
}

/// Appends to both stored forms of a message: the input and the data of `message.sent`.
fn append(tx: &Tx<'_>, id: RowId, turn_id: &TurnId, text: &str) -> Result<()> {
    let sql = "UPDATE queued_turns SET
                 input = json_set(input, '$.text', coalesce(input ->> '$.text', '') || char(10, 10) || ?3),
                 message = json_set(message, '$.text', coalesce(message ->> '$.text', '') || char(10, 10) || ?3)
               WHERE worker = ?1 AND turn_id = ?2";
    if tx.execute(sql, params![id.0, turn_id.as_str(), text])? != 1 {
        return Err(Error::new(Code::Internal, format!("{turn_id} is not queued and cannot be extended")));
    }
    Ok(())
}

/// Checks that a queued message still fits into a prompt of `most` bytes, including all
/// appended text.
///
/// # Errors
/// `PAYLOAD_TOO_LARGE{limitBytes,bytes}`, `STORAGE_ERROR`.
pub(crate) fn fits(tx: &Tx<'_>, turn_id: &TurnId, most: usize) -> Result<()> {
    let sql = "SELECT octet_length(message) FROM queued_turns WHERE turn_id = ?1";
    let bytes: i64 = rows::one(tx.connection, sql, [turn_id.as_str()], |row| row.get(0))?;
    if usize::try_from(bytes).is_ok_and(|bytes| bytes <= most) {
        return Ok(());
    }
    let message = format!("the queued message would have {bytes} bytes; at most {most} can be sent");
    Err(Error::new(Code::PayloadTooLarge, message).with("limitBytes", most).with("bytes", bytes))
}

fn delete(tx: &Tx<'_>, id: RowId, turn_id: &TurnId) -> Result<()> {
    let sql = "DELETE FROM queued_turns WHERE worker = ?1 AND turn_id = ?2";
    if tx.execute(sql, params![id.0, turn_id.as_str()])? != 1 {
        return Err(Error::new(Code::Internal, format!("{turn_id} is not queued and cannot be unqueued")));
    }
    Ok(())
}

/// Stores the agent definition that comes with a message: in the queue, or for
/// [`take_agent`] if this transaction opened the turn.
pub(crate) fn store_agent(tx: &mut Tx<'_>, id: RowId, turn_id: &TurnId, agent: String) -> Result<()> {
    let sql = "UPDATE queued_turns SET agent = ?3 WHERE worker = ?1 AND turn_id = ?2";
    if tx.execute(sql, params![id.0, turn_id.as_str(), agent])? == 0 {
        tx.agent = Some(agent);
    }
    Ok(())
}

/// Returns the agent definition of the turn that this transaction opened.
pub(crate) fn take_agent(tx: &mut Tx<'_>) -> Option<String> {
    tx.agent.take()
}

/// Moves a message from the queue to the open turn. It is never both, and never neither.
fn open(
    tx: &mut Tx<'_>,
    id: RowId,
    no: u64,
    turn_id: &TurnId,
    now: Timestamp,
) -> Result<Vec<(EventType, i64)>> {
    subagent_failpoint::hit("queue_open.before_commit");
    let sql = "SELECT input, message, agent FROM queued_turns WHERE worker = ?1 AND turn_id = ?2";
    let (input, message, agent): (String, String, Option<String>) =
        rows::one(tx.connection, sql, params![id.0, turn_id.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    tx.agent = agent;
    if !subagent_failpoint::sabotaged("queue.keep") {
        delete(tx, id, turn_id)?;
    }
    turns::open(tx, id, no, turn_id, Carrier::Runtime)?;
    let input: Value = serde_json::from_str(&input)
        .map_err(|error| StoreError::BadRow(format!("the input of {turn_id}: {error}")))?;
    let started = json!({"turnId": turn_id, "input": input}).to_string();
    let mut added = Vec::with_capacity(2);
    for (event_type, payload) in [(EventType::TurnStarted, &started), (EventType::MessageSent, &message)] {
        let event =
            NewEvent { number: None, turn: Some(no), at: now, event_type, kind: None, record: None, payload };
        added.push((event_type, tx.insert_event(id, &event)?));
    }
    let message_seq = added.last().map(|(_, seq)| *seq);
    tx.execute(
        "UPDATE turns SET message_seq = ?3 WHERE worker = ?1 AND no = ?2",
        params![id.0, signed(no), message_seq],
    )?;
    Ok(added)
}

/// Returns the queued turns of a worker, in order.
pub(in crate::store) fn ids(connection: &Connection, worker: RowId) -> Result<VecDeque<TurnId>> {
    let sql = "SELECT turn_id FROM queued_turns WHERE worker = ?1 ORDER BY place, id";
    rows::all(connection, sql, [worker.0], |row| rows::parsed(row, 0))
}

/// A message in a worker's queue.
#[derive(Debug, Clone)]
pub(crate) struct QueuedRow {
    pub(crate) turn_id: TurnId,
    /// Data of its `message.sent` event.
    pub(crate) message: String,
    /// The sending owner's instance, if the sender used a handle.
    pub(crate) sender: Option<String>,
    pub(crate) created_at: Timestamp,
}

/// Passes the queued messages of a worker to `see`, in order, one at a time: messages may be large.
pub(crate) fn queued(connection: &Connection, worker: RowId, see: &mut dyn FnMut(QueuedRow)) -> Result<()> {
    let sql =
        "SELECT turn_id, message, created_at, sender FROM queued_turns WHERE worker = ?1 ORDER BY place, id";
    rows::each(connection, sql, [worker.0], |row| {
        see(read(row)?);
        Ok(())
    })
}

pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<QueuedRow> {
    Ok(QueuedRow {
        turn_id: rows::parsed(row, 0)?,
        message: row.get(1)?,
        created_at: Timestamp(row.get(2)?),
        sender: row.get(3)?,
    })
}
