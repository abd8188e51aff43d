//! Tests of journal records: none is stored twice, and a batch equals single inserts.

use std::time::Instant;

use proptest::prelude::*;
use rusqlite::StatementStatus;
use subagent_protocol::record::RecordType;

use super::*;
use crate::store::database::open;
use crate::store::{facts, workers};

/// A record: a piece of text, or a plan.
fn record(number: u64, turn: Option<u64>, at: i64, is_piece: bool, payload: &str) -> NewEvent<'_> {
    let (event_type, kind) = match is_piece {
        true => (EventType::ProgressMessage, "message"),
        false => (EventType::ProgressUpdate, "plan"),
    };
    NewEvent {
        number: Some(number),
        turn,
        at: Timestamp(at),
        event_type,
        kind: Some(kind),
        record: Some(RecordType::Update),
        payload,
    }
}

/// Stores these records of a worker as journal ingestion does.
async fn take(store: &Store, worker: RowId, after: u64, numbers: Vec<u64>) -> Result<()> {
    let take = move |tx: &mut Tx<'_>| {
        tx.begin_records(worker, after)?;
        let records: Vec<_> = numbers.iter().map(|number| record(*number, None, 5, true, "{}")).collect();
        tx.insert_events(worker, &records)?;
        let number = numbers.last().copied().unwrap_or(after);
        workers::update_cursor(tx, worker, Cursor { segment: 1, offset: 7, number })
    };
    store.write(Durability::Progress, 1, take).await
}

#[tokio::test]
async fn no_record_is_stored_twice_with_any_index() {
    let dir = tempfile::tempdir().unwrap();
    let (store, worker) = with_worker(&dir.path().join("state.db")).await;
    take(&store, worker, 0, (1..=100).collect()).await.unwrap();
    for (after, numbers) in [
        // Repeated, from the middle, and after a gap.
        (0, (1..=100).collect()),
        (60, (61..=70).collect()),
        (101, vec![102]),
        // Behind the cursor, and out of order.
        (100, vec![100]),
        (100, vec![101, 103, 102]),
        (100, (101..=164).chain(120..=190).collect()),
    ] {
        let refused = take(&store, worker, after, numbers).await.unwrap_err();
        assert_eq!(refused.code, Code::StorageError, "{after}: {refused}");
    }
    let loose = store
        .write(Durability::Progress, 1, move |tx| tx.insert_event(worker, &record(500, None, 5, true, "{}")));
    assert_eq!(loose.await.unwrap_err().code, Code::StorageError, "its cursor was not checked");
    take(&store, worker, 100, (101..=150).collect()).await.unwrap();
    assert_eq!(seqs(&store).await.len(), 150);
}

#[tokio::test]
async fn records_of_many_workers_share_commits() {
    const ROUNDS: u64 = 50;
    let dir = tempfile::tempdir().unwrap();
    let (store, first) = with_worker(&dir.path().join("state.db")).await;
    let mut streaming = vec![first];
    for number in 2..=8 {
        streaming.push(add_worker(&store, number).await);
    }
    let begin = Instant::now();
    let stream = async |worker| {
        for number in 0..ROUNDS {
            take(&store, worker, number, vec![number + 1]).await.unwrap();
        }
    };
    futures_util::future::join_all(streaming.iter().map(|worker| stream(*worker))).await;
    // Each round of all has one commit, at least 4 ms after the one before.
    assert!(begin.elapsed() > Duration::from_millis(ROUNDS * 3), "{:?}", begin.elapsed());
    assert_eq!(seqs(&store).await.len(), 8 * usize::try_from(ROUNDS).unwrap());
}

/// All columns of each row except its sequence number.
async fn rows(store: &Store) -> Vec<String> {
    let query = |connection: &Connection| -> Result<Vec<String>> {
        let sql =
            "SELECT json_array(worker, number, turn, at, type, kind, record, internal, payload) FROM events
                   ORDER BY seq";
        let mut statement = connection.prepare(sql).map_err(StoreError::from)?;
        let rows = statement.query_map([], |row| row.get(0)).map_err(StoreError::from)?;
        Ok(rows.collect::<rusqlite::Result<_>>().map_err(StoreError::from)?)
    };
    store.read(query).await.unwrap()
}

/// Deltas of a record to the one before, and its other fields.
type RecordShape = (bool, bool, bool, bool, u8);

/// Stores records of these shapes, as a batch or one by one. Returns the rows.
async fn stored(shapes: Vec<RecordShape>, together: bool) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let (store, worker) = with_worker(&dir.path().join("state.db")).await;
    let write = move |tx: &mut Tx<'_>| {
        let open = Fact::TurnOpened {
            no: 1,
            id: subagent_protocol::ids::TurnId::from_random([1; 5]),
            carrier: subagent_protocol::state::Carrier::Runtime,
        };
        facts::store(tx, worker, &[open], None, NOW)?;
        tx.begin_records(worker, 0)?;
        let payloads: Vec<String> = shapes.iter().map(|shape| "x".repeat(usize::from(shape.4))).collect();
        let mut number = 0;
        let mut records = Vec::new();
        for ((gap, has_turn, later, other, _), payload) in shapes.iter().zip(&payloads) {
            number += if *gap { 2 } else { 1 };
            let (turn, at) = (has_turn.then_some(1), if *later { 6 } else { 5 });
            records.push(record(number, turn, at, !other, payload));
        }
        let last = if together {
            tx.insert_events(worker, &records)?
        } else {
            let seqs = records.iter().map(|record| tx.insert_event(worker, record));
            seqs.collect::<Result<Vec<_>>>()?.last().copied()
        };
        let next = tx.insert_event(worker, &event("{}"))?;
        assert!(last.is_none_or(|last| last + 1 == next), "{last:?} {next}");
        Ok(())
    };
    store.write(Durability::Progress, 1, write).await.unwrap();
    rows(&store).await
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn many_records_at_once_are_stored_like_one_after_the_other(shapes in proptest::collection::vec(
        // Mostly pieces of the same turn and time, without gaps.
        (proptest::bool::weighted(0.03), proptest::bool::weighted(0.97), proptest::bool::weighted(0.03),
         proptest::bool::weighted(0.03), any::<u8>()), 0..300)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let one_by_one = runtime.block_on(stored(shapes.clone(), false));
        prop_assert_eq!(one_by_one, runtime.block_on(stored(shapes, true)));
    }
}

#[test]
fn no_statement_is_compiled_anew_because_of_what_is_bound() {
    let compiled = |connection: &Connection, sql: &str| {
        let mut statement = connection.prepare(sql).unwrap();
        for value in [0, 1, 2] {
            statement.exists([value]).unwrap();
        }
        statement.get_status(StatementStatus::RePrepare)
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let writer = open::open_for_writing(&path).unwrap();
    let reader = open_for_reading(&path).unwrap();
    let limit = "SELECT seq FROM events LIMIT ?1";
    let equals = "SELECT seq FROM events WHERE worker = ?1 AND internal = 0 AND kind IS NULL";
    for sql in [limit, equals] {
        assert_eq!([compiled(&writer, sql), compiled(&reader, sql)], [0, 0], "{sql}");
    }
    let plain = Connection::open(&path).unwrap();
    assert!(compiled(&plain, limit) > 0, "what is done against it is not needed any more");
}
