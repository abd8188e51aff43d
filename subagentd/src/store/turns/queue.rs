//! Rows of queued messages, and reads of turns.
//! It must not decide which message is next: the rules do, and their decision is stored in the
//! transaction of its cause.

use std::collections::VecDeque;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::state::{Dispatched, TurnStatus};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use crate::core::queue::Queued;
use crate::core::worker::Fact;
use crate::store::error::StoreError;
use crate::store::rows::{self, NewEvent, RowId};
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
            queued.input.to_string(),
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
    tx.execute(
        "INSERT INTO turns (worker, no, turn_id, carrier, status, dispatched)
         VALUES (?1, ?2, ?3, 'acp-stdio', 'accepted', 'no')",
        params![id.0, signed(no), turn_id.as_str()],
    )?;
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
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let mut found = statement.query([worker.0]).map_err(StoreError::from)?;
    while let Some(row) = found.next().map_err(StoreError::from)? {
        see(read_queued(row).map_err(StoreError::from)?);
    }
    Ok(())
}

fn read_queued(row: &rusqlite::Row<'_>) -> rusqlite::Result<QueuedRow> {
    Ok(QueuedRow {
        turn_id: rows::parsed(row, 0)?,
        message: row.get(1)?,
        created_at: Timestamp(row.get(2)?),
        sender: row.get(3)?,
    })
}

/// Returns the worker of a turn, queued or begun; `None` if the turn is unknown or was deleted.
pub(crate) fn worker_of(connection: &Connection, turn_id: &str) -> Result<Option<WorkerId>> {
    let sql = "SELECT w.worker_id FROM workers w WHERE w.removed_at IS NULL AND w.id IN (
                 SELECT worker FROM turns WHERE turn_id = ?1 UNION SELECT worker FROM queued_turns WHERE turn_id = ?1)";
    rows::optional(connection, sql, [turn_id], |row| rows::parsed(row, 0))
}

/// A turn that has begun.
#[derive(Debug, Clone)]
pub(crate) struct BegunTurnRow {
    /// Number of the turn within its worker.
    pub(crate) no: u64,
    pub(crate) turn_id: TurnId,
    pub(crate) status: TurnStatus,
    pub(crate) dispatched: Dispatched,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    /// Data of its `message.sent` event, while that is kept.
    pub(crate) message: Option<String>,
    /// Data of its ending event, while that is kept.
    pub(crate) end: Option<String>,
}

const BEGUN: &str =
    "SELECT t.turn_id, t.status, t.dispatched, m.at, e.at, m.payload, e.payload, m.type, t.no FROM turns t
     LEFT JOIN events m ON m.seq = t.message_seq LEFT JOIN events e ON e.seq = t.end_seq";

fn read_begun(row: &rusqlite::Row<'_>) -> rusqlite::Result<BegunTurnRow> {
    let at = |index| row.get::<_, Option<i64>>(index).map(|at| at.map(Timestamp));
    // For a turn known only from its journal, this is the start event.
    let said = row.get::<_, Option<String>>(7)?.is_some_and(|kind| kind == EventType::MessageSent.as_str());
    Ok(BegunTurnRow {
        no: rows::unsigned(row, 8)?,
        turn_id: rows::parsed(row, 0)?,
        status: rows::word(row, 1, TurnStatus::parse)?,
        dispatched: rows::word(row, 2, Dispatched::parse)?,
        started_at: at(3)?,
        ended_at: at(4)?,
        message: row.get::<_, Option<String>>(5)?.filter(|_| said),
        end: row.get(6)?,
    })
}

/// Passes the last begun turns of a worker to `see`, in order.
pub(crate) fn begun(
    connection: &Connection,
    worker: RowId,
    last: u32,
    see: &mut dyn FnMut(BegunTurnRow),
) -> Result<()> {
    let sql = format!(
        "{BEGUN} WHERE t.id IN (SELECT id FROM turns WHERE worker = ?1 ORDER BY no DESC LIMIT ?2) ORDER BY t.no"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(StoreError::from)?;
    let mut found = statement.query(params![worker.0, last]).map_err(StoreError::from)?;
    while let Some(row) = found.next().map_err(StoreError::from)? {
        see(read_begun(row).map_err(StoreError::from)?);
    }
    Ok(())
}

/// A turn in either table.
#[derive(Debug, Clone)]
pub(crate) enum StoredTurn {
    Queued(QueuedRow),
    Begun(Box<BegunTurnRow>),
}

/// Finds a turn by its id.
pub(crate) fn find(connection: &Connection, turn_id: &str) -> Result<Option<StoredTurn>> {
    let sql = "SELECT turn_id, message, created_at, sender FROM queued_turns WHERE turn_id = ?1";
    let mut statement = connection.prepare_cached(sql).map_err(StoreError::from)?;
    let waits = statement.query_row([turn_id], read_queued).optional().map_err(StoreError::from)?;
    if let Some(row) = waits {
        return Ok(Some(StoredTurn::Queued(row)));
    }
    let sql = format!("{BEGUN} WHERE t.turn_id = ?1");
    let begun = rows::optional(connection, &sql, [turn_id], read_begun)?;
    Ok(begun.map(|row| StoredTurn::Begun(Box::new(row))))
}
