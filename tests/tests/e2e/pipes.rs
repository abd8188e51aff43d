//! A pipe with the name of a file in the state directory: no process waits for a writer, and the
//! error names the pipe.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::stat::Mode;
use subagent_tests::harness::{Output, TestSandbox, wait_until};

/// Time limit for a command's result or error.
const BOUND: Duration = Duration::from_secs(30);

/// Puts a pipe in place of a file in the state directory.
fn pipe(sandbox: &TestSandbox, name: &str) -> PathBuf {
    let path = sandbox.state_dir().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // In one step: a running daemon rewrites its own files.
    let made = sandbox.file("pipe");
    nix::unistd::mkfifo(&made, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    fs::rename(made, &path).unwrap();
    path
}

#[track_caller]
fn refused(output: &Output, code: &str) {
    assert!(output.elapsed < BOUND, "{output}");
    let error = output.error(code);
    assert!(error["message"].as_str().unwrap().contains("is not a regular file"), "{error}");
}

#[test]
fn a_pipe_in_the_place_of_a_lock_or_a_log_is_reported_without_a_wait() {
    for (name, of_command, of_daemon) in [
        ("start.lock", "STATE_DIR_UNWRITABLE", "DAEMON_START_FAILED"),
        ("daemon.lock", "DAEMON_START_FAILED", "DAEMON_START_FAILED"),
        ("logs/subagentd.log", "STATE_DIR_UNWRITABLE", "DAEMON_START_FAILED"),
    ] {
        let sandbox = TestSandbox::new();
        let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
        let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
        let path = pipe(&sandbox, name);
        refused(&sandbox.run(&["worker", "list"]), of_command);
        refused(&sandbox.command("subagentd").args(["run", "--json"]).deadline(BOUND).run(), of_daemon);
        fs::remove_file(path).unwrap();
        let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        sandbox.finish();
    }
}

#[test]
fn a_pipe_in_the_place_of_what_is_only_read_is_as_if_nothing_were_there() {
    let sandbox = TestSandbox::new();
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let log = pipe(&sandbox, "logs/subagentd.log");
    refused(&sandbox.run(&["daemon", "logs"]), "STORAGE_ERROR");
    fs::remove_file(log).unwrap();
    let status = pipe(&sandbox, "subagentd-status.json");
    let said = sandbox.command("subagentd").args(["status", "--json"]).run();
    assert_eq!(said.status.code(), Some(1), "{said}");
    fs::remove_file(status).unwrap();
    // The daemon rewrites it, even if it is running already.
    let _ = pipe(&sandbox, "daemon.json");
    assert_eq!(sandbox.run(&["daemon", "status"]).data_of("daemon.shown")["running"], false);
    let started = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    let _ = pipe(&sandbox, "daemon.json");
    let again = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    assert_eq!(again["pid"], started["pid"]);
    sandbox.finish();
}

/// A worker whose runtime has ended, so that the next turn needs a new one.
fn without_runtime() -> (TestSandbox, String) {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "one");
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    sandbox.kill(&runtime);
    wait_until("the guard to end", BOUND, || (!guard.lives()).then_some(()));
    wait_until("the daemon to know", BOUND, || sandbox.show(&worker)["runtimePid"].is_null().then_some(()));
    (sandbox, worker)
}

#[test]
fn a_pipe_in_the_place_of_a_workers_lock_is_reported_without_a_wait() {
    for name in ["lock", "guard.lock"] {
        let (sandbox, worker) = without_runtime();
        let path = pipe(&sandbox, &format!("runtimes/{worker}/{name}"));
        let sent = sandbox.sending(&worker, "two").run();
        assert!(sent.elapsed < BOUND, "{sent}");
        let error = sent.any_error();
        assert!(error["message"].as_str().unwrap().contains("is not a regular file"), "{name}: {error}");
        assert!(sandbox.show(&worker)["state"].is_string());
        fs::remove_file(path).unwrap();
        assert_eq!(sandbox.send(&worker, "three")["assistantText"], "three", "{name}");
        sandbox.finish();
    }
}

#[test]
fn a_pipe_in_the_place_of_a_workers_log_costs_the_log_alone() {
    let (sandbox, worker) = without_runtime();
    let path = pipe(&sandbox, &format!("runtimes/{worker}.log"));
    assert_eq!(sandbox.send(&worker, "!stderr lost\n!say well")["assistantText"], "well");
    refused(&sandbox.run(&["worker", "logs", &worker]), "STORAGE_ERROR");
    fs::remove_file(path).unwrap();
    sandbox.finish();
}

#[test]
fn a_pipe_in_the_place_of_a_journal_blocks_only_its_turn() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("on");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    sandbox.kill_daemon();
    let (journal, aside) = (format!("runtimes/{worker}/1.journal"), sandbox.file("aside"));
    fs::rename(sandbox.state_dir().join(&journal), &aside).unwrap();
    let path = pipe(&sandbox, &journal);
    gate.open();
    // The runtime's records cannot be read meanwhile, and everything else continues.
    let shown = sandbox.run(&["worker", "show", &worker]);
    assert!(shown.elapsed < BOUND, "{shown}");
    assert_eq!(shown.data_of("worker.shown")["state"], "running");
    let other = sandbox.start("demo");
    assert_eq!(sandbox.send(&other, "well")["assistantText"], "well");
    fs::rename(aside, path).unwrap();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_pipe_in_the_place_of_the_next_journal_fails_the_start_and_is_reported() {
    let (sandbox, worker) = without_runtime();
    let path = pipe(&sandbox, &format!("runtimes/{worker}/2.journal"));
    let sent = sandbox.sending(&worker, "two").run();
    assert!(sent.elapsed < BOUND, "{sent}");
    let _ = sent.any_error();
    fs::remove_file(path).unwrap();
    assert_eq!(sandbox.send(&worker, "three")["assistantText"], "three");
    sandbox.finish();
}

#[test]
fn a_pipe_in_the_place_of_a_workers_environment_is_replaced_by_the_next_shells() {
    let (sandbox, worker) = without_runtime();
    let folder = sandbox.file("run/subagent");
    let named = |name: &str| name.ends_with(".env");
    let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let path = entries.into_iter().find(|path| path.to_str().is_some_and(named)).unwrap();
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let sent = sandbox.sending(&worker, "two").run();
    assert!(sent.elapsed < BOUND, "{sent}");
    let data = sent.data_of("turn.waited");
    assert_eq!((&data["assistantText"], &data["environmentSent"]), (&"two".into(), &true.into()), "{data}");
    assert!(fs::metadata(&path).unwrap().is_file());
    sandbox.finish();
}
