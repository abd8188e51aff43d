//! What a restore refuses, and its handling of a damaged database.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::Value;
use subagent_tests::harness::TestSandbox;

use super::{KnownBackup, keep, kept, left_over, saved, saved_after_a_turn};

/// Changes a copy of a backup and returns its name.
fn changed(sandbox: &TestSandbox, from: &str, name: &str, sql: &str) -> String {
    let to = sandbox.file_name(name);
    fs::copy(from, &to).unwrap();
    Connection::open(&to).unwrap().execute_batch(sql).unwrap();
    to
}

#[test]
fn a_file_that_is_no_backup_changes_nothing() {
    let (sandbox, worker, KnownBackup { file: good, .. }) = saved();
    let empty = sandbox.file_name("empty.db");
    fs::write(&empty, "").unwrap();
    let text = sandbox.file_name("text.db");
    fs::write(&text, "no database at all".repeat(1000)).unwrap();
    let torn = sandbox.file_name("torn.db");
    let bytes = fs::read(&good).unwrap();
    fs::write(&torn, &bytes[..bytes.len() / 2]).unwrap();
    let mut wrong = bytes.clone();
    let middle = wrong.len() - 4096 * 3;
    wrong[middle..middle + 512].fill(0xa5);
    let damaged = sandbox.file_name("damaged.db");
    fs::write(&damaged, wrong).unwrap();
    let foreign = changed(&sandbox, &good, "foreign.db", "PRAGMA application_id = 7");
    let newer = changed(&sandbox, &good, "newer.db", "PRAGMA user_version = 999");
    let other = changed(&sandbox, &good, "other.db", "CREATE TABLE more (x)");
    let loose =
        changed(&sandbox, &good, "loose.db", "PRAGMA foreign_keys = OFF; UPDATE workers SET controller = 99");
    let daemon = sandbox.daemon();
    for file in [&empty, &text, &torn, &damaged, &foreign, &newer, &other, &loose] {
        let error = sandbox.run(&["restore", file]).error("BACKUP_INVALID");
        assert_eq!(error["details"]["path"], file.as_str(), "{error}");
        assert!(error["details"]["reason"].is_string() && error["details"]["recommendedAction"].is_string());
    }
    let live = sandbox.state_dir().join("state.db").to_str().unwrap().to_owned();
    for file in [sandbox.file_name("none.db"), sandbox.file_name("ws"), live, "/proc/self/mem".to_owned()] {
        let error = sandbox.run(&["restore", &file]).error("INVALID_ARGUMENT");
        assert_eq!(error["details"]["path"], file.as_str(), "{error}");
        assert!(error["details"]["recommendedAction"].is_string(), "{error}");
    }
    for (command, file) in [("restore", "-"), ("restore", ""), ("backup", "-"), ("backup", "")] {
        let refused = sandbox.run(&[command, file]);
        assert_eq!(refused.status.code(), Some(2), "{command} {file:?}: {refused}");
        assert_eq!(refused.document()["error"]["code"], "INVALID_ARGUMENT");
    }
    assert_eq!(sandbox.daemon().pid, daemon.pid, "the daemon was ended without need");
    assert_eq!(left_over(&sandbox), Vec::<String>::new());
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well");
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_stopped_is_not_waited_for_and_the_advice_works() {
    let (sandbox, worker, KnownBackup { file, .. }) = saved();
    let daemon = sandbox.daemon();
    daemon.signal(Signal::SIGSTOP);
    let output = sandbox.run(&["restore", &file]);
    assert!(output.elapsed < Duration::from_secs(40), "{output}");
    let error = output.error("DAEMON_UNRESPONSIVE");
    assert_eq!(error["details"]["pid"], daemon.pid, "{error}");
    let advice = error["details"]["recommendedAction"].as_str().unwrap();
    assert!(advice.contains(&format!("`kill -CONT {}`", daemon.pid)), "{advice}");
    daemon.signal(Signal::SIGCONT);
    let _ = sandbox.send(&worker, "on");
    sandbox.finish();
}

#[test]
fn the_file_stays_as_it_is_and_can_be_restored_again() {
    let (sandbox, worker, KnownBackup { file, known }) = saved();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).unwrap();
    let bytes = fs::read(&file).unwrap();
    for text in ["one", "two"] {
        let _ = sandbox.send(&worker, text);
        let data = sandbox.run(&["restore", &file]).data_of("state.restored");
        sandbox.recorder().go_back_to(known.clone());
        assert_eq!(fs::read(&file).unwrap(), bytes);
        let replaced = data["replacedPath"].as_str().unwrap();
        for path in [replaced, data["stateDbPath"].as_str().unwrap()] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{path}");
        }
        assert_eq!(sandbox.show(&worker)["state"], "idle");
    }
    assert_eq!(sandbox.send(&worker, "three")["assistantText"], "three");
    sandbox.finish();
}

#[test]
fn what_was_replaced_can_be_restored_itself() {
    let (sandbox, worker, KnownBackup { file, .. }) = saved();
    let _ = sandbox.send(&worker, "one");
    let events = sandbox.events(&worker);
    let replaced = sandbox.run(&["restore", &file]).data_of("state.restored")["replacedPath"].take();
    let _ = sandbox.run(&["restore", replaced.as_str().unwrap()]).data_of("state.restored");
    assert_eq!(sandbox.events(&worker), events, "the earlier events must be present again");
    assert_eq!(sandbox.send(&worker, "two")["assistantText"], "two");
    sandbox.finish();
}

