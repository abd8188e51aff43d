//! Rows of turns, and of the messages that wait for theirs.

pub(crate) mod queue;
pub(crate) mod tool_calls;
pub(crate) mod usage;

use rusqlite::{Connection, params};
use serde::Deserialize;
use serde::de::IgnoredAny;
use subagent_core::model::Cancel;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::state::{Carrier, Dispatched, TurnStatus};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::rows::{self, RowId};
use super::tx::{Tx, signed};
use queue::QueuedRow;

/// A stored message, as far as its text and the number of its blocks matter.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct MessageHead<'a> {
    #[serde(borrow)]
    pub(crate) text: Lenient<&'a str>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub(crate) blocks: Vec<IgnoredAny>,
}

/// Inserts a turn that begins.
pub(super) fn open(tx: &Tx<'_>, worker: RowId, no: u64, turn_id: &TurnId, carrier: Carrier) -> Result<()> {
    tx.execute(
        "INSERT INTO turns (worker, no, turn_id, carrier, status, dispatched)
         VALUES (?1, ?2, ?3, ?4, 'accepted', 'no')",
        params![worker.0, signed(no), turn_id.as_str(), carrier.as_str()],
    )?;
    Ok(())
}

/// Stores that the prompt of a turn may have been sent.
pub(super) fn begin_dispatch(tx: &Tx<'_>, worker: RowId, no: u64) -> Result<()> {
    let sql = "UPDATE turns SET dispatched = 'maybe' WHERE worker = ?1 AND no = ?2";
    tx.execute(sql, params![worker.0, signed(no)]).map(drop)
}

/// Stores that the prompt of a turn is sent once more.
pub(super) fn mark_retried(tx: &Tx<'_>, worker: RowId, no: u64) -> Result<()> {
    let sql = "UPDATE turns SET retried = 1 WHERE worker = ?1 AND no = ?2";
    tx.execute(sql, params![worker.0, signed(no)]).map(drop)
}

/// Stores a cancellation of a turn.
pub(super) fn cancel(tx: &Tx<'_>, worker: RowId, no: u64, cancel: &Cancel) -> Result<()> {
    tx.execute(
        "UPDATE turns SET cancel_reason = ?3, cancel_requested = ?4 WHERE worker = ?1 AND no = ?2",
        params![worker.0, signed(no), cancel.reason, cancel.requested],
    )?;
    Ok(())
}

/// Stores the end of a turn, which is in the event `end_seq`.
///
/// # Errors
/// `INTERNAL_ERROR` if the turn has ended before, `STORAGE_ERROR`.
pub(super) fn close(
    tx: &Tx<'_>,
    worker: RowId,
    no: u64,
    status: TurnStatus,
    dispatched: Dispatched,
    end_seq: Option<i64>,
) -> Result<()> {
    let changed = tx.execute(
        "UPDATE turns SET status = ?3, dispatched = ?4, end_seq = ?5, model = (SELECT
            CASE WHEN json_valid(details) THEN details ->> 'model' END FROM workers WHERE id = ?1)
         WHERE worker = ?1 AND no = ?2 AND status = 'accepted'",
        params![worker.0, signed(no), status.as_str(), dispatched.as_str(), end_seq],
    )?;
    match changed {
        1 => Ok(()),
        _ => Err(Error::new(Code::Internal, format!("turn {no} was ended twice"))),
    }
}

/// A turn as stored.
#[derive(Debug, Clone)]
pub(crate) struct TurnRow {
    pub(crate) turn_id: TurnId,
    /// Sequence number of its ending event.
    pub(crate) end_seq: Option<i64>,
}

/// Finds a turn of a worker by its id.
pub(crate) fn get(connection: &Connection, worker: RowId, turn_id: &str) -> Result<Option<TurnRow>> {
    rows::optional(
        connection,
        "SELECT turn_id, end_seq FROM turns WHERE worker = ?1 AND turn_id = ?2",
        params![worker.0, turn_id],
        |row| Ok(TurnRow { turn_id: rows::parsed(row, 0)?, end_seq: row.get(1)? }),
    )
}

/// Returns the data of a turn's message.
///
/// # Errors
/// `STORAGE_ERROR`, also when there is none.
pub(crate) fn message(connection: &Connection, worker: RowId, no: u64) -> Result<String> {
    let sql = "SELECT e.payload FROM turns t JOIN events e ON e.seq = t.message_seq WHERE t.worker = ?1 AND t.no = ?2";
    rows::one(connection, sql, params![worker.0, signed(no)], |row| row.get(0))
}

/// Returns the worker of a turn, queued or begun; `None` if the turn is unknown or was deleted.
pub(crate) fn worker_of(connection: &Connection, turn_id: &str) -> Result<Option<WorkerId>> {
    let sql = "SELECT w.worker_id FROM workers w WHERE w.removed_at IS NULL AND w.id IN (
                 SELECT worker FROM turns WHERE turn_id = ?1 UNION SELECT worker FROM queued_turns WHERE turn_id = ?1)";
    rows::optional(connection, sql, [turn_id], |row| rows::parsed(row, 0))
}

/// Whether no turn with a number of at least `since` has completed with the agent.
pub(crate) fn is_untried(connection: &Connection, worker: RowId, since: u64) -> Result<bool> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM turns
                WHERE worker = ?1 AND no >= ?2 AND status = 'completed' AND carrier = 'acp-stdio')";
    rows::one(connection, sql, params![worker.0, signed(since)], |row| row.get(0))
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
    rows::each(connection, &sql, params![worker.0, last], |row| {
        see(read_begun(row)?);
        Ok(())
    })
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
    if let Some(row) = rows::optional(connection, sql, [turn_id], queue::read)? {
        return Ok(Some(StoredTurn::Queued(row)));
    }
    let begun = rows::optional(connection, &format!("{BEGUN} WHERE t.turn_id = ?1"), [turn_id], read_begun)?;
    Ok(begun.map(|row| StoredTurn::Begun(Box::new(row))))
}
