//! The transaction that a writer job gets: statements about single rows, no rules.

use std::sync::LazyLock;

use rusqlite::{CachedStatement, Connection, params};
use subagent_protocol::event::EventType;
use subagent_protocol::record::RecordType;
use subagent_protocol::{Result, update};

use super::error::StoreError;
use super::events::words;
use super::rows::{self, NewEvent, RowId};

/// A running transaction (a savepoint within the writer's).
pub(crate) struct Tx<'a> {
    pub(super) connection: &'a Connection,
    pub(super) next_seq: &'a mut i64,
    pub(super) failed: bool,
    /// Whether it erased a possible secret, with an earlier copy in the WAL.
    pub(super) forgets: bool,
    /// The newest events that others wait for.
    pub(super) notices: Notices,
    /// Agent definition of the turn that was opened in this transaction, until it is taken.
    pub(super) agent: Option<String>,
    events: EventInsertCache<'a>,
}

/// Cached lookups for inserting many events.
#[derive(Default)]
struct EventInsertCache<'a> {
    insert: Option<CachedStatement<'a>>,
    /// Worker, number and key of the turn that was looked up last.
    turn: Option<(RowId, u64, i64)>,
    /// Worker whose records are being stored, and the number of its last stored record.
    records: Option<(RowId, u64)>,
}

/// The newest events that reach their workers' ancestors; 0 for none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Notices {
    pub(super) newest_task_event: i64,
    /// The newest question among these.
    pub(super) asked: i64,
}

impl Notices {
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            newest_task_event: self.newest_task_event.max(other.newest_task_event),
            asked: self.asked.max(other.asked),
        }
    }
}

impl<'a> Tx<'a> {
    pub(super) fn new(connection: &'a Connection, next_seq: &'a mut i64) -> Self {
        Self {
            connection,
            next_seq,
            failed: false,
            forgets: false,
            notices: Notices::default(),
            agent: None,
            events: EventInsertCache::default(),
        }
    }
}

