//! Tests of names on a real store: the name of a new worker, and address matching.

use std::path::Path;

use subagent_core::model::LifecycleState;
use subagent_protocol::ids::ControllerId;
use subagent_protocol::time::Timestamp;

use super::*;
use crate::store::workers::{self, names};
use crate::store::{Durability, NewWorker, Store, controllers, removal};

const NOW: Timestamp = Timestamp(1_000);

async fn insert(store: &Store, number: u8, launcher: &str, name: NewName) -> Result<RowId> {
    let launcher = launcher.to_owned();
    let write = store.write(Durability::Full, 1, move |tx| {
        let id = ControllerId::from_random([1; 5]);
        let controller = controllers::upsert(tx, &id, Some("label"), "/ws", NOW)?;
        let worker = NewWorker {
            worker_id: WorkerId::from_random([0xab, 0, 0, 0, number]),
            controller: controller.id,
            name,
            label: "worker".to_owned(),
            launcher,
            role: "default".to_owned(),
            cwd: "/ws".to_owned(),
            spec: "{}".to_owned(),
            placeholder: "sess_0".to_owned(),
            state: LifecycleState::Stopped,
            placement: None,
        };
        workers::insert(tx, &worker, NOW)
    });
    write.await
}

async fn name_of(store: &Store, id: RowId) -> String {
    let read = store.read(move |connection| {
        let sql = "SELECT name FROM workers WHERE id = ?1";
        rows::one(connection, sql, [id.0], |row| row.get(0))
    });
    read.await.unwrap()
}

fn store(folder: &Path) -> Store {
    Store::open(&folder.join("state.db")).unwrap()
}

#[tokio::test]
async fn a_worker_gets_the_smallest_free_number_of_its_launcher() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let launcher = |number, launcher| insert(&store, number, launcher, NewName::OfLauncher);
    let first = launcher(1, "codex").await.unwrap();
    let second = launcher(2, "Codex").await.unwrap();
    assert_eq!(name_of(&store, first).await, "codex-1");
    assert_eq!(name_of(&store, second).await, "Codex-2", "case does not make a name another one");
    let marked = store.write(Durability::Full, 1, move |tx| removal::mark(tx, first, NOW)).await;
    assert!(marked.unwrap());
    let third = launcher(3, "codex").await.unwrap();
    assert_eq!(name_of(&store, third).await, "codex-1", "a removed worker has no name");
    let other = launcher(4, "codex-1").await.unwrap();
    assert_eq!(name_of(&store, other).await, "codex-1-1");
    let chosen = insert(&store, 5, "codex", NewName::Chosen("codex-3".to_owned())).await.unwrap();
    assert_eq!(name_of(&store, chosen).await, "codex-3");
    let next = launcher(6, "codex").await.unwrap();
    assert_eq!(name_of(&store, next).await, "codex-4");
}

#[tokio::test]
async fn a_name_belongs_to_one_worker() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let auth = insert(&store, 1, "codex", NewName::Chosen("auth".to_owned())).await.unwrap();
    let taken = insert(&store, 2, "codex", NewName::Chosen("AUTH".to_owned())).await.unwrap_err();
    assert_eq!((taken.code, &taken.details["workerId"]), (Code::NameTaken, &"w_ab00000001".into()));
    let other = insert(&store, 3, "codex", NewName::OfLauncher).await.unwrap();
    let rename =
        |id, name: &'static str| store.write(Durability::Full, 1, move |tx| names::rename(tx, id, name));
    assert_eq!(rename(other, "Auth").await.unwrap_err().code, Code::NameTaken);
    rename(auth, "Auth").await.expect("it is its own");
    rename(auth, "login").await.unwrap();
    rename(other, "auth").await.expect("it is free again");
    let of_task = store.write(Durability::Full, 1, move |tx| names::name_after_task(tx, auth, "auth"));
    of_task.await.unwrap();
    assert_eq!(name_of(&store, auth).await, "auth-2");
}

#[tokio::test]
async fn the_beginning_of_an_id_fits_the_workers_that_are_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let first = insert(&store, 1, "codex", NewName::OfLauncher).await.unwrap();
    insert(&store, 2, "codex", NewName::OfLauncher).await.unwrap();
    let fits = |prefix: &'static str| store.read(move |connection| by_id_prefix(connection, prefix));
    let names = |found: Vec<AddressMatch>| found.into_iter().map(|found| found.name).collect::<Vec<_>>();
    assert_eq!(names(fits("w_ab").await.unwrap()), ["codex-2", "codex-1"]);
    assert_eq!(names(fits("w_ab00000002").await.unwrap()), ["codex-2"]);
    assert_eq!(names(fits("w_ac").await.unwrap()), [""; 0]);
    let marked = store.write(Durability::Full, 1, move |tx| removal::mark(tx, first, NOW)).await;
    assert!(marked.unwrap());
    assert_eq!(names(fits("w_ab").await.unwrap()), ["codex-2"]);
    assert_eq!(store.read(changed_last).await.unwrap().as_deref(), Some("w_ab00000002"));
}
