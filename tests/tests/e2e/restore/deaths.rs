//! Deaths, hangs and failures during a restore: the database is the old one or the new one, never
//! neither and never a mixture.

use std::path::Path;
use std::time::Duration;

use subagent_tests::harness::{Faults, TestSandbox, crowd, times, wait_until};

use super::{KnownBackup, keep, kept, left_over, restore, saved, saved_after_a_turn};

/// The failpoints where a restore is killed.
const POINTS: &[&str] = &[
    "restore.before_look",
    "restore.before_carry_over",
    "restore.before_rename",
    "restore.after_exchange",
    "restore.after_rename",
];
/// Number of concurrent cases, which mostly wait for processes.
const WIDTH: usize = 5;
/// Time limit for reaching a failpoint.
const LIMIT: Duration = Duration::from_secs(30);

/// After a restore has died, the database is the old one, or the new one if the names were
/// exchanged. An undisturbed restore then finds everything.
fn all_is_well(sandbox: &TestSandbox, worker: &str, saved: &KnownBackup, point: &str) {
    let exchanged = point.starts_with("restore.after");
    assert_eq!(kept(sandbox), usize::from(point == "restore.after_rename"), "{point}");
    if exchanged {
        sandbox.recorder().go_back_to(saved.known.clone());
    }
    sandbox.check();
    assert_eq!(sandbox.send(worker, "two")["assistantText"], "two", "{point}");
    sandbox.check();
    restore(sandbox, saved, &[]);
    assert_eq!(left_over(sandbox), Vec::<String>::new(), "{point}");
    assert_eq!(kept(sandbox), 1 + usize::from(exchanged), "{point}: the old database was lost");
    assert_eq!(sandbox.send(worker, "three")["assistantText"], "three", "{point}");
}

#[test]
fn a_restore_that_dies_leaves_the_old_database_or_the_new_one() {
    crowd(
        "restore, abort",
        WIDTH,
        POINTS,
        |point| (*point).to_owned(),
        |point| {
            let (sandbox, worker, saved) = saved();
            let _ = sandbox.send(&worker, "one");
            let armed = format!("{point}=abort");
            let died = sandbox.subagent(&["restore", &saved.file]).env("SUBAGENT_FAILPOINTS", armed).run();
            assert_eq!(died.status.code(), None, "{point} was never reached: {died}");
            all_is_well(&sandbox, &worker, &saved, point);
            sandbox.finish();
        },
    );
}

#[test]
fn a_restore_that_is_killed_while_it_hangs_leaves_the_old_database_or_the_new_one() {
    crowd(
        "restore, hang",
        WIDTH,
        POINTS,
        |point| (*point).to_owned(),
        |point| {
            let (sandbox, worker, saved) = saved();
            let _ = sandbox.send(&worker, "one");
            let once = sandbox.file("reached");
            let hanging = sandbox
                .subagent(&["restore", &saved.file])
                .env("SUBAGENT_FAILPOINTS", format!("{point}=hang"))
                .env("SUBAGENT_FAILPOINTS_ONCE", &once)
                .spawn();
            wait_until("the restore to hang", LIMIT, || once.exists().then_some(()));
            if *point == "restore.before_rename" && times(1) > 1 {
                // No daemon can start meanwhile, and a command reports the reason at its deadline.
                let reported = sandbox.run(&["worker", "list"]).error("DAEMON_START_FAILED");
                assert!(reported["message"].as_str().unwrap().contains("restoring a backup"), "{reported}");
                assert_eq!(reported["retryable"], true);
                assert!(sandbox.find_daemon().is_none());
            }
            assert_eq!(hanging.kill(), "");
            all_is_well(&sandbox, &worker, &saved, point);
            sandbox.finish();
        },
    );
}

/// Asserts the error of a restore with these failpoints, which then has no effect.
#[track_caller]
fn fails(sandbox: &TestSandbox, file: &str, armed: &str, code: &str) {
    let failed = sandbox.subagent(&["restore", file]).env("SUBAGENT_FAILPOINTS", armed).run();
    nothing_happened(sandbox, &failed.error(code), armed);
}

#[track_caller]
fn nothing_happened(sandbox: &TestSandbox, error: &serde_json::Value, why: &str) {
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    assert_eq!(kept(sandbox), 0, "{why}: the backup was kept as a replaced database");
    assert_eq!(left_over(sandbox), Vec::<String>::new(), "{why}");
}

