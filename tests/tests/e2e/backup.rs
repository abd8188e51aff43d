//! `subagent backup`: a complete copy of the database, made while turns run, or nothing.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape, crowd, request, wait_until};

fn count(file: &Path, sql: &str) -> i64 {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let check: String = connection.query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Returns the names in a folder, without those known to this test.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_backup_is_a_whole_private_database_and_the_turn_goes_on() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (gate, end) = (sandbox.gate("on"), sandbox.gate("end"));
    let text = format!("!say begun\n{}\n!flood 2000 1000\n{}", gate.directive(), end.directive());
    let accepted = sandbox.send_no_wait(&worker, &text);
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    gate.open();
    let folder = sandbox.file("kept");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("state.db");
    let data = sandbox.run(&["backup", file.to_str().unwrap()]).data_of("state.backed_up");
    assert_shape(&data, &json!({"path": "str", "sizeBytes": "int", "schema": "int", "lastEventId": "ev?"}));
    assert_eq!(data["path"], file.to_str().unwrap());
    let meta = fs::metadata(&file).unwrap();
    assert_eq!((meta.permissions().mode() & 0o777, json!(meta.len())), (0o600, data["sizeBytes"].clone()));
    assert_eq!(names(&folder), ["state.db"], "something was left beside it");
    assert_eq!(count(&file, "SELECT count(*) FROM turns"), 1);
    assert_eq!(count(&file, "SELECT count(*) FROM workers WHERE state = 'turn'"), 1);
    end.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn the_file_is_named_from_the_callers_folder_and_a_daemon_is_started_for_it() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let data =
        sandbox.subagent(&["backup", "here.db"]).cwd(sandbox.workspace()).run().data_of("state.backed_up");
    assert_eq!(data["lastEventId"], Value::Null);
    assert!(sandbox.workspace().join("here.db").is_file());
    sandbox.finish();
}

#[test]
fn nothing_is_written_over_without_force() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let file = sandbox.file("precious");
    fs::write(&file, "mine").unwrap();
    let name = sandbox.file_name("precious");
    let error = sandbox.run(&["backup", &name]).error("BACKUP_ALREADY_EXISTS");
    assert_eq!(error["details"]["path"], name.as_str());
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let error = sandbox.run(&["backup", "--force", &name]).error("INVALID_ARGUMENT");
    assert!(error["details"]["error"].as_str().unwrap().contains("not a backup"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine", "--force replaced a file that is not a backup");
    fs::write(&file, "").unwrap();
    for _ in 0..2 {
        let _ = sandbox.run(&["backup", "--force", &name]).data_of("state.backed_up");
    }
    assert_eq!(count(&file, "SELECT count(*) FROM controllers"), 1);
    let again = sandbox.run(&["backup", &name]).error("BACKUP_ALREADY_EXISTS");
    assert_eq!(again["retryable"], false);
    sandbox.finish();
}

#[test]
fn the_database_of_another_state_dir_is_no_backup() {
    let (sandbox, _) = TestSandbox::with_worker();
    let (other, _) = TestSandbox::with_worker();
    let theirs = other.state_dir().join("state.db");
    let name = theirs.to_str().unwrap();
    let refused = || {
        let before = fs::metadata(&theirs).unwrap().ino();
        let error = sandbox.run(&["backup", "--force", name]).error("INVALID_ARGUMENT");
        assert!(error["details"]["error"].as_str().unwrap().contains("state dir"), "{error}");
        assert_eq!(error["details"]["recommendedAction"], "name a file outside of every state dir");
        assert_eq!(fs::metadata(&theirs).unwrap().ino(), before, "another state dir's database was replaced");
    };
    refused();
    // Also without a running daemon, and if only the folder of its workers is left.
    let _ = other.run(&["daemon", "stop"]).data_of("daemon.stopped");
    refused();
    for lock in ["daemon.lock", "start.lock"] {
        fs::remove_file(other.state_dir().join(lock)).unwrap();
        refused();
    }
    let copy = sandbox.file_name("copy.db");
    for _ in 0..2 {
        let _ = sandbox.run(&["backup", "--force", &copy]).data_of("state.backed_up");
    }
    other.finish();
    sandbox.finish();
}

#[test]
fn a_place_that_cannot_be_used_is_named_and_nothing_is_left() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    fs::create_dir(sandbox.file("folder")).unwrap();
    let inside = sandbox.state_dir().join("copy.db");
    let (fifo, link) = (sandbox.file("fifo"), sandbox.file("link"));
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(sandbox.file("target"), "").unwrap();
    std::os::unix::fs::symlink(sandbox.file("target"), &link).unwrap();
    let places = [
        sandbox.file_name("no/such/folder"),
        sandbox.file_name("folder"),
        inside.to_str().unwrap().to_owned(),
        sandbox.state_dir().join("state.db").to_str().unwrap().to_owned(),
        "/proc/none".to_owned(),
        sandbox.file_name("fifo"),
        sandbox.file_name("link"),
    ];
    for place in &places {
        for force in [&["backup", place][..], &["backup", "--force", place]] {
            let error = sandbox.run(force).error("INVALID_ARGUMENT");
            assert_eq!(error["details"]["path"], place.as_str(), "{error}");
            assert!(
                error["details"]["error"].is_string() && error["details"]["recommendedAction"].is_string()
            );
        }
    }
    assert!(!inside.exists());
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(names(&sandbox.file("folder")).is_empty());
    sandbox.finish();
}

