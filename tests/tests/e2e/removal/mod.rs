//! `worker rm`, `prune`, and the retention: removed data is gone everywhere, kept data is complete,
//! in spite of any kill.

mod faults;
mod prune;
mod retention;
mod rm;
mod spared;

use std::time::Duration;

use rusqlite::Connection;
use serde_json::Value;
use subagent_tests::harness::{TestSandbox, wait_until};

/// Deleting continues in the background.
const SOON: Duration = Duration::from_secs(30);

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Opens the database file.
fn database(sandbox: &TestSandbox) -> Connection {
    let database = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    database.busy_timeout(Duration::from_secs(10)).unwrap();
    database
}

pub(crate) fn count(sandbox: &TestSandbox, sql: &str) -> i64 {
    database(sandbox).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Waits until nothing of a removed worker is left in the database and the folders.
#[track_caller]
fn wait_until_deleted(sandbox: &TestSandbox, worker: &str) {
    let state = sandbox.state_dir();
    let places =
        [format!("runtimes/{worker}"), format!("runtimes/{worker}.log"), format!("handoffs/{worker}")];
    wait_until("everything of the worker to be deleted", SOON, || {
        let row = format!("SELECT count(*) FROM workers WHERE worker_id = '{worker}'");
        let left = places.iter().any(|place| state.join(place).exists()) || count(sandbox, &row) > 0;
        (!left).then_some(())
    });
}

/// Moves all stored times back by this number of days. The daemon must not run.
pub(crate) fn days_earlier(sandbox: &TestSandbox, days: i64) {
    let by = days * 24 * 3600 * 1000;
    let sql = format!(
        "UPDATE events SET at = at - {by};
         UPDATE workers SET stopped_at = stopped_at - {by}, created_at = created_at - {by};
         UPDATE requests SET created_at = created_at - {by}"
    );
    database(sandbox).execute_batch(&sql).unwrap();
}

pub(crate) fn stop_daemon(sandbox: &TestSandbox) {
    let stopped = sandbox.command("subagentd").args(["stop", "--json"]).run();
    assert!(stopped.status.success(), "{stopped}");
}
