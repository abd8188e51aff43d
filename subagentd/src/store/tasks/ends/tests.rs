//! Tests who receives the result of a task, on a real file.

use super::*;
use crate::store::tasks::below::tests::{NOW, below, planted, root};
use crate::store::tasks::ends;
use crate::store::{Durability, Store, facts};

/// A root with background task 2, which has background task 3, after the SQL `change`.
async fn tree(folder: &tempfile::TempDir, change: &'static str) -> Store {
    let all = vec![root(1), below(1, 2, "background"), below(2, 3, "background")];
    let store = planted(&folder.path().join("state.db"), all).await;
    let change =
        move |tx: &mut Tx<'_>| Ok(tx.connection().execute_batch(change).map_err(StoreError::from)?);
    store.write(Durability::Full, 1, change).await.unwrap();
    store
}

/// Settles a task whose worker has nothing left to do.
async fn settle(store: &Store, task: i64) {
    let settle = move |tx: &mut Tx<'_>| {
        ends::settle(tx, RowId(task), &Worker::without_runtime(), NOW, &mut Vec::new())
    };
    store.write(Durability::Full, 1, settle).await.unwrap();
}

async fn due_to(store: &Store, parent: i64) -> Vec<i64> {
    let due = store.read(move |connection| due(connection, RowId(parent))).await.unwrap();
    due.into_iter().map(|due| due.task.0).collect()
}

#[tokio::test]
async fn m8_a_parent_that_goes_on_or_has_completed_is_notified() {
    for change in ["", "UPDATE tasks SET outcome = 'completed' WHERE worker = 2"] {
        let folder = tempfile::tempdir().unwrap();
        let store = tree(&folder, change).await;
        settle(&store, 3).await;
        assert_eq!(due_to(&store, 2).await, [3], "{change}");
    }
}

#[tokio::test]
async fn m9_who_was_ended_is_not_woken_by_the_ends_below() {
    for change in [
        "UPDATE tasks SET ending = 'cancelled' WHERE worker = 2",
        "UPDATE tasks SET why = 'the turn above it was canceled' WHERE worker = 2",
        "UPDATE tasks SET outcome = 'max_iterations_reached' WHERE worker = 2",
        "UPDATE tasks SET outcome = 'timed_out' WHERE worker = 2",
        "UPDATE tasks SET why = 'the turn above it was canceled' WHERE worker = 3",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = tree(&folder, change).await;
        settle(&store, 3).await;
        store
            .write(Durability::Full, 1, |tx| {
                tx.execute("UPDATE tasks SET ending = NULL, why = NULL, outcome = NULL WHERE worker = 2", [])
            })
            .await
            .unwrap();
        assert_eq!(due_to(&store, 2).await, Vec::<i64>::new(), "{change}");
    }
}

#[tokio::test]
async fn m9_what_was_due_to_a_task_is_gone_as_soon_as_it_is_being_ended() {
    let folder = tempfile::tempdir().unwrap();
    let store = tree(&folder, "").await;
    settle(&store, 3).await;
    let end = |tx: &mut Tx<'_>| {
        facts::store(
            tx,
            RowId(2),
            &[Fact::TaskEnding(subagent_core::model::TaskEnding::Cancelled)],
            None,
            NOW,
        )
    };
    store.write(Durability::Full, 1, end).await.unwrap();
    assert_eq!(due_to(&store, 2).await, Vec::<i64>::new());
    settle(&store, 2).await;
    let left = store.read(|connection| is_due(connection, RowId(3))).await.unwrap();
    assert!(!left, "it would begin another run");
    assert_eq!(due_to(&store, 1).await, [2], "who is above it hears of its end");
}
