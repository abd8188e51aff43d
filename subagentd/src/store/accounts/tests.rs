//! Accounts of a tree of workers, on a real file.

use subagent_core::model::Fact;
use subagent_protocol::Code;

use super::*;
use crate::store::tasks::below::tests::{NOW, PlantedWorker, below, planted, root};
use crate::store::{Durability, Store, accounts, facts};
use serde_json::Value;

fn tree() -> Vec<PlantedWorker> {
    vec![root(1), below(1, 2, "background"), below(2, 3, "background")]
}

async fn spend(store: &Store, worker: i64, tokens: u64) {
    let facts = vec![Fact::Spent(Spent::Closed { tokens: Some(tokens) })];
    let spend = move |tx: &mut Tx<'_>| facts::store(tx, RowId(worker), &facts, None, NOW).map(drop);
    store.write(Durability::Full, 1, spend).await.unwrap();
}

async fn used(store: &Store, scope: Scope, key: i64) -> Value {
    let account = store.read(move |connection| account(connection, scope, RowId(key))).await.unwrap();
    account.view(NOW.0).tokens.used
}

async fn execute(store: &Store, sql: &'static str) {
    store.write(Durability::Full, 1, move |tx| tx.execute(sql, []).map(drop)).await.unwrap();
}

#[tokio::test]
async fn m6_what_a_task_uses_is_stored_for_every_worker_above_it_that_is_still_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = planted(&folder.path().join("state.db"), tree()).await;
    spend(&store, 3, 5).await;
    for (key, tokens) in [(1, 5), (2, 5), (3, 5)] {
        assert_eq!(used(&store, Scope::Worker, key).await, tokens, "worker {key}");
    }
    assert_eq!(used(&store, Scope::Controller, 1).await, 5);
    execute(&store, "UPDATE workers SET removed_at = 1 WHERE id = 2").await;
    execute(&store, "DELETE FROM accounts WHERE scope = 'worker' AND key = 2").await;
    spend(&store, 3, 2).await;
    let left = store.read(|connection| {
        let sql = "SELECT count(*) FROM accounts WHERE scope = 'worker' AND key = 2";
        Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(StoreError::from)?)
    });
    assert_eq!(left.await.unwrap(), 0, "nothing is made again of what was removed");
    assert_eq!(
        (used(&store, Scope::Worker, 1).await, used(&store, Scope::Controller, 1).await),
        (7.into(), 7.into())
    );
    execute(&store, r#"UPDATE accounts SET account = json_set(account, '$.limits', json('{"tokens": 7}')) WHERE scope = 'worker' AND key = 1"#).await;
    let asked =
        store.write(Durability::Full, 1, |tx| Ok(accounts::may_open_turn(tx, RowId(3), NOW).unwrap_err()));
    assert_eq!(asked.await.unwrap().code, Code::BudgetExceeded);
}
