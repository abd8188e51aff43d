//! A daemon dies around firings of schedules and of each kind of trigger, at random moments and at
//! each step. Each firing starts one task, and each occurrence fires once. `SUBAGENT_FAULTS=56` are
//! 1,000 deaths.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::Value;
use subagent_tests::harness::{Random, TestSandbox, crowd, wait_until};

use super::a_moment;
use super::deaths::DaemonDeath;

/// Steps at which the daemon dies by itself.
const STEPS: &[&str] = &[
    "schedule.before_store",
    "schedule.after_store",
    "firing.before_start",
    "firing.after_start",
    "observation.before_store",
    "observation.after_store",
    "change.before_store",
    "change.after_store",
    "task_spawn.after_commit",
];
/// Number of deaths in an ordinary run: each step once.
const DEATHS: usize = 2 * STEPS.len();
/// Number of concurrent cases, which mostly wait.
const WIDTH: usize = 4;
/// Time limit for all firings.
const SOON: Duration = Duration::from_secs(90);
/// Maximum time from the first firing to the daemon's death.
const MILLIS: u64 = 2500;
/// Everything that fires, with its command.
const STARTERS: [(&str, &str); 5] = [
    ("schedule", "tick"),
    ("trigger", "requests"),
    ("trigger", "ends"),
    ("trigger", "output"),
    ("trigger", "files"),
];

#[test]
fn each_firing_starts_one_task_whenever_the_daemon_dies() {
    let deaths = DaemonDeath::all(DEATHS, STEPS);
    crowd("firings", WIDTH, &deaths, DaemonDeath::name, run);
}

fn run(death: &DaemonDeath) {
    let mut random = Random::new(death.seed);
    let mut sandbox = TestSandbox::new();
    let demo = sandbox.demo_agent(&[]);
    sandbox.launcher("demo", demo);
    let once = death.arm(&mut sandbox);
    sandbox.init();
    let worker = sandbox.start("demo");
    // Counts its runs: each output differs.
    let counter = sandbox.file("counter");
    let counts = format!("echo x >> '{0}'; wc -l < '{0}'", counter.display());
    let add = |command: &str, name: &str, flags: &[&str]| {
        let args = [&[command, "add", name][..], flags, &["demo", "!say done"]].concat();
        sandbox.run(&args).data();
    };
    add("trigger", "requests", &[]);
    add("trigger", "ends", &["--after", &worker]);
    add("trigger", "files", &["--watch", "*.watched", "--debounce", "0.1"]);
    add("trigger", "output", &["--on-command", &counts, "--changed", "--every", "1s"]);
    add("schedule", "tick", &["--every", "1s", "--timezone", "UTC"]);
    let request = |number: u32| {
        let occurrence = number.to_string();
        let fire = ["trigger", "fire", "requests", "--occurrence", &occurrence];
        sandbox.subagent(&fire).stdin("data").run().data_of("trigger.fired");
    };
    let _ = sandbox.send_no_wait(&worker, "!say well");
    fs::write(sandbox.workspace().join("a.watched"), "x").unwrap();
    request(1);
    if death.step.is_none() {
        a_moment(&mut random, MILLIS);
        sandbox.kill_daemon();
    }
    // The next command starts the next daemon, which continues. A request may be repeated.
    for number in [1, 2, 3, 1] {
        request(number);
    }
    let mut number = 0u32;
    wait_until("the firings", SOON, || {
        // What changes while no daemon runs fires nothing.
        number += 1;
        fs::write(sandbox.workspace().join("a.watched"), number.to_string()).unwrap();
        let wanted = [2, 3, 1, 2, 1];
        let completed = |(kind, name): &(&str, &str)| {
            firings(&sandbox, kind, name).iter().filter(|firing| firing["status"] == "completed").count()
        };
        let enough = STARTERS.iter().zip(wanted).all(|(starter, wanted)| completed(starter) >= wanted);
        (enough && (death.step.is_none() || once.exists())).then_some(())
    });
    for (kind, name) in STARTERS {
        sandbox.run(&[kind, "pause", name]).data();
    }
    let all = wait_until("the ends of all firings", SOON, || {
        let all: Vec<Value> =
            STARTERS.iter().flat_map(|(kind, name)| firings(&sandbox, kind, name)).collect();
        let is_open = |firing: &Value| firing["status"] == "running" || firing["status"] == "waiting";
        (!all.iter().any(is_open)).then_some(all)
    });
    let id = |firing: &Value| firing["workerId"].as_str().map(str::to_owned);
    let started: Vec<String> = all.iter().filter_map(id).collect();
    let tasks = fired_tasks(&sandbox);
    assert_eq!(started.iter().cloned().collect::<BTreeSet<_>>(), tasks, "each task is of a firing: {all:?}");
    assert_eq!(started.len(), tasks.len(), "each firing has its own task: {all:?}");
    let of = |name: &str| all.iter().filter(|firing| firing["schedule"] == name).count();
    assert_eq!((of("requests"), of("ends")), (3, 1), "each occurrence fires once: {all:?}");
    sandbox.finish();
}

fn firings(sandbox: &TestSandbox, kind: &str, name: &str) -> Vec<Value> {
    sandbox.run(&[kind, "log", name]).data()["items"].as_array().unwrap().clone()
}

/// Returns the tasks that firings have started. Each is told once of its firing.
fn fired_tasks(sandbox: &TestSandbox) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for task in sandbox.run(&["task", "list", "--all"]).data()["items"].as_array().unwrap() {
        let id = task["taskId"].as_str().unwrap();
        let is_fired = |event: &&Value| event["type"] == "schedule.fired" || event["type"] == "trigger.fired";
        let events = sandbox.events(id);
        assert_eq!(events.iter().filter(is_fired).count(), 1, "{id}: {events:?}");
        found.insert(id.to_owned());
    }
    found
}
