//! Tests of the command `prune`.

use std::fs;

use serde_json::json;
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

use super::{SOON, count, database, days_earlier, stop_daemon, text, wait_until_deleted};

#[test]
fn it_removes_what_has_been_stopped_for_longer_and_says_what() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "never");
    let _ = sandbox.init();
    let [old, running, new] = ["old", "running", "new"].map(|label| {
        let started = sandbox.run(&["worker", "start", "--label", label]).data_of("worker.started");
        text(&started["workerId"]).to_owned()
    });
    let _ = sandbox.send(&old, "!chunks 20 text");
    let events = sandbox.events(&old).len();
    let _ = sandbox.run(&["worker", "stop", &old]).data_of("worker.stopped");
    let _ = sandbox.send(&running, "hello");
    stop_daemon(&sandbox);
    days_earlier(&sandbox, 40);
    let _ = sandbox.run(&["worker", "stop", &new]).data_of("worker.stopped");
    let shape = json!({
        "dryRun": true, "olderThanSeconds": 2_592_000, "count": 1, "events": events + 1, "bytes": "int", "keys": "int",
        "leftovers": [],
        "items": [{
            "workerId": format!("={old}"), "controllerId": "ctl", "label": "=old", "stoppedAt": "ts",
            "events": events + 1, "bytes": "int",
        }],
    });
    let dry = sandbox.run(&["prune", "--dry-run"]).data_of("state.pruned");
    assert_shape(&dry, &shape);
    assert!(dry["bytes"].as_u64().unwrap() > 1000 && dry["keys"].as_u64().unwrap() > 3, "{dry}");
    assert_eq!(sandbox.show(&old)["state"], "stopped", "nothing was done");
    assert_eq!(sandbox.run(&["prune", "--older-than", "41d"]).data_of("state.pruned")["count"], 0);
    let pruned = sandbox.run(&["prune"]).data_of("state.pruned");
    assert_eq!(pruned["items"], dry["items"]);
    assert_eq!((&pruned["keys"], &pruned["dryRun"]), (&dry["keys"], &json!(false)));
    let _ = sandbox.run(&["worker", "show", &old]).error("WORKER_NOT_FOUND");
    wait_until_deleted(&sandbox, &old);
    // Keys of the last day stay, even if a removed worker is younger.
    let before = count(&sandbox, "SELECT count(*) FROM requests");
    let _ = sandbox.run(&["prune", "--older-than", "0"]).data_of("state.pruned");
    assert_eq!(count(&sandbox, "SELECT count(*) FROM requests"), before + 1);
    wait_until_deleted(&sandbox, &new);
    let left = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!((&left["count"], &left["items"][0]["workerId"]), (&json!(1), &json!(running)));
    assert_eq!(sandbox.send(&running, "still here")["assistantText"], "still here");
    sandbox.finish();
}

#[test]
fn many_are_removed_in_several_steps_and_all_of_them_are_reported() {
    const MANY: i64 = 250;
    let sandbox = TestSandbox::new();
    let _ = sandbox.init();
    let [one, running] = [(), ()].map(|()| sandbox.start("demo"));
    let _ = sandbox.run(&["worker", "stop", &one]).data_of("worker.stopped");
    stop_daemon(&sandbox);
    let database = database(&sandbox);
    let columns: String = database
        .query_row(
            "SELECT group_concat(name) FROM pragma_table_info('workers') WHERE name NOT IN ('id', 'worker_id', 'name', 'name_key')",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let more = format!(
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {MANY} - 1)
         INSERT INTO workers (worker_id, {columns})
           SELECT printf('w_%010x', n), {columns} FROM n, workers WHERE worker_id = '{one}';
         INSERT INTO journal_cursors (worker) SELECT id FROM workers WHERE id NOT IN (SELECT worker FROM journal_cursors);
         UPDATE meta SET value = (SELECT max(id) FROM workers) WHERE key = 'worker_key'"
    );
    database.execute_batch(&more).unwrap();
    let dry = sandbox.run(&["prune", "--older-than", "0", "--dry-run"]).data_of("state.pruned");
    assert_eq!(dry["count"], MANY, "{dry}");
    let pruned = sandbox.run(&["prune", "--older-than", "0"]).data_of("state.pruned");
    assert_eq!(pruned["items"], dry["items"]);
    assert_eq!(pruned["items"].as_array().unwrap().len(), usize::try_from(MANY).unwrap());
    assert_eq!(count(&sandbox, "SELECT count(*) FROM removed_workers"), MANY);
    wait_until("all rows to be deleted", SOON, || {
        (count(&sandbox, "SELECT count(*) FROM workers") == 1).then_some(())
    });
    let left = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!((&left["count"], &left["items"][0]["workerId"]), (&json!(1), &json!(running)));
    sandbox.finish();
}

