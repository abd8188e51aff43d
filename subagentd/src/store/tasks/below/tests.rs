//! Tests which tasks below a worker are not wanted any more (M9), on a real file.

use subagent_core::model::{Fact, LifecycleState, TaskEnding};
use subagent_protocol::ids::{ControllerId, TurnId, WorkerId};
use subagent_protocol::state::{Carrier, Dispatched};
use subagent_protocol::time::Timestamp;

use super::*;
use crate::store::tasks::{self, below, ends, places};
use crate::store::{Durability, NewName, NewWorker, Store, accounts, controllers, facts, workers};

pub(in crate::store) const NOW: Timestamp = Timestamp(1_000);

/// A worker to insert. With a parent it has a task.
pub(in crate::store) struct PlantedWorker {
    pub(in crate::store) key: u8,
    pub(in crate::store) parent: Option<u8>,
    pub(in crate::store) mode: &'static str,
    pub(in crate::store) outcome: Option<&'static str>,
}

pub(in crate::store) const fn root(key: u8) -> PlantedWorker {
    PlantedWorker { key, parent: None, mode: "background", outcome: None }
}

pub(in crate::store) const fn below(parent: u8, key: u8, mode: &'static str) -> PlantedWorker {
    PlantedWorker { key, parent: Some(parent), mode, outcome: None }
}

impl PlantedWorker {
    pub(in crate::store) const fn ended(mut self) -> Self {
        self.outcome = Some("completed");
        self
    }

    fn insert(&self, tx: &mut Tx<'_>, controller: RowId) -> Result<()> {
        let worker = NewWorker {
            worker_id: WorkerId::from_random([self.key; 5]),
            controller,
            name: NewName::OfLauncher,
            label: "worker".to_owned(),
            launcher: "demo".to_owned(),
            role: "default".to_owned(),
            cwd: "/ws".to_owned(),
            spec: "{}".to_owned(),
            placeholder: "sess_0".to_owned(),
            state: LifecycleState::Idle,
            placement: None,
        };
        let id = workers::insert(tx, &worker, NOW)?;
        assert_eq!(id.0, i64::from(self.key), "they are planted in order");
        let parent = self.parent.map(|parent| RowId(i64::from(parent)));
        accounts::open(tx, id, controller, parent, subagent_protocol::budget::Limits::default())?;
        let Some(parent) = self.parent else { return Ok(()) };
        let name = format!("task {}", self.key);
        tx.execute(
            "INSERT INTO tasks (worker, parent, parent_id, root, root_id, controller, depth, name, folded, path, description, prompt,
                                mode, terms, metadata, max_active, outcome, created_at, completed_at, parent_turn)
             VALUES (?1, ?2, 'w_2', coalesce((SELECT root FROM tasks WHERE worker = ?2), ?2), 'w_1', ?3, 1, ?4, ?4, '[]', '', '', ?5, '{}', '{}', 6, ?6, ?7,
                     CASE WHEN ?6 IS NOT NULL THEN ?7 END, 1)",
            params![id.0, parent, controller.0, name, self.mode, self.outcome, NOW.0],
        )?;
        Ok(())
    }
}

/// A store with these workers.
pub(in crate::store) async fn planted(path: &std::path::Path, all: Vec<PlantedWorker>) -> Store {
    let store = Store::open(path).unwrap();
    let plant = move |tx: &mut Tx<'_>| {
        let controller = controllers::upsert(tx, &ControllerId::from_random([1; 5]), None, "/ws", NOW)?.id;
        all.iter().try_for_each(|planted| planted.insert(tx, controller))
    };
    store.write(Durability::Full, 1, plant).await.unwrap();
    store
}

/// Ends the first worker's turn with `end`, or stops it (`None`). Returns the tasks that should
/// end.
async fn wanted_after(all: Vec<PlantedWorker>, end: Option<TurnStatus>) -> Vec<i64> {
    let folder = tempfile::tempdir().unwrap();
    let store = planted(&folder.path().join("state.db"), all).await;
    wanted_in(&store, end).await
}