#[test]
fn a_damaged_database_is_replaced_kept_and_its_numbers_are_jumped_over() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let first = sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    let KnownBackup { file, known } = keep(&sandbox);
    let _ = sandbox.send(&worker, "one");
    let seen = sandbox.events(&worker).last().unwrap()["eventId"].as_str().unwrap().to_owned();
    let generation = sandbox.daemon_info().unwrap().generation;
    sandbox.kill_daemon();
    let database = sandbox.state_dir().join("state.db");
    for file in [&database, &sandbox.state_dir().join("state.db-wal")] {
        fs::write(file, "damaged".repeat(2000)).unwrap();
    }
    let data = sandbox.run(&["restore", &file]).data_of("state.restored");
    sandbox.recorder().go_back_to(known);
    assert_eq!((&data["continued"], &data["daemon"]), (&Value::from(false), &Value::Null), "{data}");
    assert!(fs::read_to_string(data["replacedPath"].as_str().unwrap()).unwrap().starts_with("damaged"));
    let waited = sandbox.send(&worker, "two");
    assert_eq!(waited["assistantText"], "two");
    assert!(waited["acceptedEventId"].as_str().unwrap() > seen.as_str(), "{waited}");
    assert!(sandbox.daemon_info().unwrap().generation > generation);
    let next = sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    let epoch = |data: &Value| data["owner"]["epoch"].as_u64().unwrap();
    assert!(epoch(&next) > epoch(&first) + 1_000_000, "{next}");
    sandbox.finish();
}

#[test]
fn a_state_dir_that_was_lost_is_restored_from_nothing() {
    let (sandbox, worker, KnownBackup { file, .. }) = saved_after_a_turn();
    let events = sandbox.events(&worker);
    let _ = sandbox.command("subagentd").args(["stop", "--workers"]).run();
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    let data = sandbox.run(&["restore", &file]).data_of("state.restored");
    assert_eq!(
        (&data["replacedPath"], &data["liveWorkers"]),
        (&Value::Null, &Value::from(Vec::<Value>::new()))
    );
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], &shown["runtimePid"]), (&Value::from("idle"), &Value::Null), "{shown}");
    assert_eq!(sandbox.events(&worker)[..events.len()], events[..]);
    // The variables of its agent were removed with the state directory's sockets.
    assert_eq!(sandbox.send(&worker, "two")["environmentSent"], true);
    sandbox.finish();
}

#[test]
fn a_foreground_daemon_ends_too_and_is_named() {
    let (sandbox, _, KnownBackup { file, .. }) = saved();
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let foreground = sandbox.command("subagentd").args(["run"]).spawn();
    foreground.wait_line("its start", |line| line.contains("running").then_some(()));
    let data = sandbox.run(&["restore", &file]).data_of("state.restored");
    assert_eq!(data["daemon"]["mode"], "foreground", "{data}");
    assert_eq!(foreground.output().status.code(), Some(0));
    let text = sandbox.command("subagent").args(["restore", &file]).run();
    assert!(text.text().contains("every ownership has ended"), "{text}");
    sandbox.finish();
}

#[test]
fn an_empty_database_says_nothing_of_its_numbers() {
    let (sandbox, worker, KnownBackup { file, known }) = saved();
    let _ = sandbox.send(&worker, "one");
    let seen = sandbox.events(&worker).last().unwrap()["eventId"].as_str().unwrap().to_owned();
    let generation = sandbox.daemon_info().unwrap().generation;
    sandbox.kill_daemon();
    fs::write(sandbox.state_dir().join("state.db"), "").unwrap();
    let wal = fs::read(sandbox.state_dir().join("state.db-wal")).unwrap();
    let data = sandbox.run(&["restore", &file]).data_of("state.restored");
    sandbox.recorder().go_back_to(known);
    assert_eq!(data["continued"], false, "{data}");
    let kept = format!("{}-wal", data["replacedPath"].as_str().unwrap());
    assert_eq!(fs::read(kept).unwrap(), wal, "the latest data must be kept");
    let waited = sandbox.send(&worker, "two");
    assert!(waited["acceptedEventId"].as_str().unwrap() > seen.as_str(), "{waited}");
    assert!(sandbox.daemon_info().unwrap().generation > generation + 1_000_000);
    sandbox.finish();
}

#[test]
fn a_database_that_cannot_be_read_just_now_is_not_a_damaged_one() {
    let (sandbox, worker, KnownBackup { file, .. }) = saved();
    let orphan = sandbox.start("demo");
    sandbox.kill_daemon();
    let database = sandbox.state_dir().join("state.db");
    let other = Connection::open(&database).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = sandbox.run(&["restore", "--force", &file]).error("STORAGE_ERROR");
    assert!(error["details"]["endedWorkers"].is_null(), "{error}");
    drop(other);
    assert_eq!(kept(&sandbox), 0);
    for worker in [&worker, &orphan] {
        assert_eq!(sandbox.send(worker, "well")["assistantText"], "well");
    }
    sandbox.finish();
}

#[test]
fn where_a_handle_is_required_nothing_is_restored_without_one() {
    let sandbox = TestSandbox::new();
    let init = ["controller", "init", "--require-handle"];
    let owner = sandbox.run(&init).data_of("controller.initialized")["owner"].clone();
    let text = |key: &str| owner[key].as_str().map_or_else(|| owner[key].to_string(), str::to_owned);
    let started = sandbox
        .subagent(&["worker", "start"])
        .env("SUBAGENT_CTL_ID", text("controllerId"))
        .env("SUBAGENT_CTL_EPOCH", text("epoch"))
        .env("SUBAGENT_CTL_TOKEN", text("token"))
        .run();
    started.data_of("worker.started");
    let file = keep(&sandbox).file;
    sandbox.kill_daemon();
    sandbox.run(&["restore", &file]).error("INVALID_CONTROLLER_HANDLE");
    sandbox.finish();
}
