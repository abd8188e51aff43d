//! Idle processes do nothing: no timer, no heartbeat, in none of them.

use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::{On, TestSandbox, wait_until, wait_while};

use crate::tools::context_switches;

/// How long no process may do anything.
const QUIET: Duration = Duration::from_secs(2);
/// Unsynced data is committed within a second; an unneeded thread of the daemon ends after ten.
const SETTLES: Duration = Duration::from_secs(40);

#[test]
fn an_idle_worker_its_daemon_and_its_follower_do_nothing() {
    let (sandbox, worker) = TestSandbox::with_worker();
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

/// Nothing polls for a question of a task: `send` to the root, the daemon and both runtimes do nothing until
/// the question itself wakes them.
#[test]
fn a_question_of_a_task_wakes_the_send_that_waits_above_it() {
    let mut sandbox = TestSandbox::new();
    let root = sandbox.delegating(&json!({}), &[]);
    let gate = sandbox.gate("question");
    let prompt = format!("{}\n!ask execute make all", gate.directive());
    let gives = sandbox.gives(&sandbox.task_file("nested", "Unit", "foreground", &prompt));
    let send = sandbox.subagent(&["send", "--worker-id", &root, "--text", &gives]).spawn();
    let task = wait_until("the task's open turn", SETTLES, || {
        let listed = sandbox.run(&["task", "list"]).data();
        let task = listed["items"].as_array()?.first()?["taskId"].as_str()?.to_owned();
        (sandbox.show(&task)["state"] == "running").then_some(task)
    });
    let runtimes = [&root, &task].map(|worker| sandbox.runtime(worker).pid);
    let pids = [send.pid(), sandbox.daemon().pid, runtimes[0], runtimes[1]];
    let switches = || pids.map(context_switches);
    let quiet = || {
        let before = switches();
        wait_while(QUIET, || (switches() == before).then_some(()))
    };
    wait_until("two seconds without any activity", SETTLES, quiet);
    gate.open();
    let waited = send.output().data();
    let asked = &waited["matchedEvent"];
    assert_eq!((&asked["type"], &asked["workerId"]), (&json!("approval.requested"), &json!(task)));
    sandbox.approve(&task, &asked["data"]["requestId"], "allow").data_of("approval.decided");
    let end = sandbox.wait_after(&root, &asked["eventId"], "turn.completed");
    assert_eq!(end["workerId"], *root, "{end}");
    sandbox.finish();
}

#[test]
fn a_board_without_an_age_on_it_does_nothing() {
    let sandbox = TestSandbox::new();
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
