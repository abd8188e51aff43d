//! Idle processes do nothing: no timer, no heartbeat, in none of them.

use std::time::Duration;

use subagent_tests::harness::{On, Sandbox, wait_until, wait_while};

use crate::tools::context_switches;

/// How long no process may do anything.
const QUIET: Duration = Duration::from_secs(2);
/// Unsynced data is committed within a second; an unneeded thread of the daemon ends after ten.
const SETTLES: Duration = Duration::from_secs(40);

#[test]
fn an_idle_worker_its_daemon_and_its_follower_do_nothing() {
    let (sandbox, worker) = Sandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    let follower = sandbox.follow(&worker);
    follower.wait_line("the end of the turn", |line| line.contains("\"turn.completed\"").then_some(()));
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    let pids = [sandbox.daemon().pid, runtime.pid, guard.pid, follower.pid()];
    let switches = || pids.map(context_switches);
    // Waits until all pending work is done.
    let quiet = || {
        let before = switches();
        wait_while(QUIET, || (switches() == before).then_some(()))
    };
    wait_until("two seconds without any activity", SETTLES, quiet);
    let _ = follower.kill();
    sandbox.finish();
}

#[test]
fn a_board_without_an_age_on_it_does_nothing() {
    let sandbox = Sandbox::new();
    sandbox.init();
    let board = sandbox.command("subagent").args(["top"]).at_terminal(80, On::All);
    board.sees("No workers.");
    let switches = || [sandbox.daemon().pid, board.pid()].map(context_switches);
    let quiet = || {
        let before = switches();
        wait_while(QUIET, || (switches() == before).then_some(()))
    };
    wait_until("two seconds without anything done", SETTLES, quiet);
    board.types("q");
    assert!(board.screen().status.success());
    sandbox.finish();
}
