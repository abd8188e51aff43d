//! A daemon dies while notifications are due, at random moments and at each step of a delivery. Each question, end and
//! failure arrives; only what was under way arrives twice, with the same id.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use serde_json::Value;
use subagent_tests::harness::{Random, Sandbox, crowd, wait_until};

use super::a_moment;
use super::deaths::Death;

/// How often a daemon dies, in an ordinary run.
const DEATHS: usize = 16;
/// How many cases run at the same time: most of a case is waiting.
const WIDTH: usize = 4;
/// How long all notifications may take to arrive.
const SOON: Duration = Duration::from_secs(60);
/// The daemon is killed at most this long after the first message.
const MILLIS: u64 = 2500;
/// Steps at which the daemon dies by itself, or the process that runs the command.
const STEPS: &[&str] = &[
    "delivery.before_store",
    "delivery.after_store",
    "delivery.before_send",
    "delivery.after_send",
    "command.before_start",
    "command.after_start",
    "command.before_spawn",
    "command.after_spawn",
];

#[test]
fn what_is_due_arrives_once_but_for_what_was_under_way_whenever_the_daemon_dies() {
    let deaths = Death::all(DEATHS, STEPS);
    crowd("notifications", WIDTH, &deaths, Death::name, run);
}

fn run(death: &Death) {
    let mut random = Random::new(death.seed);
    let mut sandbox = Sandbox::new();
    let config = sandbox.file("home/.config/subagent");
    fs::create_dir_all(&config).unwrap();
    // One write a notification, so lines are whole.
    let notify = "notify:\n  - {to: command, on: [question, done, failed], command: 'cat >> ~/told'}\n";
    fs::write(config.join("config.yaml"), notify).unwrap();
    let once = death.arm(&mut sandbox);
    sandbox.init();
    let workers = [sandbox.start("demo"), sandbox.start("demo"), sandbox.start("demo")];
    for (worker, prompt) in workers.iter().zip(["!ask execute make all", "done", "!error -32603 no"]) {
        let _ = sandbox.send_no_wait(worker, prompt);
    }
    if death.step.is_none() {
        a_moment(&mut random, MILLIS);
        sandbox.kill_daemon();
    }
    // The next command starts the next daemon, which goes on.
    let settled = || {
        let log = sandbox.run(&["notify", "log"]).data_of("notify.log");
        let items = log["items"].as_array()?.clone();
        let delivered = |item: &&Value| item["status"] == "delivered";
        (items.iter().filter(delivered).count() == workers.len()).then_some(items)
    };
    let log = wait_until("the notifications", SOON, settled);
    assert!(death.step.is_none() || once.exists());
    let told = fs::read_to_string(sandbox.file("home/told")).unwrap();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut events = BTreeSet::new();
    for document in &told {
        *times.entry(document["id"].as_str().unwrap()).or_default() += 1;
        let data = &document["data"];
        let event =
            if data["eventId"].is_null() { &data["questions"][0]["eventId"] } else { &data["eventId"] };
        events.insert(event.as_str().unwrap());
    }
    let expected: BTreeSet<&str> = log.iter().map(|item| item["eventId"].as_str().unwrap()).collect();
    assert_eq!(events, expected, "{told:?}");
    assert_eq!(times.len(), workers.len(), "an event has one id: {told:?}");
    let repeated = times.values().filter(|times| **times > 1).count();
    assert!(repeated <= 1 && told.len() <= workers.len() + 1, "one was under way: {told:?}");
    sandbox.finish();
}
