//! What `prune` and the retention must not remove: a restored state, data that only a wrong clock
//! calls old, data that only its owner may remove, unknown journals, running turns.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{Command, TestSandbox, wait_until};

use super::{SOON, count, database, days_earlier, stop_daemon, text, wait_until_deleted};

/// Whether this key of `meta` exists.
fn is_noted(sandbox: &TestSandbox, key: &str) -> bool {
    count(sandbox, &format!("SELECT count(*) FROM meta WHERE key = '{key}'")) > 0
}

fn owned(command: Command, granted: &Value) -> Command {
    let owner = &granted["owner"];
    command
        .env("SUBAGENT_CTL_ID", text(&owner["controllerId"]))
        .env("SUBAGENT_CTL_EPOCH", owner["epoch"].to_string())
        .env("SUBAGENT_CTL_TOKEN", text(&owner["token"]))
}

#[test]
fn a_restored_backup_is_as_young_as_the_restore() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "never");
    let _ = sandbox.init();
    let old = sandbox.start("demo");
    let _ = sandbox.send(&old, "hello");
    let _ = sandbox.run(&["worker", "stop", &old]).data_of("worker.stopped");
    stop_daemon(&sandbox);
    days_earlier(&sandbox, 400);
    // The clock is not in doubt.
    let young = sandbox.start("demo");
    assert_eq!(sandbox.run(&["prune", "--dry-run"]).data_of("state.pruned")["count"], 1);
    let file = sandbox.file_name("kept.db");
    let _ = sandbox.run(&["backup", &file]).data_of("state.backed_up");
    let _ = sandbox.run(&["restore", &file]).data_of("state.restored");
    let keys = count(&sandbox, "SELECT count(*) FROM requests");
    stop_daemon(&sandbox);
    sandbox.remove_env("SUBAGENT_RETENTION_DAYS");
    let _ = sandbox.show(&young);
    wait_until("the retention to check", SOON, || is_noted(&sandbox, "clock_trusted").then_some(()));
    let pruned = sandbox.run(&["prune"]).data_of("state.pruned");
    assert_eq!((&pruned["count"], &pruned["keys"], &pruned["leftovers"]), (&json!(0), &json!(0), &json!([])));
    assert_eq!(sandbox.show(&old)["state"], "stopped");
    assert!(count(&sandbox, "SELECT count(*) FROM requests") >= keys);
    // An explicit request removes it.
    stop_daemon(&sandbox);
    database(&sandbox)
        .execute_batch("UPDATE meta SET value = value - 2592000000 - 3600000 WHERE key = 'restored_at'")
        .unwrap();
    let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    wait_until_deleted(&sandbox, &old);
    sandbox.finish();
}

#[test]
fn a_clock_that_is_wrong_once_removes_nothing() {
    let sandbox = TestSandbox::new();
    let _ = sandbox.init();
    let old = sandbox.start("demo");
    let _ = sandbox.run(&["worker", "stop", &old]).data_of("worker.stopped");
    stop_daemon(&sandbox);
    // For the next daemon it is 40 days later.
    days_earlier(&sandbox, 40);
    let earlier = |key: &str, hours: i64| {
        let by = hours * 3_600_000;
        let sql = format!("UPDATE meta SET value = value - {by} WHERE key = '{key}'");
        assert_eq!(database(&sandbox).execute(&sql, []).unwrap(), 1, "{key}");
    };
    earlier("clock_trusted", 40 * 24);
    assert_eq!(sandbox.show(&old)["state"], "stopped");
    wait_until("the clock to be doubted", SOON, || is_noted(&sandbox, "clock_doubted").then_some(()));
    stop_daemon(&sandbox);
    assert_eq!(sandbox.show(&old)["state"], "stopped", "an hour later there must be no new message");
    assert!(sandbox.logs().contains("more than a week ahead of the last retention run"));
    stop_daemon(&sandbox);
    // The clock shows the same a day later.
    earlier("clock_doubted", 25);
    let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    wait_until_deleted(&sandbox, &old);
    assert!(!is_noted(&sandbox, "clock_doubted"));
    sandbox.finish();
}

#[test]
fn what_belongs_to_an_owner_needs_the_right_handle_also_if_no_worker_is_concerned() {
    let sandbox = TestSandbox::new();
    let stale = sandbox.run(&["controller", "init", "--require-handle"]).data_of("controller.initialized");
    let granted = sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    stop_daemon(&sandbox);
    database(&sandbox).execute("UPDATE requests SET created_at = created_at - 3000000000", []).unwrap();
    let left = sandbox.state_dir().join("handoffs/w_00000000aa");
    fs::create_dir_all(&left).unwrap();
    // The daemon's own retention would be faster.
    let sandbox = {
        let mut sandbox = sandbox;
        sandbox.set_env("SUBAGENT_RETENTION_DAYS", "never");
        sandbox
    };
    let keys = count(&sandbox, "SELECT count(*) FROM requests");
    assert!(keys > 0);
    let mut forged = granted.clone();
    forged["owner"]["token"] = json!("0".repeat(32));
    let mut foreign = granted.clone();
    foreign["owner"]["controllerId"] = json!("ctl_0000000000");
    let prune = || sandbox.subagent(&["prune", "--older-than", "0"]);
    for wrong in [prune(), owned(prune(), &stale), owned(prune(), &forged), owned(prune(), &foreign)] {
        let _ = wrong.run().error("INVALID_CONTROLLER_HANDLE");
        assert!(left.exists());
        assert_eq!(count(&sandbox, "SELECT count(*) FROM requests"), keys);
    }
    let pruned = owned(prune(), &granted).run().data_of("state.pruned");
    assert_eq!(pruned["keys"], keys);
    assert!(!left.exists());
    sandbox.finish();
}

