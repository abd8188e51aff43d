//! Tests which tasks are archived, and when, on a real file.

use super::*;
use crate::store::tasks::archive;
use crate::store::tasks::below::tests::{NOW, PlantedWorker, below, planted, root};
use crate::store::{Durability, RowId, Store, StoreError};

const DAY: i64 = 24 * HOUR;

/// Archives `later` milliseconds after `NOW`. Returns the keys of all archived tasks.
async fn look(store: &Store, later: i64) -> Vec<i64> {
    let now = Timestamp(NOW.0 + later);
    let any = store.read(move |connection| any_over(connection, now)).await.unwrap();
    let archived = store.write(Durability::Full, 1, move |tx| archive::archive_due(tx, now)).await.unwrap();
    assert_eq!(any, archived > 0);
    let listed = store.read(|connection| {
        let mut statement = connection
            .prepare("SELECT worker FROM tasks WHERE archived_at IS NOT NULL ORDER BY worker")
            .map_err(StoreError::from)?;
        let found = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect);
        Ok(found.map_err(StoreError::from)?)
    });
    listed.await.unwrap()
}

async fn change(store: &Store, sql: &'static str) {
    let change = move |tx: &mut Tx<'_>| Ok(tx.connection().execute_batch(sql).map_err(StoreError::from)?);
    store.write(Durability::Full, 1, change).await.unwrap();
}

async fn with(all: Vec<PlantedWorker>) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = planted(&folder.path().join("state.db"), all).await;
    (folder, store)
}

#[tokio::test]
async fn a_task_that_has_ended_is_archived_when_its_time_is_over() {
    let tree = vec![
        root(1),
        below(1, 2, "background").ended(),
        below(1, 3, "background").ended(),
        below(1, 4, "background"),
    ];
    let (_folder, store) = with(tree).await;
    change(&store, r#"UPDATE tasks SET terms = '{"ttlHours": 48}' WHERE worker = 3"#).await;
    assert_eq!(store.read(next_due).await.unwrap(), Some(Timestamp(NOW.0 + DAY)));
    assert_eq!(look(&store, DAY - 1).await, Vec::<i64>::new());
    assert_eq!(look(&store, DAY).await, [2], "what was not said is a day");
    assert_eq!(store.read(next_due).await.unwrap(), Some(Timestamp(NOW.0 + 2 * DAY)));
    assert_eq!(look(&store, 6 * DAY).await, [2, 3], "one that goes on is not over");
    let stopped: Vec<_> = store.read(to_stop).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(stopped, [RowId(2), RowId(3)]);
}

#[tokio::test]
async fn no_task_with_an_unreported_end_or_an_open_task_below_is_archived() {
    let tree = vec![
        root(1),
        below(1, 2, "background").ended(),
        below(2, 3, "background"),
        below(1, 4, "background").ended(),
    ];
    let (_folder, store) = with(tree).await;
    change(
        &store,
        "INSERT INTO task_deliveries (task, run, parent, task_id, name, status, text) VALUES (4, 1, 1, 'w', 'n', 'completed', 't')",
    )
    .await;
    assert_eq!(look(&store, 3 * DAY).await, Vec::<i64>::new());
    change(&store, "UPDATE task_deliveries SET turn_id = 'turn_1'").await;
    assert_eq!(look(&store, 3 * DAY).await, [4]);
    change(&store, "UPDATE tasks SET outcome = 'completed', completed_at = 1000 WHERE worker = 3").await;
    assert_eq!(look(&store, 3 * DAY).await, [2, 3, 4]);
}

#[tokio::test]
async fn an_orphan_is_archived_after_a_week_and_not_stopped() {
    let (_folder, store) = with(vec![root(1), below(1, 2, "background"), below(2, 3, "foreground")]).await;
    assert_eq!(look(&store, 30 * DAY).await, Vec::<i64>::new(), "its root is there");
    change(&store, "UPDATE workers SET state = 'stopped' WHERE id = 1").await;
    assert_eq!(look(&store, 7 * DAY - 1).await, Vec::<i64>::new());
    assert_eq!(look(&store, 7 * DAY).await, [2, 3]);
    assert!(store.read(to_stop).await.unwrap().is_empty(), "it may hold work");
}