impl Tx<'_> {
    /// The connection, for queries that see this transaction's changes.
    #[must_use]
    pub(crate) fn connection(&self) -> &Connection {
        self.connection
    }

    pub(super) fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<usize> {
        rows::execute(self.connection, sql, params)
    }

    /// Begins to store a worker's records after `number`, up to which all are stored.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, also if the stored position differs. Together with the cursor, updated in
    /// the same transaction, this prevents storing a record twice.
    pub(crate) fn begin_records(&mut self, worker: RowId, number: u64) -> Result<()> {
        let sql = "SELECT number FROM journal_cursors WHERE worker = ?1";
        let stored: i64 = rows::one(self.connection, sql, [worker.0], |row| row.get(0))?;
        if stored != signed(number) {
            let what = format!("the records up to {stored} were taken, and then those behind {number}");
            return Err(StoreError::BadRow(what).into());
        }
        self.events.records = Some((worker, number));
        Ok(())
    }

    /// Returns the worker whose records this transaction stores.
    pub(super) fn worker_of_records(&self) -> Option<RowId> {
        self.events.records.map(|(worker, _)| worker)
    }

    /// Inserts an event and returns its sequence number.
    ///
    /// # Errors
    /// `STORAGE_ERROR`, also for a record that is already stored or whose worker has no
    /// [`Self::begin_records`].
    pub(crate) fn insert_event(&mut self, worker: RowId, event: &NewEvent<'_>) -> Result<i64> {
        self.is_next(worker, event)?;
        let turn = match event.turn {
            Some(no) => self.turn_key(worker, no)?,
            None => None,
        };
        let seq = *self.next_seq;
        *self.next_seq += 1;
        let insert = match &mut self.events.insert {
            Some(insert) => insert,
            none => none.insert(self.connection.prepare_cached(INSERT_EVENT).map_err(StoreError::from)?),
        };
        insert
            .execute(params![
                seq,
                worker.0,
                event.number.map(signed),
                turn,
                event.at.0,
                words::of_type(event.event_type),
                event.kind.map(words::of_kind),
                event.record.map(words::of_record),
                event.event_type.is_internal(),
                event.payload,
            ])
            .map_err(StoreError::from)?;
        if event.event_type.reaches_ancestors() {
            self.notices.newest_task_event = seq;
        }
        if event.event_type.is_question() {
            self.notices.asked = seq;
        }
        Ok(seq)
    }

    /// Inserts events of one worker and returns the last sequence number. Pieces of text, the bulk
    /// of all events, are inserted many per statement.
    ///
    /// # Errors
    /// Those of [`Self::insert_event`].
    pub(crate) fn insert_events(
        &mut self,
        worker: RowId,
        mut events: &[NewEvent<'_>],
    ) -> Result<Option<i64>> {
        let mut last = None;
        while let Some(first) = events.first() {
            let alike =
                events.iter().zip(0..).take_while(|(event, index)| is_piece_after(first, event, *index));
            let alike = alike.count();
            let run = PIECES.iter().find(|(count, _)| *count <= alike);
            let (count, seq) = match run {
                Some((count, sql)) => (*count, self.insert_pieces(worker, &events[..*count], sql)?),
                None => (1, self.insert_event(worker, first)?),
            };
            last = Some(seq);
            events = &events[count..];
        }
        Ok(last)
    }

    /// Inserts pieces of text that differ only in number and payload.
    fn insert_pieces(&mut self, worker: RowId, pieces: &[NewEvent<'_>], sql: &str) -> Result<i64> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Err(StoreError::BadRow("no pieces of text".to_owned()).into());
        };
        for piece in [first, last] {
            self.is_next(worker, piece)?;
        }
        let turn = match first.turn {
            Some(no) => self.turn_key(worker, no)?,
            None => None,
        };
        let seq = *self.next_seq;
        let count = i64::try_from(pieces.len()).unwrap_or(0);
        *self.next_seq += count;
        let mut insert = self.connection.prepare_cached(sql).map_err(StoreError::from)?;
        let bound = (|| {
            insert.raw_bind_parameter(1, worker.0)?;
            insert.raw_bind_parameter(2, turn)?;
            insert.raw_bind_parameter(3, first.at.0)?;
            insert.raw_bind_parameter(4, seq)?;
            insert.raw_bind_parameter(5, first.number.map(signed))?;
            for (index, piece) in pieces.iter().enumerate() {
                insert.raw_bind_parameter(6 + index, piece.payload)?;
            }
            insert.raw_execute()
        })();
        bound.map_err(StoreError::from)?;
        Ok(seq + count - 1)
    }

    /// Checks that a record follows all stored ones.
    fn is_next(&mut self, worker: RowId, event: &NewEvent<'_>) -> Result<()> {
        let Some(number) = event.number else { return Ok(()) };
        match &mut self.events.records {
            Some((of, last)) if *of == worker && *last < number => {
                *last = number;
                Ok(())
            }
            begun => {
                let what = format!("record {number} of {worker:?} after {begun:?}");
                Err(StoreError::BadRow(what).into())
            }
        }
    }

    /// Returns the key of a turn, if it has a row.
    fn turn_key(&mut self, worker: RowId, no: u64) -> Result<Option<i64>> {
        match self.events.turn {
            Some((of, known, key)) if (of, known) == (worker, no) => return Ok(Some(key)),
            _ => {}
        }
        let sql = "SELECT id FROM turns WHERE worker = ?1 AND no = ?2";
        let key: Option<i64> =
            rows::optional(self.connection, sql, params![worker.0, signed(no)], |row| row.get(0))?;
        self.events.turn = key.map(|key| (worker, no, key));
        Ok(key)
    }
}

/// Statements that insert several pieces of text at once, longest first. They share the cost of a
/// statement, and SQLite keeps its position in the b-tree.
static PIECES: LazyLock<[(usize, String); 2]> =
    LazyLock::new(|| [64, 16].map(|count| (count, insert_pieces(count))));

fn insert_pieces(count: usize) -> String {
    let columns = "seq, worker, number, turn, at, type, kind, record, internal, payload";
    // The words of a piece of text are stored as empty texts.
    let row = |index| format!("(?4 + {index}, ?1, ?5 + {index}, ?2, ?3, '', '', '', 0, ?{})", index + 6);
    let rows: Vec<String> = (0..count).map(row).collect();
    format!("INSERT INTO events ({columns}) VALUES {}", rows.join(", "))
}

/// Whether this is a piece of text that differs from `first` only in its payload and in a number
/// that is `index` higher.
fn is_piece_after(first: &NewEvent<'_>, event: &NewEvent<'_>, index: u64) -> bool {
    event.event_type == EventType::ProgressMessage
        && event.kind == Some(update::MESSAGE)
        && event.record == Some(RecordType::Update)
        && event.number.is_some()
        && event.number == first.number.map(|number| number + index)
        && (event.turn, event.at) == (first.turn, first.at)
}

const INSERT_EVENT: &str =
    "INSERT INTO events (seq, worker, number, turn, at, type, kind, record, internal, payload)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

/// Turn and record numbers fit into `i64`: they count up from 1.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
