//! Runtime and guard are killed at the same time, so neither can end the agent's processes. Best
//! effort, and counted: the next daemon finds processes by the marker in their environment.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Random, TestLauncher, TestSandbox, say, times, wait_until, wait_while};

use super::a_moment;

/// Number of double kills.
const STROKES: usize = 8;
/// Time limit after the reported loss for all processes that can be found.
const GRACE: Duration = Duration::from_secs(5);

/// One worker, and the processes of its agent.
struct Struck {
    accepted: Value,
    below: Vec<Process>,
}

#[test]
fn what_is_left_when_runtime_and_guard_are_killed_in_one_stroke_is_counted() {
    let mut random = Random::announced();
    let mut sandbox = TestSandbox::new();
    sandbox.recorder().knows_all_decisions();
    for stroke in 0..times(STROKES) {
        // Each with its own file, which shows when all are running.
        let pids = sandbox.file_name(&format!("pids-{stroke}"));
        let agent = TestLauncher::new(sandbox.executable("subagent"), ["demo-agent", "--pids", &pids]);
        sandbox.launcher(&format!("demo-{stroke}"), agent);
    }
    sandbox.init();
    let mut struck = Vec::new();
    for stroke in 0..times(STROKES) {
        let worker = sandbox.start(&format!("demo-{stroke}"));
        let prompt =
            "!spawn daemon\n!spawn ignore-term\n!spawn wipe-env\n!spawn hold-pipes\n!say ready\n!hang";
        let accepted = sandbox.send_no_wait(&worker, prompt);
        let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
        wait_until("all remaining processes", Duration::from_secs(10), || {
            (sandbox.touches(&format!("pids-{stroke}")) == 4).then_some(())
        });
        let runtime = sandbox.runtime(&worker);
        let guard = sandbox.guard(&runtime);
        let below = below(&sandbox, &guard);
        assert_eq!(below.len(), 5, "the agent and what it has started: {below:?}");
        a_moment(&mut random, 30);
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            runtime.signal(signal);
            guard.signal(signal);
        }
        struck.push(Struck { accepted, below });
    }
    for struck in &struck {
        assert_eq!(sandbox.turn_end(&struck.accepted)["data"]["error"]["code"], "RUNTIME_LOST");
    }
    let agents: Vec<&Process> = struck.iter().flat_map(|struck| &struck.below).collect();
    let left = || agents.iter().copied().filter(|process| process.lives()).collect::<Vec<_>>();
    let wiped = |process: &&Process| process.command_line().contains("--spawned wipe-env");
    // Every process with a marker is ended; the others cannot be found.
    let marked = wait_while(GRACE, || Some(left()).filter(|left| !left.iter().all(wiped)));
    assert_eq!(marked, None, "these processes with a marker were not found");
    let left = left();
    left.iter().for_each(|process| process.signal(Signal::SIGKILL));
    for struck in &struck {
        let worker = struck.accepted["workerId"].as_str().unwrap();
        assert_eq!(sandbox.send(worker, "again")["assistantText"], "again");
    }
    sandbox.finish();
    say(&format!(
        "faults: runtime and guard killed in one stroke {} times (best effort): of {} processes of agents {} were \
         left, all of them without the environment that they were given",
        struck.len(),
        agents.len(),
        left.len()
    ));
}

fn below(sandbox: &TestSandbox, guard: &Process) -> Vec<Process> {
    let all = sandbox.processes();
    let mut found = vec![guard.pid];
    let mut index = 0;
    while index < found.len() {
        let parent = found[index];
        found.extend(all.iter().filter(|process| process.parent == parent).map(|process| process.pid));
        index += 1;
    }
    all.into_iter().filter(|process| process.pid != guard.pid && found.contains(&process.pid)).collect()
}
