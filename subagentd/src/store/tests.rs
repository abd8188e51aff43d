//! Tests of the store on real files: atomicity, unique numbers, and foreign databases.

use std::time::Duration;

use subagent_core::model::Fact;
use subagent_protocol::event::EventType;
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::database::restore;
use super::facts;
use super::*;
use crate::store::database::files::DATABASE;

mod records;

const NOW: Timestamp = Timestamp(1_000);

fn event(payload: &str) -> NewEvent<'_> {
    NewEvent {
        number: None,
        turn: None,
        at: NOW,
        event_type: EventType::TurnStarted,
        kind: None,
        record: None,
        payload,
    }
}

/// A store with one worker.
async fn with_worker(path: &Path) -> (Store, RowId) {
    let store = Store::open(path).unwrap();
    let worker = add_worker(&store, 1).await;
    (store, worker)
}

async fn add_worker(store: &Store, number: u8) -> RowId {
    let add = move |tx: &mut Tx<'_>| {
        let id = ControllerId::from_random([1; 5]);
        let controller = controllers::upsert(tx, &id, Some("label"), "/ws", NOW)?;
        let worker = NewWorker {
            worker_id: WorkerId::from_random([number; 5]),
            controller: controller.id,
            name: NewName::OfLauncher,
            label: "worker".to_owned(),
            launcher: "demo".to_owned(),
            role: "default".to_owned(),
            cwd: "/ws".to_owned(),
            spec: "{}".to_owned(),
            placeholder: "sess_0".to_owned(),
            state: subagent_core::model::LifecycleState::Starting,
            placement: None,
        };
        workers::insert(tx, &worker, NOW)
    };
    store.write(Durability::Full, 1, add).await.unwrap()
}

async fn seqs(store: &Store) -> Vec<i64> {
    let query = |connection: &Connection| -> Result<Vec<i64>> {
        let mut statement =
            connection.prepare("SELECT seq FROM events ORDER BY seq").map_err(StoreError::from)?;
        let rows = statement.query_map([], |row| row.get(0)).map_err(StoreError::from)?;
        Ok(rows.collect::<rusqlite::Result<_>>().map_err(StoreError::from)?)
    };
    store.read(query).await.unwrap()
}

#[tokio::test]
async fn a_job_that_fails_undoes_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (store, worker) = with_worker(&dir.path().join("state.db")).await;
    let jobs = (0..20).map(|job| {
        store.write(Durability::Progress, 1, move |tx| {
            let seq = tx.insert_event(worker, &event("{}"))?;
            if job % 3 == 0 { Err(Error::new(Code::InvalidInput, "no")) } else { Ok(seq) }
        })
    });
    let results = futures_util::future::join_all(jobs).await;
    let stored: Vec<i64> = results.iter().filter_map(|result| result.as_ref().ok()).copied().collect();
    assert_eq!(results.iter().filter(|result| result.is_err()).count(), 7);
    assert_eq!(seqs(&store).await, stored);
    store.close().await;
    let late = store.write(Durability::Full, 1, |_| Ok(())).await.unwrap_err();
    assert_eq!((late.code, late.retryable), (Code::DaemonNotRunning, true));
}

#[tokio::test]
async fn a_sequence_number_is_never_given_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let (mut store, worker) = with_worker(&path).await;
    let mut given = Vec::new();
    for _ in 0..4 {
        for _ in 0..3 {
            let add = store.write(Durability::Progress, 1, move |tx| tx.insert_event(worker, &event("{}")));
            given.push(add.await.unwrap());
        }
        // The newest rows are lost, as after retention or a power loss.
        let delete = |tx: &mut Tx<'_>| tx.execute("DELETE FROM events", []).map(|_| ());
        store.write(Durability::Full, 1, delete).await.unwrap();
        store.close().await;
        store = Store::open(&path).unwrap();
    }
    assert!(given.is_sorted_by(|a, b| a < b), "{given:?}");
}

#[tokio::test]
async fn progress_is_synced_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (store, worker) = with_worker(&dir.path().join("state.db")).await;
    let syncs = || {
        store.read(|connection| {
            let sql = "SELECT value FROM meta WHERE key = 'syncs'";
            Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(StoreError::from)?)
        })
    };
    let before = syncs().await.unwrap();
    store.write(Durability::Progress, 1, move |tx| tx.insert_event(worker, &event("{}"))).await.unwrap();
    // This commit writes nothing, so it syncs nothing.
    store
        .write(Durability::Full, 1, move |tx| workers::update_processes(tx, worker, None, None))
        .await
        .unwrap();
    let synced = async {
        while syncs().await.unwrap() == before {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), synced).await.expect("a FULL commit after a second");
}

