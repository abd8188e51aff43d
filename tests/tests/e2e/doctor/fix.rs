//! What `subagent doctor --fix` leaves alone: everything in use, even if little of
//! the user is visible.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use serde_json::Value;
use subagent_tests::harness::TestSandbox;
use subagent_tests::harness::process::Process;

#[track_caller]
fn fix(sandbox: &TestSandbox, args: &[&str]) -> Value {
    let report = sandbox.subagent(&[&["doctor", "--fix"], args].concat()).run().document()["data"].clone();
    assert_eq!(report["counts"]["fixed"], 0, "{report:#}");
    report
}

/// Returns the processes of a worker; all are alive.
fn of_worker(sandbox: &TestSandbox, worker: &str) -> [Process; 3] {
    let runtime = sandbox.runtime(worker);
    let guard = sandbox.guard(&runtime);
    let agent = sandbox.agent(&guard);
    [runtime, guard, agent]
}

fn database(sandbox: &TestSandbox) -> Connection {
    let connection = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection
}

fn old(path: &Path) {
    File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
}

#[test]
fn a_worker_whose_row_cannot_be_read_is_not_unknown() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let all = of_worker(&sandbox, &worker);
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let restart: String =
        database(&sandbox).query_row("SELECT restart FROM workers", [], |row| row.get(0)).unwrap();
    database(&sandbox).execute("UPDATE workers SET restart = 'from_the_future'", []).unwrap();
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    let files: Vec<_> = fs::read_dir(sandbox.file("run/subagent")).unwrap().flatten().collect();
    files
        .iter()
        .filter(|file| file.path().extension().is_some_and(|end| end == "env"))
        .for_each(|file| old(&file.path()));
    let report = fix(&sandbox, &[]);
    let reported = report["findings"].as_array().unwrap();
    assert!(
        reported.iter().any(|finding| finding["id"] == "database.workers" && finding["status"] == "problem")
    );
    assert!(all.iter().all(Process::lives), "{report:#}");
    assert!(files.iter().all(|file| file.path().exists()));
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    database(&sandbox).execute("UPDATE workers SET restart = ?1", [restart]).unwrap();
    let _ = sandbox.send(&worker, "still there");
    assert!(all.iter().all(Process::lives));
    sandbox.finish();
}

#[test]
fn the_agents_of_the_workspace_that_this_is_a_copy_of_live_on() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let all = of_worker(&sandbox, &worker);
    let copy = sandbox.file("copy");
    let (from, to) = (sandbox.workspace(), copy.to_str().unwrap().to_owned());
    let done = sandbox.command("cp").args(["-a", from.to_str().unwrap(), &to]).run();
    // Sockets cannot always be copied; nothing else is missing.
    assert!(copy.join(".subagent/state/state.db").exists(), "{done}");
    let report = fix(&sandbox, &["--cwd", &to]);
    assert!(report["stateDir"].as_str().unwrap().starts_with(&to), "{report:#}");
    assert!(all.iter().all(Process::lives), "{report:#}");
    let _ = sandbox.send(&worker, "still there");
    sandbox.finish();
}

#[test]
fn without_a_daemon_no_environment_is_removed() {
    let (sandbox, _) = TestSandbox::with_worker();
    let socket = sandbox.daemon_info().unwrap().socket;
    let hash = socket.file_stem().unwrap().to_str().unwrap();
    // As for a worker in debug mode, which has no folder before its start.
    let environment = socket.with_file_name(format!("{hash}-w_0000000001.env"));
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    fs::write(&environment, "[]").unwrap();
    old(&environment);
    let _ = sandbox.subagent(&["doctor", "--fix"]).run();
    assert!(environment.exists());
    fs::remove_file(environment).unwrap();
    sandbox.finish();
}

#[test]
fn sockets_of_unknown_processes_stay() {
    let (sandbox, _) = TestSandbox::with_worker();
    let socket = sandbox.daemon_info().unwrap().socket;
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    // As for a daemon with a renamed executable: only its lock is visible.
    let lock = File::open(sandbox.state_dir().join("daemon.lock")).unwrap();
    lock.lock().unwrap();
    fs::write(&socket, "").unwrap();
    old(&socket);
    let _ = sandbox.subagent(&["doctor", "--fix"]).run();
    assert!(socket.exists(), "the socket of a live daemon was removed");
    drop(lock);
    let _ = sandbox.subagent(&["doctor", "--fix"]).run();
    assert!(!socket.exists());
    sandbox.finish();
}