#[test]
fn files_of_unknown_workers_are_removed_too() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.run(&["worker", "handoff", "--worker-id", &worker]).data_of("worker.handoff.ready");
    let state = sandbox.state_dir();
    let strays = [
        "handoffs/w_00000000aa",
        "runtimes/w_00000000aa",
        "runtimes/w_00000000ab.log",
        "runtimes/w_00000000ab.log.1",
    ];
    for stray in &strays[..2] {
        fs::create_dir_all(state.join(stray).join("below")).unwrap();
    }
    strays[2..].iter().for_each(|stray| fs::write(state.join(stray), "text").unwrap());
    let others = ["handoffs/notes", "runtimes/w_x"];
    others.iter().for_each(|other| fs::create_dir_all(state.join(other)).unwrap());
    let mut paths = strays.map(|stray| state.join(stray).display().to_string());
    paths.sort();
    assert_eq!(sandbox.run(&["prune"]).data_of("state.pruned")["leftovers"], json!([]), "they are new");
    let pruned = sandbox.run(&["prune", "--older-than", "0"]).data_of("state.pruned");
    let mut found: Vec<&str> = pruned["leftovers"].as_array().unwrap().iter().map(text).collect();
    found.sort_unstable();
    assert_eq!(found, paths);
    assert_eq!(pruned["bytes"], 8);
    assert!(strays.iter().all(|stray| !state.join(stray).exists()));
    for kept in others.iter().chain(&[&*format!("handoffs/{worker}"), &format!("runtimes/{worker}")]) {
        assert!(state.join(kept).exists(), "{kept}");
    }
    sandbox.finish();
}

#[test]
fn a_runtime_whose_worker_the_store_has_forgotten_keeps_its_folder() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    let runtime = sandbox.runtime(&worker);
    stop_daemon(&sandbox);
    // As after a restore of an old copy of the database.
    let database = database(&sandbox);
    let dump = "ATTACH ':memory:' AS kept; CREATE TABLE kept.workers AS SELECT * FROM main.workers;
                PRAGMA foreign_keys = OFF; DELETE FROM main.workers";
    database.execute_batch(dump).unwrap();
    let pruned = sandbox.run(&["prune", "--older-than", "0"]).data_of("state.pruned");
    assert_eq!(pruned["leftovers"], json!([]));
    assert!(runtime.lives());
    stop_daemon(&sandbox);
    database.execute_batch("INSERT INTO main.workers SELECT * FROM kept.workers").unwrap();
    drop(database);
    assert_eq!(sandbox.send(&worker, "there again")["assistantText"], "there again");
    sandbox.finish();
}

#[test]
fn what_people_and_scripts_read() {
    let sandbox = TestSandbox::new();
    let empty = json!({
        "dryRun": false, "olderThanSeconds": 3600, "count": 0, "events": 0, "bytes": 0, "keys": 0, "items": [],
        "leftovers": [],
    });
    assert_shape(&sandbox.run(&["prune", "--older-than", "1h"]).data_of("state.pruned"), &empty);
    assert!(sandbox.find_daemon().is_none(), "there is nothing to look at");
    let _ = sandbox.init();
    assert_shape(&sandbox.run(&["prune", "--older-than", "1h"]).data_of("state.pruned"), &empty);
    let output = sandbox.command("subagent").args(["prune", "--dry-run"]).run();
    assert_eq!(output.text(), "dryRun: true\nworkers: 0\nevents: 0\nbytes: 0\nkeys: 0\nleftovers: 0\n");
    for wrong in ["", "30", "-1d", "1w", "x", "36601d"] {
        let output = sandbox.command("subagent").args(["prune", "--older-than", wrong]).run();
        assert_eq!(output.status.code(), Some(2), "{output}");
    }
    sandbox.finish();
}
