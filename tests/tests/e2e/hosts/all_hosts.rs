//! The board of this machine and of all hosts: what each key does there, and hosts that die, hang
//! and come back.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_tests::harness::{AtTerminal, On, SshHost, TestSandbox, wait_until};

use super::far_client::host;

const ASK: &str = "!ask execute rm -rf build";
const DEADLINE: Duration = Duration::from_secs(60);

fn nowhere(port: &str) -> Value {
    json!({"host": "127.0.0.1", "args": ["-F", "/dev/null", "-p", port]})
}

fn board(sandbox: &TestSandbox, folder: &str) -> AtTerminal {
    let top = sandbox.command("subagent").args(["top", "--all-hosts"]);
    top.cwd(sandbox.file(folder)).at_terminal(120, On::All)
}

fn leave(board: AtTerminal) {
    board.types("q");
    let screen = board.screen();
    assert!(screen.status.success(), "{:?}", screen.status);
}

/// Waits until a person does not see this any more.
fn sees_no_more(board: &AtTerminal, text: &str) {
    wait_until(&format!("no {text}"), DEADLINE, || (!board.picture().0.contains(text)).then_some(()));
}

fn start(sandbox: &TestSandbox, name: &str) {
    sandbox.run(&["worker", "start", "demo", "--name", name]).data_of("worker.started");
}

fn state(sandbox: &TestSandbox, worker: &str, expected: &str) {
    wait_until(expected, DEADLINE, || (sandbox.show(worker)["state"] == expected).then_some(()));
}

#[test]
fn keys_act_on_the_host_of_the_row_beside_hosts_that_do_not_answer() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    sandbox.init();
    start(&sandbox, "one");
    let _ = sandbox.run(&["send", "one", ASK, "-d"]).data_of("turn.accepted");
    // The system accepts the connection, and no server reads from it.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let hosts = json!({"lap": host.entry(&sandbox), "dead": nowhere("1"), "hangs": nowhere(&port)});
    SshHost::offer(&sandbox, &hosts);
    let begun = Instant::now();
    let board = board(&sandbox, "away");
    board.sees("hangs/");
    board.sees("lap/one");
    assert!(begun.elapsed() < Duration::from_secs(8), "one host holds the others up: {:?}", begun.elapsed());
    board.sees("dead/");
    board.sees("Connection refused");
    board.sees("rm -rf build");
    board.sees("[y] once");
    board.types("y");
    board.sees("Done  1");
    state(&sandbox, "one", "idle");
    // The row of the worker is chosen, where its question was.
    board.types("G");
    board.sees("> lap/one");
    board.types("s!say hello\r");
    board.sees("sent to lap/one");
    board.types("\r");
    board.sees("hello");
    board.types("q");
    board.types("x");
    board.sees("stop lap/one");
    board.types("y");
    board.sees("lap/one is stopped");
    state(&sandbox, "one", "stopped");
    // Workers are started on this machine alone.
    board.types("w");
    board.sees("no workspace is here");
    board.types("g");
    board.sees("> dead/");
    board.types("s");
    board.sees("dead does not answer");
    leave(board);
    sandbox.finish();
}

#[test]
fn a_host_that_dies_is_one_row_and_comes_back() {
    let sandbox = TestSandbox::new();
    let Some(mut host) = host(&sandbox) else { return };
    sandbox.init();
    start(&sandbox, "one");
    let board = board(&sandbox, "ws");
    board.sees("lap/one");
    board.sees("2 done");
    host.end_server();
    board.sees("no answer");
    sees_no_more(&board, "lap/one");
    board.sees("1 done · 1 silent");
    // This machine goes on.
    let _ = sandbox.run(&["send", "one", ASK, "-d"]).data_of("turn.accepted");
    board.sees("[y] once");
    board.types("y");
    state(&sandbox, "one", "idle");
    host.restart_server(&sandbox);
    board.sees("lap/one");
    sees_no_more(&board, "no answer");
    leave(board);
    let _ = sandbox.run(&["worker", "stop", "one"]).data();
    sandbox.finish();
}

#[test]
fn a_host_that_hangs_delays_nothing_and_comes_back() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    sandbox.init();
    start(&sandbox, "one");
    let board = board(&sandbox, "ws");
    board.sees("lap/one");
    // Events come, so all connections were made.
    start(&sandbox, "two");
    board.sees("lap/two");
    host.hang();
    let begun = Instant::now();
    let _ = sandbox.run(&["send", "one", ASK, "-d"]).data_of("turn.accepted");
    board.sees("[y] once");
    board.types("y");
    state(&sandbox, "one", "idle");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // Further connections are accepted, so it is reached again as soon as the silence was noticed.
    board.sees("connected to lap again");
    board.sees("lap/one");
    leave(board);
    host.cut();
    let _ = sandbox.run(&["worker", "stop", "one"]).data();
    let _ = sandbox.run(&["worker", "stop", "two"]).data();
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_stopped_there_is_one_row_and_comes_back() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    start(&sandbox, "one");
    let daemon = sandbox.daemon();
    daemon.signal(nix::sys::signal::Signal::SIGSTOP);
    let board = board(&sandbox, "away");
    board.sees("no answer");
    daemon.signal(nix::sys::signal::Signal::SIGCONT);
    board.sees("lap/one");
    leave(board);
    let _ = sandbox.run(&["worker", "stop", "one"]).data();
    sandbox.finish();
}

#[test]
fn all_hosts_and_one_host_exclude_each_other() {
    let sandbox = TestSandbox::new();
    SshHost::offer(&sandbox, &json!({"lap": "ssh://me@lap"}));
    let top = sandbox.command("subagent").args(["top", "--all-hosts", "--host", "lap"]).run();
    assert_eq!(top.status.code(), Some(2), "{top}");
    sandbox.finish();
}

#[test]
fn the_board_of_an_unused_host_shows_what_is_started_there() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    let top = sandbox.command("subagent").args(["top", "--host", "lap"]).cwd(sandbox.file("away"));
    let board = top.at_terminal(100, On::All);
    board.sees("Nothing was started");
    sandbox.init();
    start(&sandbox, "one");
    board.sees("Done  1");
    board.sees("> one");
    leave(board);
    let _ = sandbox.run(&["worker", "stop", "one"]).data();
    sandbox.finish();
}
