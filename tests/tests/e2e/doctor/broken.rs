//! `subagent doctor` without a daemon: everything that makes all commands fail is a problem.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use subagent_tests::harness::TestSandbox;

/// Returns the problems with an id.
#[track_caller]
fn problems(sandbox: &TestSandbox, id: &str) -> Vec<Value> {
    let output = sandbox.subagent(&["doctor"]).run();
    let report = output.document()["data"].clone();
    let all = report["findings"].as_array().unwrap().iter();
    let found: Vec<Value> =
        all.filter(|finding| finding["id"] == id && finding["status"] == "problem").cloned().collect();
    assert_eq!(output.status.code(), Some(i32::from(report["counts"]["problem"] != 0)), "{output}");
    assert!(found.iter().all(|finding| finding["action"].is_string()), "{output}");
    found
}

#[test]
fn a_damaged_database_is_reported_without_a_daemon() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    assert_eq!(problems(&sandbox, "database.sound"), [Value::Null; 0]);
    let file = sandbox.state_dir().join("state.db");
    let sound = fs::read(&file).unwrap();
    let mut damaged = sound.clone();
    damaged[..100].fill(0x5a);
    for bytes in [&damaged[..], &sound[..50]] {
        fs::write(&file, bytes).unwrap();
        assert_eq!(problems(&sandbox, "database.sound").len(), 1);
    }
    fs::write(&file, sound).unwrap();
    assert_eq!(problems(&sandbox, "database.sound"), [Value::Null; 0]);
    sandbox.finish();
}

#[test]
fn a_state_dir_that_is_a_file_and_variables_that_no_daemon_takes_are_reported() {
    let mut sandbox = TestSandbox::new();
    assert_eq!(problems(&sandbox, "permissions.stateDir"), [Value::Null; 0]);
    fs::create_dir_all(sandbox.state_dir().parent().unwrap()).unwrap();
    fs::write(sandbox.state_dir(), "").unwrap();
    assert_eq!(problems(&sandbox, "permissions.stateDir").len(), 1);
    fs::remove_file(sandbox.state_dir()).unwrap();
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "abc");
    assert_eq!(problems(&sandbox, "config.variables").len(), 1);
    sandbox.remove_env("SUBAGENT_RETENTION_DAYS");
    sandbox.finish();
}

#[test]
fn what_a_restore_put_aside_is_looked_at_and_other_kinds_of_files_are_reported() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let aside = sandbox.state_dir().join("state.db.replaced-2026-01-01T00-00-00Z");
    fs::write(&aside, "x").unwrap();
    fs::set_permissions(&aside, Permissions::from_mode(0o644)).unwrap();
    let odd = sandbox.state_dir().join("state.db.restoring");
    fs::create_dir(&odd).unwrap();
    fs::set_permissions(&odd, Permissions::from_mode(0o700)).unwrap();
    let found = problems(&sandbox, "permissions.files");
    assert_eq!(found.len(), 2, "{found:#?}");
    let report = sandbox.subagent(&["doctor"]).run().document()["data"].clone();
    let findings = report["findings"].as_array().unwrap();
    let listed = findings.iter().find(|finding| finding["id"] == "disk.replaced").unwrap();
    assert!(listed["seen"].as_str().unwrap().contains(aside.to_str().unwrap()), "{listed}");
    fs::remove_file(aside).unwrap();
    fs::remove_dir(odd).unwrap();
    sandbox.finish();
}