#[test]
fn journals_of_unknown_workers_stay_and_what_a_restore_replaced_goes() {
    let mut sandbox = TestSandbox::new();
    // The retention of the daemon that the first command starts would be equally fast.
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "never");
    let _ = sandbox.init();
    let state = sandbox.state_dir().to_owned();
    let make = |name: &str| {
        let path = state.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "text").unwrap();
    };
    let kept = [
        "runtimes/w_00000000aa/1.journal",
        "runtimes/w_00000000aa.log",
        "state.db.replaced-by-me",
        "state.db.replaced-2999-01-01T00-00-00-00-00",
    ];
    let gone = [
        "runtimes/w_00000000ab/agent.txt",
        "runtimes.replaced-2020-01-02T03-04-05-00-00/w_00000000ac/1.journal",
        "state.db.replaced-2020-01-02T03-04-05-00-00",
        "state.db.replaced-2020-01-02T03-04-05-00-00-wal",
        "state.db.replaced-2020-01-02T03-04-05-00-00.1",
    ];
    kept.iter().chain(&gone).for_each(|name| make(name));
    let pruned = sandbox.run(&["prune", "--older-than", "0"]).data_of("state.pruned");
    assert_eq!(pruned["leftovers"].as_array().unwrap().len(), gone.len(), "{pruned}");
    assert_eq!(pruned["bytes"], 4 * gone.len());
    gone.iter().for_each(|name| assert!(!state.join(name).exists(), "{name}"));
    kept.iter().for_each(|name| assert!(state.join(name).exists(), "{name}"));
    // The retention does the same.
    gone.iter().for_each(|name| make(name));
    stop_daemon(&sandbox);
    sandbox.remove_env("SUBAGENT_RETENTION_DAYS");
    let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    wait_until("old replaced databases to be removed", SOON, || {
        gone[1..].iter().all(|name| !state.join(name).exists()).then_some(())
    });
    kept.iter().for_each(|name| assert!(state.join(name).exists(), "{name}"));
    // Removed by hand, as the doctor advises.
    fs::remove_dir_all(state.join("runtimes/w_00000000aa")).unwrap();
    sandbox.finish();
}

#[test]
fn a_turn_that_runs_is_not_disturbed() {
    let sandbox = TestSandbox::new();
    let _ = sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "!chunks 200 old");
    let gate = sandbox.gate("turn");
    let directive = format!("!say begun\n{}\n!chunks 50 new", gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &directive);
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    stop_daemon(&sandbox);
    // Old but still running: concurrent with the next daemon's retention and a prune of everything.
    days_earlier(&sandbox, 40);
    let pruned = sandbox.run(&["prune", "--older-than", "0"]).data_of("state.pruned");
    assert_eq!(pruned["count"], 0);
    let mark = format!("SELECT expired_seq FROM workers WHERE worker_id = '{worker}'");
    wait_until("old events to be marked", SOON, || (count(&sandbox, &mark) > 0).then_some(()));
    gate.open();
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["type"], "turn.completed", "{end}");
    let shown = sandbox.events(&worker);
    let of_turn = shown.iter().filter(|event| event["turnId"] == accepted["turnId"]);
    let types: Vec<&str> = of_turn.map(|event| text(&event["type"])).collect();
    assert_eq!(types.first(), Some(&"turn.started"));
    assert_eq!(types.iter().filter(|kind| **kind == "progress.message").count(), 51, "{types:?}");
    assert_eq!(sandbox.send(&worker, "and on")["assistantText"], "and on");
    sandbox.check();
    sandbox.finish();
}

#[test]
fn two_at_once_share_what_there_is() {
    let sandbox = TestSandbox::new();
    let _ = sandbox.init();
    let workers: Vec<String> = (0..6).map(|_| sandbox.start("demo")).collect();
    for worker in &workers {
        let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    }
    let prunes: Vec<_> = (0..4).map(|_| sandbox.subagent(&["prune", "--older-than", "0"]).spawn()).collect();
    let mut claimed: Vec<String> = Vec::new();
    for prune in prunes {
        let pruned = prune.output().data_of("state.pruned");
        let items = pruned["items"].as_array().unwrap();
        assert_eq!(pruned["count"], items.len());
        claimed.extend(items.iter().map(|item| text(&item["workerId"]).to_owned()));
    }
    claimed.sort();
    let mut all = workers;
    all.sort();
    assert_eq!(claimed, all, "each is claimed once");
    sandbox.finish();
}

#[test]
fn a_retention_that_fails_keeps_nothing_that_was_removed() {
    let sandbox = TestSandbox::new();
    let _ = sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    stop_daemon(&sandbox);
    days_earlier(&sandbox, 20);
    database(&sandbox)
        .execute_batch(
            "UPDATE requests SET created_at = created_at - 3000000000;
             CREATE TRIGGER broken BEFORE DELETE ON requests BEGIN SELECT raise(ABORT, 'broken'); END",
        )
        .unwrap();
    let _ = sandbox.run(&["worker", "rm", &worker]).data_of("worker.removed");
    wait_until_deleted(&sandbox, &worker);
    // It may arrive a moment later.
    wait_until("the failure to be reported", SOON, || {
        sandbox.logs().contains("old data cannot be deleted").then_some(())
    });
    database(&sandbox).execute_batch("DROP TRIGGER broken").unwrap();
    sandbox.finish();
}