#[test]
fn a_write_that_fails_leaves_nothing() {
    for point in ["backup.before_copy", "backup.before_rename"] {
        let mut sandbox = TestSandbox::new();
        sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=error"));
        sandbox.init();
        let folder = sandbox.file("kept");
        fs::create_dir(&folder).unwrap();
        let error = sandbox.run(&["backup", &sandbox.file_name("kept/copy.db")]).error("INVALID_ARGUMENT");
        assert!(error["details"]["error"].as_str().unwrap().contains("os error 5"), "{error}");
        assert!(names(&folder).is_empty(), "{point}: {:?}", names(&folder));
        sandbox.finish();
    }
}

#[test]
fn the_same_request_again_has_the_same_result() {
    let (sandbox, _) = TestSandbox::with_worker();
    let socket = sandbox.daemon_info().unwrap().socket;
    let body = json!({"path": sandbox.file_name("copy.db")}).to_string();
    let protocol = format!("Subagent-Protocol: {}", subagent_protocol::PROTOCOL);
    let send = |key: &str, body: &str| {
        let key = format!("Idempotency-Key: {key}");
        request(&socket, &["POST /v1/daemon/backup HTTP/1.1", &protocol, &key], body).json()
    };
    let ask = |key: &str| send(key, &body);
    let first = ask("one");
    assert_eq!(first["type"], "state.backed_up", "{first}");
    assert_eq!(ask("one"), first);
    assert_eq!(ask("two")["error"]["code"], "BACKUP_ALREADY_EXISTS");
    let other = json!({"path": sandbox.file_name("other.db")}).to_string();
    assert_eq!(send("one", &other)["error"]["code"], "IDEMPOTENCY_CONFLICT");
    assert!(!sandbox.file("other.db").exists());
    sandbox.finish();
}

#[test]
fn a_process_below_a_worker_can_neither_back_up_nor_restore() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (file, stolen) = (sandbox.file_name("copy.db"), sandbox.file_name("stolen.db"));
    let _ = sandbox.run(&["backup", &file]).data_of("state.backed_up");
    let daemon = sandbox.daemon();
    let program = sandbox.executable("subagent");
    for command in
        [format!("{program} backup --json {stolen}"), format!("{program} restore --json --force {file}")]
    {
        let waited = sandbox.send(&worker, &format!("!shell {command}"));
        assert!(waited["assistantText"].as_str().unwrap().contains("FORBIDDEN_FROM_WORKER"), "{waited}");
    }
    assert!(!Path::new(&stolen).exists());
    assert_eq!(sandbox.daemon().pid, daemon.pid, "the daemon was ended");
    sandbox.finish();
}

/// The failpoints where a backup is disturbed.
const POINTS: [&str; 4] =
    ["backup.before_copy", "backup.after_copy", "backup.before_rename", "backup.after_rename"];
/// Number of concurrent cases, which mostly wait for processes.
const WIDTH: usize = 4;
/// Time limit for reaching a failpoint.
const LIMIT: Duration = Duration::from_secs(30);

/// A worker and an empty folder for copies, in a world with this action at this point, once.
fn disturbed(point: &str, action: &str) -> (TestSandbox, String, PathBuf) {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("reached");
    sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}={action}"));
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    sandbox.init();
    let worker = sandbox.start("demo");
    fs::create_dir(sandbox.file("kept")).unwrap();
    (sandbox, worker, once)
}

#[test]
fn a_daemon_that_dies_while_it_copies_leaves_a_whole_file_or_none() {
    crowd(
        "backup, abort",
        WIDTH,
        &POINTS,
        |point| (*point).to_owned(),
        |point| {
            let (sandbox, worker, once) = disturbed(point, "abort");
            let name = sandbox.file_name("kept/copy.db");
            // The command repeats its request with the same key. The next daemon finds
            // or creates the copy.
            let data = sandbox.run(&["backup", &name]).data_of("state.backed_up");
            assert!(once.exists(), "{point} was never reached");
            assert_eq!(count(Path::new(&name), "SELECT count(*) FROM workers"), 1, "{point}: {data}");
            assert_eq!(names(&sandbox.file("kept")), ["copy.db"], "{point}");
            assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well");
            sandbox.finish();
        },
    );
}

