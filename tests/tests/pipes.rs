//! A pipe under the name of a file of the state dir: nothing waits for somebody who writes into it, and the error says
//! what is in the way.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this file is a test")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::stat::Mode;
use subagent_tests::harness::{Output, Sandbox};

/// A command has its answer, or its error, before.
const BOUND: Duration = Duration::from_secs(30);

/// Puts a pipe into the state dir, in the place of what is there.
fn pipe(sandbox: &Sandbox, name: &str) -> PathBuf {
    let path = sandbox.state_dir().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // In one step: a daemon that runs writes its own files anew.
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
fn a_pipe_in_the_place_of_a_lock_or_a_log_is_told_and_nobody_waits() {
    for (name, of_command, of_daemon) in [
        ("start.lock", "STATE_DIR_UNWRITABLE", "DAEMON_START_FAILED"),
        ("daemon.lock", "DAEMON_START_FAILED", "DAEMON_START_FAILED"),
        ("logs/subagentd.log", "STATE_DIR_UNWRITABLE", "DAEMON_START_FAILED"),
    ] {
        let sandbox = Sandbox::new();
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
    let sandbox = Sandbox::new();
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let log = pipe(&sandbox, "logs/subagentd.log");
    refused(&sandbox.run(&["daemon", "logs"]), "STORAGE_ERROR");
    fs::remove_file(log).unwrap();
    let status = pipe(&sandbox, "subagentd-status.json");
    let said = sandbox.command("subagentd").args(["status", "--json"]).run();
    assert_eq!(said.status.code(), Some(1), "{said}");
    fs::remove_file(status).unwrap();
    // The daemon writes it anew, also when it runs already.
    let _ = pipe(&sandbox, "daemon.json");
    assert_eq!(sandbox.run(&["daemon", "status"]).data_of("daemon.shown")["running"], false);
    let started = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    let _ = pipe(&sandbox, "daemon.json");
    let again = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    assert_eq!(again["pid"], started["pid"]);
    sandbox.finish();
}
