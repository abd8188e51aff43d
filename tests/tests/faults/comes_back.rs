//! A daemon dies while the end of a background task is pending, at random moments and at each step.
//! No command runs afterwards: a runtime restarts the daemon, and the parent is notified once.

use std::fs;
use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::{Random, TestSandbox, crowd, wait_until};

use super::a_moment;
use super::deaths::DaemonDeath;

/// Number of deaths in an ordinary run.
const DEATHS: usize = 10;
/// Number of concurrent cases, which mostly wait.
const WIDTH: usize = 5;
/// Time limit for the daemon to restart and report pending ends.
const SOON: Duration = Duration::from_secs(60);
/// Maximum time from the task's start to its end and to the daemon's death.
const MILLIS: u64 = 800;
/// Steps at which the daemon dies by itself.
const STEPS: &[&str] = &[
    "task_spawn.after_commit",
    "task_end.before_commit",
    "task_end.after_commit",
    "task_delivery.before_commit",
    "task_delivery.after_commit",
];

#[test]
fn a_daemon_that_dies_while_a_background_end_is_due_comes_back_although_no_command_is_typed() {
    let deaths = DaemonDeath::all(DEATHS, STEPS);
    crowd("a daemon comes back", WIDTH, &deaths, DaemonDeath::name, run);
}

fn run(death: &DaemonDeath) {
    let mut random = Random::new(death.seed);
    let mut sandbox = TestSandbox::new();
    let once = death.arm(&mut sandbox);
    let root = sandbox.delegating(&json!(true), &[]);
    let gate = sandbox.gate("command");
    let prompt = format!("!touch {}\n!sleep {}", sandbox.file_name("begun"), random.below(MILLIS));
    let task = sandbox.task_file("nested", "due", "background", &prompt);
    let _ = sandbox.send_no_wait(&root, &format!("{}\n{}", gate.directive(), sandbox.gives(&task)));
    let before = sandbox.daemon_info().unwrap().generation;
    // The last command has ended before anything happens.
    gate.open();
    if death.step.is_none() {
        wait_until("the task to begin", SOON, || (sandbox.touches("begun") > 0).then_some(()));
        a_moment(&mut random, MILLIS);
        sandbox.kill_daemon();
    }
    let journal = sandbox.state_dir().join("runtimes").join(&root).join("1.journal");
    wait_until("the parent to be notified", SOON, || {
        fs::read_to_string(&journal).ok()?.contains("[Subagent 'due'").then_some(())
    });
    // A daemon that had reported it before its death restarts too, because its workers live.
    wait_until("the next daemon", SOON, || {
        let daemon = sandbox.find_daemon()?;
        (sandbox.daemon_info()?.generation > before && daemon.lives()).then_some(())
    });
    assert!(death.step.is_none() || once.exists());
    let reported =
        sandbox.events(&root).into_iter().filter(|event| event["data"]["subagent"]["name"] == "due");
    let reported: Vec<_> = reported.filter(|event| event["type"] == "message.sent").collect();
    assert_eq!(reported.len(), 1, "{reported:?}");
    sandbox.finish();
}
