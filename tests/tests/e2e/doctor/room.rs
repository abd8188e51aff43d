//! `subagent doctor` when something fills up: the disk, the WAL, the journals.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use subagent_tests::harness::{Faults, TestSandbox};

/// Returns the findings with an id: status, observation and advice.
#[track_caller]
fn findings(sandbox: &TestSandbox, id: &str) -> Vec<(String, String, String)> {
    let output = sandbox.subagent(&["doctor"]).run();
    let report = output.document()["data"].clone();
    let word = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let all = report["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id);
    let found: Vec<_> = all
        .map(|finding| (word(finding, "status"), word(finding, "seen"), word(finding, "action")))
        .collect();
    assert!(!found.is_empty(), "{id} was not checked: {output}");
    found
}

/// Creates a private file of this length that occupies no space on disk.
fn lengthen(path: &Path, bytes: u64) {
    let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
    file.set_permissions(Permissions::from_mode(0o600)).unwrap();
    file.set_len(bytes).unwrap();
}

#[test]
fn a_disk_without_room_is_a_problem_of_the_folder_that_is_on_it() {
    let mut sandbox = TestSandbox::new();
    sandbox.init();
    for (folder, id, other) in [
        ("*/.subagent/state", "disk.stateDir", "disk.socketDir"),
        ("*/run/subagent", "disk.socketDir", "disk.stateDir"),
    ] {
        let faults =
            Faults::arm(&mut sandbox, &[format!("op=room;path={folder};errno=ENOSPC;count=1000000")]);
        let found = findings(&sandbox, id);
        let [(status, seen, action)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(status, "problem");
        assert!(seen.starts_with("0 B") && action.contains("`df -h "), "{seen}: {action}");
        assert!(!findings(&sandbox, other).iter().any(|(_, seen, _)| seen.starts_with("0 B")));
        assert!(faults.counted(0).1 > 0);
        faults.disarm(&mut sandbox);
        assert!(!findings(&sandbox, id).iter().any(|(_, seen, _)| seen.starts_with("0 B")));
    }
    sandbox.finish();
}

#[test]
fn a_wal_that_does_not_shrink_is_reported_and_the_advice_works() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let file = sandbox.state_dir().join("state.db");
    // Another program with a long-running read.
    let reader = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM workers").unwrap();
    let _ = sandbox.send(&worker, "while it reads");
    let wal = sandbox.state_dir().join("state.db-wal");
    assert!(fs::metadata(&wal).unwrap().len() > 0);
    lengthen(&wal, 300 << 20);
    let found = findings(&sandbox, "database.size");
    let [(status, seen, action)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(status, "warning");
    assert!(
        seen.contains("its WAL has 300.0 MiB") && action.contains("`subagent daemon restart`"),
        "{found:?}"
    );
    drop(reader);
    let _ = sandbox.run(&["daemon", "restart"]).data_of("daemon.restarted");
    let found = findings(&sandbox, "database.size");
    assert!(matches!(found.as_slice(), [(status, ..)] if status == "ok"), "{found:?}");
    let _ = sandbox.send(&worker, "afterwards");
    sandbox.finish();
}

#[test]
fn records_that_no_daemon_has_taken_are_reported_with_and_without_one() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    let next = sandbox.state_dir().join(format!("runtimes/{worker}/2.journal"));
    let id = "journals.backlog";
    for (bytes, status) in [(65 << 20, "warning"), (1 << 30, "problem")] {
        lengthen(&next, bytes);
        let found = findings(&sandbox, id);
        assert!(
            matches!(found.as_slice(), [(got, seen, action)]
                if got == status && seen.contains(&worker) && action.contains("`subagent daemon logs")),
            "{found:?}"
        );
    }
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let found = findings(&sandbox, id);
    assert!(
        matches!(found.as_slice(), [(got, seen, action)]
            if got == "warning" && seen.contains(&worker) && action.contains("`subagent daemon start`")),
        "{found:?}"
    );
    fs::remove_file(&next).unwrap();
    for daemon in [false, true] {
        if daemon {
            let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
        }
        let found = findings(&sandbox, id);
        assert!(matches!(found.as_slice(), [(status, ..)] if status == "ok"), "{found:?}");
    }
    sandbox.finish();
}
