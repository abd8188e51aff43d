//! Removal in pieces beside other work, on a real file.

use std::path::Path;
use std::time::{Duration, Instant};

use subagent_core::model::LifecycleState;
use subagent_protocol::Code;
use subagent_protocol::ids::ControllerId;

use super::*;
use crate::store::retention::{self, expirable};
use crate::store::{
    Durability, ForeignKeys, NewName, NewWorker, Store, controllers, removal, requests, workers,
};

const NOW: Timestamp = Timestamp(1_000);

fn new_worker(number: u8, controller: RowId) -> NewWorker {
    NewWorker {
        worker_id: WorkerId::from_random([number; 5]),
        controller,
        name: NewName::OfLauncher,
        label: "worker".to_owned(),
        launcher: "demo".to_owned(),
        role: "default".to_owned(),
        cwd: "/ws".to_owned(),
        spec: "{}".to_owned(),
        placeholder: "sess_0".to_owned(),
        state: LifecycleState::Stopped,
        placement: None,
    }
}

/// A store with two stopped workers. The first has `events` events: shown and hidden records, and
/// the daemon's own.
async fn with_events(path: &Path, events: u32) -> (Store, RowId, RowId) {
    let store = Store::open(path).unwrap();
    let workers = store.write(Durability::Full, 1, move |tx| {
        let controller =
            controllers::upsert(tx, &ControllerId::from_random([1; 5]), None, "/ws", NOW)?.id;
        let first = workers::insert(tx, &new_worker(1, controller), NOW)?;
        let other = workers::insert(tx, &new_worker(2, controller), NOW)?;
        let sql = format!(
            "INSERT INTO turns (id, worker, no, turn_id, carrier, status, dispatched, message_seq, end_seq)
                 VALUES (1, 1, 1, 'turn_0000000001', 'acp-stdio', 'completed', 'yes', 0, 5);
             INSERT INTO approvals (request_id, worker, turn, status, asked_seq)
                 VALUES ('ap_0000000001', 1, 1, 'delivered', 2);
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {events})
             INSERT INTO events SELECT n, 1, CASE WHEN n % 5 THEN n END, 1, 0,
                 CASE WHEN n % 7 OR n % 5 = 0 THEN 'progress.message' ELSE 'runtime.x' END,
                 CASE WHEN n % 5 AND n % 7 THEN 'message' END, NULL, n % 7 = 0 AND n % 5 <> 0, printf('%.*c', 200, 'x') FROM n"
        );
        tx.connection().execute_batch(&sql).map_err(StoreError::from)?;
        Ok((first, other))
    });
    let (first, other) = workers.await.unwrap();
    (store, first, other)
}

/// Deletes the rows of a removed worker as the janitor does. Returns the number of pieces.
async fn delete_rows(store: &Store, worker: RowId) -> usize {
    let (mut sweep, mut more, mut pieces) = (EventDeletion::all(worker), true, 0);
    while more {
        let mut piece = sweep.clone();
        let job = move |c: &Connection| Ok((delete_events(c, &mut piece)?, piece));
        (more, sweep) = store.chore(ForeignKeys::Checked, job).await.unwrap();
        pieces += 1;
    }
    while store.chore(ForeignKeys::Checked, move |c| delete_references(c, worker)).await.unwrap() {}
    while store.chore(ForeignKeys::KnownToBeNone, move |c| delete_turns(c, worker)).await.unwrap() {}
    assert!(store.chore(ForeignKeys::KnownToBeNone, move |c| delete_worker(c, worker)).await.unwrap());
    pieces
}

async fn mark(store: &Store, worker: RowId) -> bool {
    store.write(Durability::Full, 1, move |tx| removal::mark(tx, worker, NOW)).await.unwrap()
}

async fn number(store: &Store, sql: &'static str) -> i64 {
    let found = store.read(move |c| Ok(c.query_row(sql, [], |row| row.get(0)).map_err(StoreError::from)?));
    found.await.unwrap()
}

