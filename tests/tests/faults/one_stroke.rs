//! Runtime and guard killed in one stroke: nobody is left who could end what the agent started. Best effort, and
//! counted: the next daemon that looks finds by its marker what still has its environment.

use std::time::Duration;

use nix::sys::signal::Signal;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{Random, Sandbox, times, wait_until, wait_while};

use super::a_moment;

/// After the loss was reported nothing should be left for longer.
const GRACE: Duration = Duration::from_secs(5);

#[test]
fn what_is_left_when_runtime_and_guard_are_killed_in_one_stroke_is_counted() {
    let mut random = Random::announced();
    let sandbox = Sandbox::new();
    sandbox.recorder().knows_all_decisions();
    sandbox.init();
    let worker = sandbox.start("demo");
    let strokes = times(8);
    let (mut agents, mut left_behind) = (0, 0);
    for stroke in 0..strokes {
        let accepted = sandbox.send_no_wait(
            &worker,
            "!spawn daemon\n!spawn ignore-term\n!spawn wipe-env\n!spawn hold-pipes\n!say ready\n!hang",
        );
        let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
        let runtime = sandbox.runtime(&worker);
        let guard = sandbox.guard(&runtime);
        wait_until("all that is left behind", Duration::from_secs(10), || {
            (sandbox.touches("pids") == 4 * (stroke + 1)).then_some(())
        });
        let below = below(&sandbox, &guard);
        assert_eq!(below.len(), 5, "the agent and what it has started: {below:?}");
        a_moment(&mut random, 30);
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            runtime.signal(signal);
            guard.signal(signal);
        }
        assert_eq!(sandbox.turn_end(&accepted)["data"]["error"]["code"], "RUNTIME_LOST", "stroke {stroke}");
        let alive = || {
            let alive: Vec<Process> = below.iter().filter(|process| process.lives()).cloned().collect();
            Some(alive).filter(|alive| !alive.is_empty())
        };
        let left = wait_while(GRACE, alive).unwrap_or_default();
        for process in &left {
            let line = process.command_line();
            assert!(
                line.contains("--spawned wipe-env"),
                "it has a marker and was not found: {process:?} {line}"
            );
            process.signal(Signal::SIGKILL);
        }
        agents += below.len();
        left_behind += left.len();
    }
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    sandbox.finish();
    eprintln!(
        "faults: runtime and guard killed in one stroke {strokes} times (best effort): of {agents} processes of \
         agents {left_behind} were left after {GRACE:?}, all of them without the environment that they were given"
    );
}

fn below(sandbox: &Sandbox, guard: &Process) -> Vec<Process> {
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
