//! A daemon dies while the end of a background task is due, at random moments and at each step of the way. No command is
//! typed afterwards: a runtime starts it again, and the parent hears of the end, once.

use std::fs;
use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::{Random, Sandbox, crowd, times, wait_until};

use super::a_moment;

/// How often, in an ordinary run.
const DEATHS: usize = 10;
/// Cases that run at the same time: most of a case is waiting.
const WIDTH: usize = 5;
/// For the daemon to come back and to tell what is due.
const SOON: Duration = Duration::from_secs(60);
/// The task ends, and the daemon is killed, at most this long after the task has begun.
const MILLIS: u64 = 800;
/// Steps at which the daemon dies by itself.
const STEPS: &[&str] = &[
    "task_spawn.after_commit",
    "task_end.before_commit",
    "task_end.after_commit",
    "task_delivery.before_commit",
    "task_delivery.after_commit",
];

/// One death.
struct Case {
    number: usize,
    /// Where it dies; `None`: it is killed at a random moment.
    step: Option<&'static str>,
    seed: u64,
}

impl Case {
    fn name(&self) -> String {
        format!("{} {}", self.number, self.step.unwrap_or("random"))
    }
}

#[test]
fn a_daemon_that_dies_while_a_background_end_is_due_comes_back_although_no_command_is_typed() {
    let mut random = Random::announced();
    // Every second one at a random moment.
    let step = |number: usize| (number % 2 == 1).then(|| STEPS[number / 2 % STEPS.len()]);
    let cases: Vec<Case> =
        (0..times(DEATHS)).map(|number| Case { number, step: step(number), seed: random.number() }).collect();
    crowd("a daemon comes back", WIDTH, &cases, Case::name, run);
}

fn run(case: &Case) {
    let mut random = Random::new(case.seed);
    let mut sandbox = Sandbox::new();
    let once = sandbox.file("reached");
    if let Some(step) = case.step {
        sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{step}=abort@1"));
        sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    }
    let root = sandbox.delegating(&json!(true), &[]);
    let gate = sandbox.gate("command");
    let prompt = format!("!touch {}\n!sleep {}", sandbox.file_name("begun"), random.below(MILLIS));
    let task = sandbox.task_file("nested", "due", "background", &prompt);
    let _ = sandbox.send_no_wait(&root, &format!("{}\n{}", gate.directive(), sandbox.gives(&task)));
    let before = sandbox.daemon_info().unwrap().generation;
    // The last command is over before anything happens.
    gate.open();
    if case.step.is_none() {
        wait_until("the task to begin", SOON, || (sandbox.touches("begun") > 0).then_some(()));
        a_moment(&mut random, MILLIS);
        sandbox.kill_daemon();
    }
    let journal = sandbox.state_dir().join("runtimes").join(&root).join("1.journal");
    wait_until("the parent to hear", SOON, || {
        fs::read_to_string(&journal).ok()?.contains("[Subagent 'due'").then_some(())
    });
    // One that had told it before its death comes back too: its workers live.
    wait_until("the next daemon", SOON, || {
        let daemon = sandbox.find_daemon()?;
        (sandbox.daemon_info()?.generation > before && daemon.lives()).then_some(())
    });
    assert!(case.step.is_none() || once.exists());
    let told = sandbox.events(&root).into_iter().filter(|event| event["data"]["subagent"]["name"] == "due");
    let told: Vec<_> = told.filter(|event| event["type"] == "message.sent").collect();
    assert_eq!(told.len(), 1, "{told:?}");
    sandbox.finish();
}