async fn wanted_in(store: &Store, end: Option<TurnStatus>) -> Vec<i64> {
    let id = TurnId::from_random([7; TurnId::BYTES]);
    let facts = match end {
        Some(status) => vec![
            Fact::TurnOpened { no: 1, id, carrier: Carrier::Runtime },
            Fact::TurnClosed { no: 1, status, dispatched: Dispatched::Yes },
        ],
        None => vec![Fact::DesiredStop],
    };
    store.write(Durability::Full, 1, move |tx| facts::store(tx, RowId(1), &facts, None, NOW)).await.unwrap();
    let wanted = store.read(|connection| wanted_below(connection, RowId(1))).await.unwrap();
    wanted.into_iter().map(|id| id.0).collect()
}

/// One task per mode, each with one task per mode below it.
fn tree() -> Vec<PlantedWorker> {
    vec![
        root(1),
        below(1, 2, "foreground"),
        below(1, 3, "background"),
        below(2, 4, "background"),
        below(2, 5, "foreground"),
        below(3, 6, "background"),
        below(3, 7, "foreground"),
    ]
}

#[tokio::test]
async fn m9_a_turn_that_was_canceled_or_a_stop_ends_everything_below() {
    for end in [Some(TurnStatus::Canceled), None] {
        assert_eq!(wanted_after(tree(), end).await, [2, 3, 4, 5, 6, 7], "{end:?}");
    }
}

#[tokio::test]
async fn m9_a_turn_that_ended_by_itself_ends_those_that_it_waited_for() {
    for status in [TurnStatus::Completed, TurnStatus::Failed] {
        assert_eq!(wanted_after(tree(), Some(status)).await, [2, 4, 5], "{status}");
    }
}

#[tokio::test]
async fn m9_a_turn_ends_nothing_that_another_turn_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = planted(&folder.path().join("state.db"), tree()).await;
    let end =
        |tx: &mut Tx<'_>| below::end(tx, RowId(1), TaskSelection::after(TurnStatus::Completed), Some(2));
    store.write(Durability::Full, 1, end).await.unwrap();
    assert_eq!(store.read(|connection| wanted_below(connection, RowId(1))).await.unwrap(), Vec::new());
}

#[tokio::test]
async fn m9_a_turn_neither_waits_for_nor_ends_tasks_that_another_caller_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let tree = vec![root(1), below(1, 2, "background"), below(2, 3, "foreground").ended()];
    let store = planted(&folder.path().join("state.db"), tree).await;
    let go_on = |tx: &mut Tx<'_>| {
        tx.execute("UPDATE tasks SET max_active = 1", [])?;
        tx.execute("UPDATE workers SET state = 'turn' WHERE id = 2", [])?;
        tasks::go_on(tx, RowId(3))?;
        let busy = places::may_take(tx, RowId(3)).unwrap_err();
        assert_eq!(busy.code, subagent_protocol::Code::WorkerBusy, "its parent has the place");
        below::end(tx, RowId(2), TaskSelection::after(TurnStatus::Completed), Some(1))
    };
    store.write(Durability::Full, 1, go_on).await.unwrap();
    assert_eq!(store.read(|connection| wanted_below(connection, RowId(2))).await.unwrap(), Vec::new());
}

#[tokio::test]
async fn m9_what_is_below_a_task_that_has_ended_is_ended_too() {
    let tree = || vec![root(1), below(1, 2, "background").ended(), below(2, 3, "background")];
    assert_eq!(wanted_after(tree(), Some(TurnStatus::Canceled)).await, [3]);
    assert_eq!(wanted_after(tree(), Some(TurnStatus::Completed)).await, Vec::<i64>::new());
}

#[tokio::test]
async fn m9_tasks_of_others_go_on() {
    let forest = vec![root(1), root(2), below(2, 3, "foreground"), below(3, 4, "background")];
    assert_eq!(wanted_after(forest, Some(TurnStatus::Canceled)).await, Vec::<i64>::new());
}

/// Returns how many results of task 3 are due to worker 2, whose own task has the columns `own`.
async fn due_to(own: &'static str, end: &'static [Fact]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let tree = vec![root(1), below(1, 2, "background"), below(2, 3, "background"), below(2, 4, "background")];
    let store = planted(&folder.path().join("state.db"), tree).await;
    let ended = move |tx: &mut Tx<'_>| {
        let worker = subagent_core::model::Worker::without_runtime();
        ends::settle(tx, RowId(3), &worker, NOW, &mut Vec::new())?;
        assert_eq!(ends::due(tx.connection(), RowId(2))?.len(), 1, "as long as it goes on");
        if !own.is_empty() {
            tx.execute(&format!("UPDATE tasks SET {own} WHERE worker = 2"), [])?;
        }
        facts::store(tx, RowId(2), end, None, NOW)?;
        ends::settle(tx, RowId(4), &worker, NOW, &mut Vec::new())
    };
    store.write(Durability::Full, 1, ended).await.unwrap();
    store.read(|connection| ends::due(connection, RowId(2))).await.unwrap().len()
}