#[test]
fn a_rename_that_fails_leaves_the_old_database() {
    let (sandbox, worker, KnownBackup { file, .. }) = saved();
    let _ = sandbox.send(&worker, "one");
    let events = sandbox.events(&worker);
    let point = "restore.before_rename=error";
    let failed = sandbox.subagent(&["restore", &file]).env("SUBAGENT_FAILPOINTS", point).run();
    let error = failed.error("STORAGE_ERROR");
    assert!(Path::new(error["details"]["path"].as_str().unwrap()).ends_with("state.db"), "{error}");
    assert!(error["details"]["daemon"]["pid"].is_number(), "{error}");
    nothing_happened(&sandbox, &error, point);
    assert_eq!(sandbox.events(&worker), events);
    assert_eq!(sandbox.send(&worker, "two")["assistantText"], "two");
    sandbox.finish();
}

#[test]
fn a_disk_that_is_full_leaves_the_old_database() {
    let (mut sandbox, worker, KnownBackup { file, .. }) = saved_after_a_turn();
    let events = sandbox.events(&worker);
    for armed in [
        "restore.before_write=error(28)",
        "restore.before_rename=error(28)",
        "restore.before_rename=error(38);restore.before_copy=error(28)",
    ] {
        fails(&sandbox, &file, armed, "STORAGE_FULL");
        assert_eq!(sandbox.events(&worker), events, "{armed}");
    }
    // While the copy is made, at any write by SQLite.
    for nth in 1..=4 {
        let rule = format!("op=write;path=*/state.db.restoring*;errno=ENOSPC;nth={nth};count=1000");
        let faults = Faults::arm(&mut sandbox, &[rule]);
        let error = sandbox.run(&["restore", &file]).error("STORAGE_FULL");
        assert!(faults.counted(0).1 > 0, "the write {nth} did not fail");
        faults.disarm(&mut sandbox);
        nothing_happened(&sandbox, &error, &format!("the write {nth}"));
        assert_eq!(sandbox.events(&worker), events, "the write {nth}");
    }
    assert_eq!(sandbox.send(&worker, "two")["assistantText"], "two");
    sandbox.finish();
}

#[test]
fn where_two_files_cannot_be_exchanged_the_old_one_is_copied_first() {
    // The file system or the kernel does not support such a rename, or reports that in another way.
    for number in [22, 38, 95] {
        let (sandbox, worker, saved) = saved();
        let _ = sandbox.send(&worker, "one");
        let events = sandbox.events(&worker);
        let armed = format!("restore.before_rename=error({number})");
        let restored = sandbox.subagent(&["restore", &saved.file]).env("SUBAGENT_FAILPOINTS", &armed).run();
        let replaced = restored.data_of("state.restored")["replacedPath"].take();
        let newer = sandbox.recorder().acknowledged();
        sandbox.recorder().go_back_to(saved.known.clone());
        assert_eq!((kept(&sandbox), left_over(&sandbox)), (1, Vec::new()), "{armed}");
        assert!(sandbox.events(&worker).len() < events.len(), "{armed}: it is still the old one");
        sandbox.check();
        // The kept copy is complete.
        let _ = sandbox.run(&["restore", replaced.as_str().unwrap()]).data_of("state.restored");
        sandbox.recorder().go_back_to(newer);
        assert_eq!(sandbox.events(&worker), events, "{armed}");
        assert_eq!(sandbox.send(&worker, "two")["assistantText"], "two");
        sandbox.finish();
    }
}

#[test]
fn a_restore_that_dies_while_it_copies_the_old_one_leaves_that() {
    for (point, copies) in [("restore.before_copy", 0), ("restore.after_copy", 1)] {
        let (sandbox, worker, _) = saved();
        let _ = sandbox.send(&worker, "one");
        let events = sandbox.events(&worker);
        let armed = format!("restore.before_rename=error(38);{point}=abort");
        let saved = keep(&sandbox);
        let died = sandbox.subagent(&["restore", &saved.file]).env("SUBAGENT_FAILPOINTS", armed).run();
        assert_eq!(died.status.code(), None, "{point} was never reached: {died}");
        assert_eq!(kept(&sandbox), copies, "{point}");
        assert_eq!(sandbox.events(&worker), events, "{point}");
        restore(&sandbox, &saved, &[]);
        assert_eq!((kept(&sandbox), left_over(&sandbox)), (copies + 1, Vec::new()), "{point}");
        assert_eq!(sandbox.send(&worker, "two")["assistantText"], "two");
        sandbox.finish();
    }
}
