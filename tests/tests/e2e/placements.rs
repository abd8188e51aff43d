//! Workers behind a stream (`SUBAGENT_PLACEMENT_LOOPBACK=1`): the same promises as beside the daemon,
//! also while the stream breaks.

pub(super) mod fence;
mod quota;
mod unreachable;

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{TestSandbox, wait_until};

const DEADLINE: Duration = Duration::from_secs(60);
const SECRET: &str = "secret-of-a-placed-agent-5d2c";

fn placed() -> (TestSandbox, String) {
    let sandbox = TestSandbox::placed();
    sandbox.init();
    let worker = sandbox.start("demo");
    (sandbox, worker)
}

fn dials(sandbox: &TestSandbox) -> Vec<Process> {
    sandbox.processes().into_iter().filter(|process| process.name == "subagent-dial").collect()
}

fn dial(sandbox: &TestSandbox) -> Process {
    wait_until("a dial", DEADLINE, || dials(sandbox).pop())
}

#[test]
fn a_turn_and_a_question() {
    let (sandbox, worker) = placed();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let folder = sandbox.state_dir().join("placed").join(&worker);
    let runtime = sandbox.runtime(&worker);
    assert!(folder.join("socket").exists() && folder.join("1.journal").exists());
    assert_ne!(runtime.parent, sandbox.daemon().pid, "the runtime is no child of the daemon");
    let asked = sandbox.send(&worker, "!ask edit notes.md\n!say done");
    let request = &asked["requestId"];
    let _ = sandbox.approve(&worker, request, "allow").data_of("approval.decided");
    let events = sandbox.events(&worker);
    wait_until("the end of the turn", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    assert!(!events.is_empty());
    sandbox.check();
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_killed_in_a_turn_finds_it_again() {
    let (mut sandbox, worker) = placed();
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    wait_until("the end of the dials", DEADLINE, || dials(&sandbox).is_empty().then_some(()));
    gate.open();
    // The row says where it is, not the daemon's environment.
    sandbox.remove_env("SUBAGENT_PLACEMENT_LOOPBACK");
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    let other = sandbox.start("demo");
    assert!(!sandbox.state_dir().join("placed").join(other).exists());
    sandbox.finish();
}

#[test]
fn no_event_is_lost_or_stored_twice_while_its_stream_is_killed() {
    let mut sandbox = TestSandbox::placed();
    let fast = sandbox.test_agent("fast-agent", &[]);
    sandbox.launcher("fast", fast);
    sandbox.init();
    let worker = sandbox.start("fast");
    let accepted = sandbox.send_no_wait(&worker, "!stream 100000");
    let mut killed = 0;
    while sandbox.records().0 < 90_000 {
        let dial = dial(&sandbox);
        dial.signal(Signal::SIGKILL);
        killed += 1;
        let at = sandbox.records().0;
        // It must come further each time.
        wait_until("more events", DEADLINE, || (sandbox.records().0 >= 100_000.min(at + 2000)).then_some(()));
    }
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let (all, distinct, highest) = sandbox.records();
    assert!(all == distinct && all == highest && all > 100_000, "{all} {distinct} {highest} after {killed}");
    assert!(killed >= 3, "{killed}");
    sandbox.finish();
}

#[test]
fn a_runtime_that_is_killed_is_lost_and_leaves_no_process() {
    let (sandbox, worker) = placed();
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!spawn daemon\n!sleep 600000");
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    wait_until("the agent's process", DEADLINE, || (!guard.children().is_empty()).then_some(()));
    sandbox.kill(&runtime);
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["data"]["error"]["code"], "RUNTIME_LOST", "{end}");
    wait_until("the end of the guard", DEADLINE, || (!guard.lives()).then_some(()));
    // The next message starts another one there.
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    sandbox.check();
    sandbox.finish();
}

#[test]
fn a_stop_leaves_nothing_there() {
    let (sandbox, worker) = placed();
    let _ = sandbox.send(&worker, "!spawn ignore-term");
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    // The runtime has released its lock and may be about to leave.
    wait_until("the end of all its processes", DEADLINE, || {
        sandbox.processes().iter().all(|process| process.name == "subagentd").then_some(())
    });
    let _ = sandbox.run(&["worker", "rm", &worker]);
    let folder = sandbox.state_dir().join("placed").join(&worker);
    wait_until("the removal of the folder", DEADLINE, || (!folder.exists()).then_some(()));
    sandbox.finish();
}

#[test]
fn the_environment_of_the_agent_is_on_no_command_line_and_in_no_file() {
    let mut sandbox = TestSandbox::placed();
    sandbox.set_env("PLACED_SECRET", SECRET);
    sandbox.recorder().keep_secret(SECRET);
    sandbox.init();
    let worker = sandbox.start("demo");
    let said = sandbox.send(&worker, "!shell test -n \"$PLACED_SECRET\" && echo inherited");
    assert!(said.to_string().contains("inherited"), "{said}");
    let ours: Vec<Process> = sandbox.processes();
    assert!(ours.iter().any(|process| process.name == "subagent-dial"), "{ours:?}");
    for process in &ours {
        let command_line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        let command_line = String::from_utf8_lossy(&command_line);
        assert!(!command_line.contains(SECRET), "{command_line}");
    }
    // Files of the state dir are checked at the end.
    sandbox.finish();
}