#[tokio::test]
async fn m9_what_is_ended_from_outside_is_sent_nothing_more_that_would_have_it_go_on() {
    assert_eq!(due_to("outcome = 'completed'", &[]).await, 2);
    assert_eq!(due_to("outcome = 'failed'", &[]).await, 2);
    for own in [
        "outcome = 'cancelled'",
        "outcome = 'timed_out'",
        "outcome = 'max_iterations_reached'",
        "why = 'the turn above it was canceled'",
    ] {
        assert_eq!(due_to(own, &[]).await, 1, "nothing more: {own}");
    }
    assert_eq!(due_to("", &[Fact::TaskEnding(TaskEnding::TimedOut)]).await, 0, "nor of what ended before");
}

#[tokio::test]
async fn m9_with_the_end_of_a_task_from_outside_goes_what_it_was_not_sent_yet() {
    let folder = tempfile::tempdir().unwrap();
    let tree = vec![root(1), below(1, 2, "background"), below(2, 3, "background")];
    let store = planted(&folder.path().join("state.db"), tree).await;
    let ended = |tx: &mut Tx<'_>| {
        let worker = subagent_core::model::Worker::without_runtime();
        // Without any work done, the task counts as canceled.
        ends::settle(tx, RowId(3), &worker, NOW, &mut Vec::new())?;
        ends::settle(tx, RowId(2), &worker, NOW, &mut Vec::new())
    };
    store.write(Durability::Full, 1, ended).await.unwrap();
    let due = store.read(|connection| {
        Ok((ends::due(connection, RowId(2))?.len(), ends::due(connection, RowId(1))?.len()))
    });
    assert_eq!(due.await.unwrap(), (0, 1));
}

#[tokio::test]
async fn m6_who_has_used_up_its_budget_gives_no_work_but_in_its_last_turn() {
    let folder = tempfile::tempdir().unwrap();
    let store = planted(&folder.path().join("state.db"), vec![root(1)]).await;
    let limited = |limits: &'static str| {
        store.write(Durability::Full, 1, move |tx| {
            let sql = "UPDATE accounts SET account = json_set(account, '$.limits', json(?1), '$.turns', 1, '$.tokens', 9)
                       WHERE scope = 'worker' AND key = 1";
            tx.execute(sql, [limits])?;
            accounts::may_give_work(tx, RowId(1), NOW)
        })
    };
    limited(r#"{"turns": 1, "tokens": 10}"#).await.unwrap();
    assert_eq!(limited(r#"{"tokens": 9}"#).await.unwrap_err().code, subagent_protocol::Code::BudgetExceeded);
}

#[tokio::test]
async fn m9_what_is_below_a_task_that_was_removed_ends_with_the_root() {
    for (end, wanted) in
        [(Some(TurnStatus::Canceled), vec![3]), (None, vec![3]), (Some(TurnStatus::Completed), Vec::new())]
    {
        let folder = tempfile::tempdir().unwrap();
        let tree = vec![root(1), below(1, 2, "background").ended(), below(2, 3, "background")];
        let store = planted(&folder.path().join("state.db"), tree).await;
        let remove = |tx: &mut Tx<'_>| tx.execute("DELETE FROM tasks WHERE worker = 2", []);
        let _ = store.write(Durability::Full, 1, remove).await.unwrap();
        let rows = store.read(|connection| crate::store::workers::list(connection, None)).await.unwrap();
        let has_tasks: Vec<(i64, bool)> = rows.iter().map(|row| (row.id.0, row.agent.has_tasks)).collect();
        assert!(has_tasks.contains(&(1, true)) && has_tasks.contains(&(3, false)), "{has_tasks:?}");
        assert_eq!(wanted_in(&store, end).await, wanted, "{end:?}");
    }
}
