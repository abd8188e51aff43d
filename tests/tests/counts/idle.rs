//! Nothing to do is nothing done: no timer, no heartbeat, in none of the processes.

use std::time::Duration;

use subagent_tests::harness::{Sandbox, wait_until, wait_while};

use crate::tools::context_switches;

/// How long nobody may do anything.
const QUIET: Duration = Duration::from_secs(2);
/// What is unsynced is committed within a second; a thread of the daemon that is not needed any more ends after ten.
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
    // Whatever is still to be done is done, or this does not end.
    let quiet = || {
        let before = switches();
        wait_while(QUIET, || (switches() == before).then_some(()))
    };
    wait_until("two seconds without anything done", SETTLES, quiet);
    let _ = follower.kill();
    sandbox.finish();
}