#[tokio::test]
async fn a_removed_worker_is_nowhere_at_once_and_its_rows_go_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let (store, worker, other) = with_events(&dir.path().join("state.db"), 2_000).await;
    assert!(mark(&store, worker).await);
    assert!(!mark(&store, worker).await, "once");
    let listed = store.read(|c| workers::list(c, None)).await.unwrap();
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), [other]);
    assert!(store.read(move |c| retention::kept(c, worker)).await.unwrap().is_none());
    let early = store.chore(ForeignKeys::KnownToBeNone, move |c| delete_worker(c, worker)).await.unwrap();
    assert!(!early, "its row is the last");
    assert!(delete_rows(&store, worker).await >= 2_000 / PIECE_ROWS);
    for table in ["events", "turns", "approvals"] {
        let sql: &'static str = Box::leak(format!("SELECT count(*) FROM {table}").into_boxed_str());
        assert_eq!(number(&store, sql).await, 0, "{table}");
    }
    assert_eq!(number(&store, "SELECT count(*) FROM pragma_foreign_key_check").await, 0);
    assert!(store.read(unfinished).await.unwrap().is_empty());
    let size = || number(&store, "SELECT page_count FROM pragma_page_count");
    let before = size().await;
    while store.chore(ForeignKeys::Checked, give_back).await.unwrap() {}
    assert!(size().await < before / 2);
    // Foreign keys are checked again.
    let orphan = store.write(Durability::Full, 1, |tx| tx.execute("UPDATE workers SET controller = 77", []));
    assert_eq!(orphan.await.unwrap_err().code, Code::StorageError);
}

#[tokio::test]
async fn ids_and_keys_of_removed_workers_are_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let (store, _, last) = with_events(&path, 10).await;
    assert!(mark(&store, last).await);
    delete_rows(&store, last).await;
    store.close().await;
    let store = Store::open(&path).unwrap();
    let again =
        store.write(Durability::Full, 1, |tx| workers::insert(tx, &new_worker(2, RowId(1)), NOW)).await;
    assert_eq!(again.unwrap_err().code, Code::Internal);
    let next =
        store.write(Durability::Full, 1, |tx| workers::insert(tx, &new_worker(3, RowId(1)), NOW)).await;
    assert!(next.unwrap().0 > last.0);
}

#[tokio::test]
async fn what_has_arrived_goes_before_the_next_piece() {
    let dir = tempfile::tempdir().unwrap();
    let (store, worker, _) = with_events(&dir.path().join("state.db"), 20_000).await;
    assert!(mark(&store, worker).await);
    let left = || number(&store, "SELECT count(*) FROM events");
    // All pieces are submitted at once. A later write waits for at most one of them.
    let mut all = Vec::new();
    for _ in 0..100 {
        let mut sweep = EventDeletion::all(worker);
        let store = store.clone();
        all.push(tokio::spawn(async move {
            store.chore(ForeignKeys::Checked, move |c| delete_events(c, &mut sweep)).await
        }));
    }
    tokio::task::yield_now().await;
    let sends = 20;
    let mut seen = Vec::new();
    for _ in 0..sends {
        store.write(Durability::Full, 1, |tx| requests::remember(tx, "key", "a", "1", NOW)).await.unwrap();
        seen.push(left().await);
    }
    assert!(seen[0] > 0 && *seen.last().unwrap() > 0, "{seen:?}: the pieces went first");
    for piece in all {
        piece.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn the_mark_stops_before_what_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let (store, worker, _) = with_events(&dir.path().join("state.db"), 0).await;
    // Turns on three days, each with four events: start, message, permission request, end.
    let add = store.write(Durability::Full, 1, |tx| {
        let sql = "DELETE FROM approvals; DELETE FROM events; DELETE FROM turns;
            WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3)
            INSERT INTO turns (id, worker, no, turn_id, carrier, status, dispatched, message_seq, end_seq)
                SELECT n, 1, n, 'turn_' || n, 'acp-stdio', 'completed', 'yes', n * 10 + 1, n * 10 + 3 FROM n;
            INSERT INTO events (seq, worker, at, type, internal, payload)
                SELECT id * 10, 1, id * 1000, 'turn.started', 0, '{}' FROM turns UNION ALL
                SELECT id * 10 + 1, 1, id * 1000, 'message.sent', 0, '{}' FROM turns UNION ALL
                SELECT id * 10 + 2, 1, id * 1000, 'approval.requested', 0, '{}' FROM turns UNION ALL
                SELECT id * 10 + 3, 1, id * 1000, 'turn.completed', 0, '{}' FROM turns UNION ALL
                SELECT 1, 1, 0, 'worker.started', 0, '{}';
            INSERT INTO approvals (request_id, worker, turn, status, asked_seq)
                SELECT 'ap_' || id, 1, id, iif(id = 1, 'pending', 'delivered'), id * 10 + 2 FROM turns";
        tx.connection().execute_batch(sql).map_err(StoreError::from)?;
        Ok(())
    });
    add.await.unwrap();
    let upto = |cutoff| store.read(move |c| expirable(c, worker, Timestamp(cutoff)));
    for (cutoff, expected) in [(0, 0), (1000, 0), (1001, 13), (2001, 23), (3001, 23), (i64::MAX, 23)] {
        assert_eq!(upto(cutoff).await.unwrap(), expected, "{cutoff}");
    }
    store.write(Durability::Full, 1, move |tx| retention::mark_expired(tx, worker, 29)).await.unwrap();
    store.write(Durability::Full, 1, move |tx| retention::mark_expired(tx, worker, 19)).await.unwrap();
    assert_eq!(store.read(move |c| retention::kept(c, worker)).await.unwrap().unwrap().expired_seq, 29);
    let (mut sweep, mut more) = (EventDeletion::up_to(worker, 29), true);
    while more {
        let mut piece = sweep.clone();
        let job = move |c: &Connection| Ok((delete_events(c, &mut piece)?, piece));
        (more, sweep) = store.chore(ForeignKeys::Checked, job).await.unwrap();
    }
    while store
        .chore(ForeignKeys::Checked, move |c| retention::delete_approvals(c, worker, 29))
        .await
        .unwrap()
    {}
    while store
        .chore(ForeignKeys::KnownToBeNone, move |c| retention::delete_turns(c, worker, 29))
        .await
        .unwrap()
    {}
    // Kept: the start, the open request with its turn, the turn that late updates may belong to,
    // the latest turn.
    let text = "SELECT group_concat(seq) || ';' || (SELECT group_concat(no) FROM turns) FROM
                (SELECT seq FROM events ORDER BY seq)";
    let found = store
        .read(move |c| Ok(c.query_row(text, [], |row| row.get::<_, String>(0)).map_err(StoreError::from)?));
    assert_eq!(found.await.unwrap(), "1,12,30,31,32,33;1,2,3");
    assert_eq!(number(&store, "SELECT count(*) FROM pragma_foreign_key_check").await, 0);
    assert_eq!(number(&store, "SELECT count(*) FROM approvals").await, 2);
}