#[test]
fn a_daemon_that_hangs_while_it_copies_serves_the_others_and_after_its_death_there_is_a_whole_file_or_none() {
    crowd(
        "backup, hang",
        WIDTH,
        &POINTS,
        |point| (*point).to_owned(),
        |point| {
            let (sandbox, worker, once) = disturbed(point, "hang");
            let name = sandbox.file_name("kept/copy.db");
            let asking = sandbox.subagent(&["backup", &name]).spawn();
            wait_until("the backup to hang", LIMIT, || once.exists().then_some(()));
            assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well", "{point}");
            sandbox.kill_daemon();
            let data = asking.output().data_of("state.backed_up");
            assert_eq!(count(Path::new(&name), "SELECT count(*) FROM workers"), 1, "{point}: {data}");
            assert_eq!(names(&sandbox.file("kept")), ["copy.db"], "{point}");
            sandbox.finish();
        },
    );
}

#[test]
fn a_command_that_is_killed_while_its_backup_hangs_leaves_nothing_half_done() {
    crowd(
        "backup, hang without its command",
        WIDTH,
        &POINTS,
        |point| (*point).to_owned(),
        |point| {
            let (sandbox, worker, once) = disturbed(point, "hang");
            let (name, folder) = (sandbox.file_name("kept/copy.db"), sandbox.file("kept"));
            let asking = sandbox.subagent(&["backup", &name]).spawn();
            wait_until("the backup to hang", LIMIT, || once.exists().then_some(()));
            assert_eq!(asking.kill(), "");
            assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well", "{point}");
            sandbox.kill_daemon();
            let is_there = *point == "backup.after_rename";
            assert_eq!(sandbox.file("kept/copy.db").exists(), is_there, "{point}");
            let _ = sandbox.run(&["backup", &sandbox.file_name("kept/next.db")]).data_of("state.backed_up");
            let expected: &[&str] = if is_there { &["copy.db", "next.db"] } else { &["next.db"] };
            assert_eq!(names(&folder), expected, "{point}");
            for file in expected {
                assert_eq!(count(&folder.join(file), "SELECT count(*) FROM workers"), 1, "{point}: {file}");
            }
            sandbox.finish();
        },
    );
}

#[test]
fn a_daemon_that_is_asked_to_end_while_it_copies_ends_at_once_and_leaves_nothing() {
    let (sandbox, _, once) = disturbed("backup.before_copy", "wait");
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    // Large enough for a copy to take some time.
    let database = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    let much = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 8000)
                INSERT INTO requests (key, fingerprint, response, created_at)
                  SELECT 'much' || n, 'much', hex(randomblob(500)), unixepoch() * 1000 FROM n";
    database.execute_batch(much).unwrap();
    drop(database);
    let daemon = sandbox.command("subagentd").args(["run"]).spawn();
    daemon.wait_line("its start", |line| line.contains("running").then_some(()));
    let asking = sandbox.subagent(&["backup", &sandbox.file_name("kept/copy.db")]).spawn();
    wait_until("the backup to begin", LIMIT, || once.exists().then_some(()));
    assert!(names(&sandbox.file("kept"))[0].ends_with(".unfinished"));
    // With a waiting caller it would continue for some seconds.
    assert_eq!(asking.kill(), "");
    daemon.signal(Signal::SIGINT);
    let log = sandbox.state_dir().join("logs/subagentd.log");
    wait_until("the daemon to notice its end", LIMIT, || {
        fs::read_to_string(&log).unwrap().contains("SIGINT").then_some(())
    });
    fs::remove_file(&once).unwrap();
    assert_eq!(daemon.output().status.code(), Some(0));
    assert_eq!(names(&sandbox.file("kept")), Vec::<String>::new());
    sandbox.finish();
}

#[test]
fn a_command_that_is_interrupted_ends_at_once_and_its_backup_is_whole() {
    let (sandbox, worker, once) = disturbed("backup.before_copy", "wait");
    let folder = sandbox.file("kept");
    let asking = sandbox.subagent(&["backup", &sandbox.file_name("kept/copy.db")]).spawn();
    wait_until("the backup to begin", LIMIT, || once.exists().then_some(()));
    // SIGINT may be ignored by the test's caller, and therefore by its children.
    asking.signal(Signal::SIGTERM);
    let ended = asking.output();
    assert_eq!(ended.status.signal(), Some(Signal::SIGTERM as i32), "{ended}");
    fs::remove_file(&once).unwrap();
    wait_until("the copy to be complete", LIMIT, || (names(&folder) == ["copy.db"]).then_some(()));
    assert_eq!(count(&folder.join("copy.db"), "SELECT count(*) FROM workers"), 1);
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well");
    sandbox.finish();
}