#[tokio::test]
async fn a_turn_ends_once_and_only_one_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let (store, worker) = with_worker(&dir.path().join("state.db")).await;
    let open = |no: u64| Fact::TurnOpened {
        no,
        id: subagent_protocol::ids::TurnId::from_random([u8::try_from(no).unwrap(); 5]),
        carrier: subagent_protocol::state::Carrier::Runtime,
    };
    let close = |no| Fact::TurnClosed {
        no,
        status: subagent_protocol::state::TurnStatus::Completed,
        dispatched: subagent_protocol::state::Dispatched::Yes,
    };
    let store_facts = |facts: Vec<Fact>| {
        store.write(Durability::Full, 1, move |tx| facts::store(tx, worker, &facts, None, NOW).map(|_| ()))
    };
    store_facts(vec![open(1)]).await.unwrap();
    assert_eq!(store_facts(vec![open(2)]).await.unwrap_err().code, Code::StorageError);
    store_facts(vec![close(1)]).await.unwrap();
    assert_eq!(store_facts(vec![close(1)]).await.unwrap_err().code, Code::Internal);
    store_facts(vec![open(2)]).await.unwrap();
}

#[tokio::test]
async fn a_key_means_one_request() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_worker(&dir.path().join("state.db")).await;
    store.write(Durability::Full, 1, |tx| requests::remember(tx, "key", "a", "1", NOW)).await.unwrap();
    let recall = |fingerprint: &'static str| {
        store.read(move |connection| requests::recall(connection, "key", fingerprint))
    };
    assert_eq!(recall("a").await.unwrap().as_deref(), Some("1"));
    assert_eq!(recall("b").await.unwrap_err().code, Code::IdempotencyConflict);
}

#[tokio::test]
async fn names_with_a_meaning_in_uris_are_only_names() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("a?b#c%20d é");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("state.db");
    for _ in 0..2 {
        let store = Store::open(&path).unwrap();
        store.close().await;
    }
    assert!(path.metadata().unwrap().len() > 0);
}

/// Returns SQLite's query plan for the last events of these types.
async fn plan_of(store: &Store, hint: &str, condition: &str) -> String {
    let sql = format!(
        "EXPLAIN QUERY PLAN SELECT e.payload FROM events e {hint} WHERE e.worker = 1 AND e.internal = 0 {condition}
         ORDER BY e.seq DESC LIMIT 20"
    );
    let query = move |connection: &Connection| -> Result<Vec<String>> {
        let mut statement = connection.prepare(&sql).map_err(StoreError::from)?;
        let rows = statement.query_map([], |row| row.get(3)).map_err(StoreError::from)?;
        Ok(rows.collect::<rusqlite::Result<_>>().map_err(StoreError::from)?)
    };
    store.read(query).await.unwrap().join("; ")
}

#[tokio::test]
async fn a_look_back_never_reads_the_whole_table() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = with_worker(&dir.path().join("state.db")).await;
    for (condition, index) in [
        ("", "events_of_worker"),
        ("AND e.at >= 5", "events_of_worker"),
        ("AND e.seq > 5 AND e.seq <= 9", "events_of_worker (worker=? AND rowid>? AND rowid<?)"),
        ("AND e.turn = 3 AND e.seq BETWEEN 5 AND 9", "events_of_worker"),
        (
            "AND (e.type = 'turn.completed' OR e.type = 'progress.update' AND e.kind = 'plan')",
            "events_of_worker",
        ),
        ("AND e.kind IS NULL AND e.type IN ('turn.completed', 'turn.failed')", "milestones"),
    ] {
        let hint = if index == "milestones" { "INDEXED BY milestones" } else { "" };
        let plan = plan_of(&store, hint, condition).await;
        assert!(plan.contains(index) && !plan.contains("SCAN"), "{condition}: {plan}");
    }
}

