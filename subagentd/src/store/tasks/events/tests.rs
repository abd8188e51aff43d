//! Tests the joined stream (M10): events of tasks and of the worker itself, in one order, on a real
//! file.

use proptest::prelude::*;
use subagent_protocol::event::EventType;
use subagent_protocol::time::Timestamp;

use super::*;
use crate::store::tasks::below::tests::{NOW, PlantedWorker, below, planted, root};
use crate::store::{Durability, NewEvent, Store, Tx, retention};

/// A root with tasks two levels deep, and another worker with a task.
fn tree() -> Vec<PlantedWorker> {
    vec![
        root(1),
        below(1, 2, "foreground"),
        below(1, 3, "background").ended(),
        below(2, 4, "background"),
        root(5),
        below(4, 6, "background"),
    ]
}

/// Worker, kind and payload length of a stored event.
type EventShape = (u8, u8, usize);

fn event(kind: u8, payload: &str) -> NewEvent<'_> {
    let (event_type, kind) = match kind {
        0 => (EventType::SubagentProgress, None),
        1 => (EventType::SubagentCompleted, None),
        2 => (EventType::TurnStarted, None),
        3 => (EventType::RuntimeTurnEnd, None),
        4 => (EventType::ProgressUpdate, Some("plan")),
        5 => (EventType::ApprovalRequested, None),
        6 => (EventType::PolicyViolated, None),
        _ => (EventType::ProgressMessage, Some("message")),
    };
    NewEvent { number: None, turn: None, at: Timestamp(5), event_type, kind, record: None, payload }
}

/// Stores events. Returns their sequence numbers.
async fn stored(store: &Store, shapes: Vec<EventShape>) -> Vec<i64> {
    let insert = move |tx: &mut Tx<'_>| {
        let seqs = shapes.iter().map(|(worker, kind, length)| {
            let payload = format!("\"{}\"", "x".repeat(*length));
            tx.insert_event(RowId((*worker).into()), &event(*kind, &payload))
        });
        seqs.collect::<Result<Vec<i64>>>()
    };
    store.write(Durability::Progress, 1, insert).await.unwrap()
}

/// Reads all events of a worker's stream after a cursor, page by page.
async fn read(store: &Store, worker: i64, all: bool, from: i64, up_to: i64) -> Vec<(i64, bool)> {
    let (mut after, mut floor, mut found) = (from, 0, Vec::new());
    loop {
        let query = EventQuery { worker: RowId(worker), after, up_to, floor };
        let joined = store
            .read(move |connection| {
                page(connection, query, all, |event, below| Ok((event.seq, below.is_some())))
            })
            .await
            .unwrap();
        assert!(joined.page.events.len() <= PAGE_EVENTS);
        found.extend(joined.page.events);
        (after, floor) = (joined.page.seen, joined.page.floor);
        if joined.page.end {
            return found;
        }
    }
}

async fn is_read_in_order(shapes: Vec<EventShape>, all: bool, from: usize) {
    let folder = tempfile::tempdir().unwrap();
    let store = planted(&folder.path().join("state.db"), tree()).await;
    let seqs = stored(&store, shapes.clone()).await;
    let from = seqs.get(from).copied().unwrap_or(0);
    let up_to = seqs.get(seqs.len() * 3 / 4).copied().unwrap_or(i64::MAX);
    for (worker, tasks) in [(1, &[2, 3, 4, 6][..]), (2, &[4, 6]), (4, &[6]), (3, &[]), (5, &[])] {
        let of_tasks = |kind: u8| if all { kind != 3 } else { matches!(kind, 0 | 1 | 5 | 6) };
        let expected: Vec<(i64, bool)> = shapes
            .iter()
            .zip(&seqs)
            .filter(|((of, kind, _), seq)| {
                let wanted =
                    if i64::from(*of) == worker { *kind != 3 } else { tasks.contains(of) && of_tasks(*kind) };
                wanted && (from + 1..=up_to).contains(*seq)
            })
            .map(|((of, ..), seq)| (*seq, i64::from(*of) != worker))
            .collect();
        assert_eq!(read(&store, worker, all, from, up_to).await, expected, "of {worker}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn m10_pages_of_any_border_hold_each_event_once_and_in_order(
        shapes in proptest::collection::vec(
            (1_u8..=6, 0_u8..8, prop_oneof![30 => 0_usize..20, 1 => Just(400_000), 1 => Just(1_200_000)]), 0..900),
        all in any::<bool>(),
        from in 0_usize..1000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(is_read_in_order(shapes, all, from));
    }
}

#[tokio::test]
async fn m10_no_event_is_looked_at_that_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let store = planted(&folder.path().join("state.db"), tree()).await;
    let plan = |connection: &Connection| -> Result<Vec<String>> {
        let mut statement =
            connection.prepare(&format!("EXPLAIN QUERY PLAN {}", sql())).map_err(StoreError::from)?;
        let values = params![1, 0, i64::MAX, 256, false, LARGE_BYTES];
        let lines = statement.query_map(values, |row| row.get(3)).and_then(Iterator::collect);
        Ok(lines.map_err(StoreError::from)?)
    };
    let plan = store.read(plan).await.unwrap();
    let scans: Vec<&String> = plan.iter().filter(|line| line.starts_with("SCAN")).collect();
    assert!(scans.iter().all(|line| ["SCAN b", "SCAN n"].contains(&line.as_str())), "{plan:#?}");
    let step = "SEARCH x USING INDEX task_events (worker=? AND rowid>? AND rowid<?)";
    assert_eq!(plan.iter().filter(|line| line.as_str() == step).count(), 2, "{plan:#?}");
}