/// Compares the duration of FULL commits during a removal with that of an idle store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, of minutes"]
async fn how_long_others_wait_during_a_large_removal() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let events = std::env::var("EVENTS").map_or(1_000_000, |text| text.parse().unwrap());
    let (store, worker, _) = with_events(&dir.path().join("state.db"), events).await;
    let quiet = commits(&store, None).await;
    assert!(mark(&store, worker).await);
    let begun = Instant::now();
    let deleting = {
        let store = store.clone();
        tokio::spawn(async move {
            delete_rows(&store, worker).await;
            while store.chore(ForeignKeys::Checked, give_back).await.unwrap() {}
        })
    };
    let busy = commits(&store, Some(&deleting)).await;
    let mut report = format!("{events} events deleted in {:?}", begun.elapsed());
    let mut p99 = Vec::new();
    for (what, mut times) in [("quiet", quiet), ("busy", busy)] {
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 1000];
        p99.push(at(990));
        let (count, most) = (times.len(), at(1000));
        report += &format!("\n{what}: {count} commits, p50 {:?}, p99 {:?}, most {most:?}", at(500), at(990));
    }
    let most = std::env::var("MAX_MS").map_or(10, |text| text.parse().unwrap());
    assert!(p99[1] < p99[0] + Duration::from_millis(most), "{report}");
}

/// Commits every millisecond until the task is done, or 2000 times.
async fn commits(store: &Store, until: Option<&tokio::task::JoinHandle<()>>) -> Vec<Duration> {
    let mut times = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    while until.map_or(times.len() < 2000, |task| !task.is_finished()) {
        ticks.tick().await;
        // A known key would change nothing, and nothing would be synced.
        let key = format!("{} {}", until.is_some(), times.len());
        let begun = Instant::now();
        store
            .write(Durability::Full, 1, move |tx| requests::remember(tx, &key, "a", "1", NOW))
            .await
            .unwrap();
        times.push(begun.elapsed());
    }
    times
}