#[tokio::test]
async fn the_latest_snapshot_is_the_one_that_knows_the_most() {
    let dir = tempfile::tempdir().unwrap();
    let (store, worker) = with_worker(&dir.path().join("state.db")).await;
    let row = |number: u8, up_to: i64| handoffs::HandoffRow {
        snapshot_id: subagent_protocol::ids::SnapshotId::from_random([number; 5]),
        up_to,
        handoff_path: String::new(),
        checkpoint_path: String::new(),
        created_at: NOW,
    };
    for (number, up_to, latest) in [(1, 7, 1), (2, 9, 2), (3, 8, 2), (4, 9, 4)] {
        let new = row(number, up_to);
        store.write(Durability::Full, 1, move |tx| handoffs::insert(tx, worker, &new)).await.unwrap();
        let found =
            store.read(move |connection| handoffs::latest(connection, worker)).await.unwrap().unwrap();
        assert_eq!(found.snapshot_id, row(latest, 0).snapshot_id);
    }
}

#[tokio::test]
async fn a_restart_and_a_hibernation_are_read_back_as_they_were_stored() {
    use subagent_core::model::{Hibernation, Restart};
    let dir = tempfile::tempdir().unwrap();
    let (store, id) = with_worker(&dir.path().join("state.db")).await;
    let hibernations =
        [Hibernation::None, Hibernation::Wanted { idle_seconds: 7 }, Hibernation::Begun].into_iter();
    for (hibernation, (restart, _)) in hibernations.zip(Restart::WORDS) {
        let worker =
            subagent_core::model::Worker { restart, hibernation, ..subagent_core::model::Worker::new() };
        let stored = worker.clone();
        let write = store
            .write(Durability::Full, 1, move |tx| workers::update(tx, id, &stored, Cursor::default(), NOW));
        write.await.unwrap();
        let read = store.read(move |connection| {
            let row = workers::list(connection, None)?.remove(0);
            workers::load(connection, &row)
        });
        assert_eq!(read.await.unwrap(), worker);
    }
}

#[tokio::test]
async fn a_failed_owner_lookup_does_not_count_as_no_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DATABASE);
    let (store, _) = with_worker(&path).await;
    store.close().await;
    drop(store);
    restore::may_replace(dir.path(), &OwnerCheck(None)).unwrap();
    // An exclusive lock prevents all reads.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE").unwrap();
    let error = restore::may_replace(dir.path(), &OwnerCheck(None)).unwrap_err();
    assert_eq!(error.code, Code::StorageError, "{error}");
    drop(other);
    // A damaged database has no owner.
    std::fs::write(&path, "damaged".repeat(2000)).unwrap();
    restore::may_replace(dir.path(), &OwnerCheck(None)).unwrap();
}

#[tokio::test]
async fn a_restore_waits_for_a_reader_of_the_database_it_replaces() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DATABASE);
    let (store, _) = with_worker(&path).await;
    store.close().await;
    drop(store);
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM workers").unwrap();
    let (done, settled) = std::sync::mpsc::channel();
    let state_dir = dir.path().to_owned();
    std::thread::spawn(move || done.send(restore::settle_replaced(&state_dir).map(drop)));
    let early = settled.recv_timeout(Duration::from_millis(300));
    assert!(early.is_err(), "it did not wait: {early:?}");
    drop(reader);
    settled.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
}

#[tokio::test]
async fn the_first_reader_rolls_back_what_a_killed_restore_began_in_the_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(DATABASE);
    let (store, _) = with_worker(&path).await;
    store.close().await;
    drop(store);
    // The state during a change in rollback mode: the database and its hot journal.
    let killed = tempfile::tempdir().unwrap();
    let database = killed.path().join(DATABASE);
    let writer = Connection::open(&path).unwrap();
    writer.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
    // Without syncs, the journal counts as complete at once.
    writer
        .execute_batch("PRAGMA synchronous = OFF; BEGIN IMMEDIATE; UPDATE workers SET label = 'half'")
        .unwrap();
    for name in [DATABASE, "state.db-journal"] {
        std::fs::copy(dir.path().join(name), killed.path().join(name)).unwrap();
    }
    drop(writer);
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let label = || -> rusqlite::Result<String> {
        Connection::open_with_flags(&database, flags)?
            .query_row("SELECT label FROM workers", [], |row| row.get(0))
    };
    label().unwrap_err();
    restore::may_replace(killed.path(), &OwnerCheck(None)).unwrap();
    assert_eq!(label().unwrap(), "worker");
    assert!(matches!(restore::settle_replaced(killed.path()).unwrap(), restore::Replaced::Readable));
}