#[tokio::test]
async fn m10_a_flood_of_a_task_is_not_gone_through_for_its_events() {
    let folder = tempfile::tempdir().unwrap();
    let store = planted(&folder.path().join("state.db"), tree()).await;
    let flood = (0..20_000).map(|number| (4, if number % 10_000 == 0 { 0 } else { 7 }, 3)).collect();
    let seqs = stored(&store, flood).await;
    let steps = store.read(move |connection| {
        let mut statement = connection.prepare(&sql()).map_err(StoreError::from)?;
        let mut rows =
            statement.query(params![1, 0, i64::MAX, 256, false, LARGE_BYTES]).map_err(StoreError::from)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(StoreError::from)? {
            found.push(row.get::<_, i64>(0).map_err(StoreError::from)?);
        }
        drop(rows);
        Ok((found, statement.get_status(rusqlite::StatementStatus::VmStep)))
    });
    let (found, steps) = steps.await.unwrap();
    assert_eq!(found, [seqs[0], seqs[10_000]]);
    assert!(steps < 2_000, "{steps}");
}

#[tokio::test]
async fn m10_events_of_a_task_that_were_deleted_or_whose_worker_was_removed_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = planted(&folder.path().join("state.db"), tree()).await;
    let seqs = stored(&store, vec![(2, 0, 1), (3, 0, 1), (2, 0, 1), (1, 2, 1), (4, 1, 1)]).await;
    let mark = seqs[1];
    store.write(Durability::Full, 1, move |tx| retention::mark_expired(tx, RowId(2), mark)).await.unwrap();
    let remove = |tx: &mut Tx<'_>| tx.execute("UPDATE workers SET removed_at = ?1 WHERE id = 3", [NOW.0]);
    store.write(Durability::Full, 1, remove).await.unwrap();
    let left: Vec<i64> = read(&store, 1, true, 0, i64::MAX).await.into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(left, [seqs[2], seqs[3], seqs[4]]);
    let (first, own) = (seqs[0], seqs[3]);
    store
        .write(Durability::Full, 1, move |tx| tx.execute("DELETE FROM events WHERE seq = ?1", [first]))
        .await
        .unwrap();
    let cursors = store.read(move |connection| {
        let of = |seq| {
            Ok((is_of_one(connection, RowId(1), seq)?, may_have_been_of_one(connection, RowId(1), seq)?))
        };
        [first, mark, own].into_iter().map(of).collect::<Result<Vec<_>>>()
    });
    assert_eq!(cursors.await.unwrap(), [(false, true), (true, false), (false, false)]);
    // A missing task between them hides nothing.
    store
        .write(Durability::Full, 1, |tx| tx.execute("DELETE FROM tasks WHERE worker = 2", []))
        .await
        .unwrap();
    let left: Vec<i64> = read(&store, 1, false, 0, i64::MAX).await.into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(left, [seqs[3], seqs[4]]);
    let query = EventQuery { worker: RowId(1), after: mark, up_to: i64::MAX, floor: 0 };
    store
        .write(Durability::Full, 1, move |tx| retention::mark_expired(tx, RowId(1), mark + 1))
        .await
        .unwrap();
    let refused = store.read(move |connection| page(connection, query, false, |_, _| Ok(()))).await;
    assert_eq!(refused.unwrap_err().code, subagent_protocol::Code::CursorExpired);
}

#[test]
fn m10_the_index_holds_what_reaches_ancestors() {
    let connection = Connection::open_in_memory().unwrap();
    // Wrapped events are built at read time and never stored.
    for event_type in EventType::ALL.iter().filter(|event_type| **event_type != EventType::SubagentEvent) {
        let sql = format!(
            "SELECT {} FROM (SELECT NULL AS kind, ?1 AS type) x",
            REACHES_ANCESTORS.replace("x.", "")
        );
        let is_in: bool = connection.query_row(&sql, [event_type.as_str()], |row| row.get(0)).unwrap();
        assert_eq!(is_in, event_type.reaches_ancestors(), "{event_type:?}");
    }
}
