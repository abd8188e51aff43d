//! `schedule`: each time fires exactly once, even if the daemon dies, and bad input is refused.

mod declared;
mod said;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox, wait_until};

/// Time limit for operations of a few seconds.
pub(super) const SOON: Duration = Duration::from_secs(60);

pub(super) fn world() -> TestSandbox {
    started(TestSandbox::new())
}

pub(super) fn started(mut sandbox: TestSandbox) -> TestSandbox {
    let demo = sandbox.demo_agent(&[]);
    sandbox.launcher("demo", demo);
    sandbox.init();
    sandbox
}

fn add(sandbox: &TestSandbox, args: &[&str]) -> Value {
    let args: Vec<&str> = ["schedule", "add"].iter().chain(args).copied().collect();
    sandbox.run(&args).data_of("schedule.added")
}

/// Returns the firings of a schedule or a trigger (`kind`), oldest first.
pub(super) fn firings(sandbox: &TestSandbox, kind: &str, name: &str) -> Vec<Value> {
    let data = sandbox.run(&[kind, "log", name]).data_of(&format!("{kind}.log"));
    let mut items = data["items"].as_array().unwrap().clone();
    items.reverse();
    items
}

/// Waits until this many firings have ended with this status.
pub(super) fn wait_for_firings(
    sandbox: &TestSandbox,
    kind: &str,
    name: &str,
    status: &str,
    count: usize,
) -> Vec<Value> {
    wait_until("firings", SOON, || {
        let all = firings(sandbox, kind, name);
        (all.iter().filter(|firing| firing["status"] == status).count() >= count).then_some(all)
    })
}

fn log(sandbox: &TestSandbox, name: &str) -> Vec<Value> {
    firings(sandbox, "schedule", name)
}

fn show(sandbox: &TestSandbox, name: &str) -> Value {
    sandbox.run(&["schedule", "show", name]).data_of("schedule.shown")
}

fn wait_for(sandbox: &TestSandbox, name: &str, status: &str, count: usize) -> Vec<Value> {
    wait_for_firings(sandbox, "schedule", name, status, count)
}

/// Returns the tasks of a schedule, by their scheduled time.
fn tasks(sandbox: &TestSandbox, name: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for task in sandbox.run(&["task", "list", "--all"]).data()["items"].as_array().unwrap() {
        for event in sandbox.events(task["taskId"].as_str().unwrap()) {
            if event["type"] == "schedule.fired" && event["data"]["schedule"] == name {
                *found.entry(event["data"]["at"].as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
    }
    found
}

#[test]
fn an_interval_fires_tasks_until_it_is_paused() {
    let sandbox = world();
    let added = add(&sandbox, &["tick", "--every", "1s", "--timezone", "Europe/Berlin", "demo", "!say done"]);
    assert_eq!((&added["attendant"], &added["timezone"]), (&json!("daemon"), &json!("Europe/Berlin")));
    assert_eq!(added["work"]["task"]["manager"]["env"], json!([]), "no variable is stored");
    let _ = wait_for(&sandbox, "tick", "completed", 2);
    let paused = sandbox.run(&["schedule", "pause", "tick"]).data_of("schedule.paused");
    assert_eq!((&paused["paused"], &paused["nextAt"]), (&json!("user"), &Value::Null));
    let settled = wait_until("the last task to end", SOON, || {
        let all = log(&sandbox, "tick");
        all.iter().all(|firing| firing["status"] != "running").then_some(all)
    });
    assert_eq!(tasks(&sandbox, "tick").len(), settled.iter().filter(|f| f["status"] == "completed").count());
    // While paused, it fires only on request.
    let fired = sandbox.run(&["schedule", "run", "tick"]).data_of("schedule.fired");
    assert_eq!((&fired["manual"], fired["workerId"].is_string()), (&json!(true), true), "{fired}");
    let _ = wait_for(&sandbox, "tick", "completed", settled.len().min(2) + 1);
    let removed = sandbox.run(&["schedule", "rm", "tick"]).data_of("schedule.removed");
    assert_eq!(removed["name"], "tick");
    sandbox.run(&["schedule", "show", "tick"]).error("SCHEDULE_NOT_FOUND");
    assert_eq!(sandbox.run(&["schedule", "list"]).data_of("schedule.listed")["count"], 0);
    sandbox.finish();
}

#[test]
fn a_schedule_that_takes_the_place_of_a_removed_one_fires() {
    let sandbox = world();
    for name in ["first", "second"] {
        let _ = add(&sandbox, &[name, "--every", "20m", "demo", "!say done"]);
        let fired = sandbox.run(&["schedule", "run", name]).data_of("schedule.fired");
        assert!(fired["workerId"].is_string(), "{fired}");
        let _ = wait_for(&sandbox, name, "completed", 1);
        sandbox.run(&["schedule", "rm", name]).data_of("schedule.removed");
    }
    sandbox.finish();
}

#[test]
fn a_firing_takes_the_place_of_the_one_before_it() {
    let sandbox = world();
    let args = ["busy", "--every", "20m", "--overlap", "cancel-previous", "demo", "!sleep 60000"];
    let _ = add(&sandbox, &args);
    let first = sandbox.run(&["schedule", "run", "busy"]).data_of("schedule.fired");
    assert_eq!(first["status"], "running", "{first}");
    let _ = sandbox.run(&["schedule", "run", "busy"]).data_of("schedule.fired");
    let all = wait_until("the second firing", SOON, || {
        let all = log(&sandbox, "busy");
        (all.len() == 2 && all[1]["status"] == "running").then_some(all)
    });
    assert_eq!((&all[0]["status"], &all[0]["workerId"]), (&json!("canceled"), &first["workerId"]), "{all:?}");
    sandbox.run(&["schedule", "rm", "busy"]).data_of("schedule.removed");
    sandbox.run(&["worker", "stop", all[1]["workerId"].as_str().unwrap()]).data_of("worker.stopped");
    sandbox.finish();
}

/// Adds a schedule whose firings take long, and fires it twice. Returns both firings, oldest first.
fn fired_twice(sandbox: &TestSandbox, name: &str, overlap: &str) -> Vec<Value> {
    let _ = add(sandbox, &[name, "--every", "20m", "--overlap", overlap, "demo", "!sleep 60000"]);
    for _ in 0..2 {
        sandbox.run(&["schedule", "run", name]).data_of("schedule.fired");
    }
    let all = log(sandbox, name);
    sandbox.run(&["schedule", "rm", name]).data_of("schedule.removed");
    for firing in all.iter().filter(|firing| firing["status"] == "running") {
        sandbox.run(&["worker", "stop", firing["workerId"].as_str().unwrap()]).data_of("worker.stopped");
    }
    all
}

#[test]
fn a_firing_is_left_out_or_starts_beside_the_one_before_it() {
    let sandbox = world();
    let skipped = fired_twice(&sandbox, "skips", "skip");
    assert_eq!((&skipped[0]["status"], &skipped[1]["status"]), (&json!("running"), &json!("skipped")));
    assert_eq!(skipped[1]["error"]["message"], "an earlier firing was running (overlap: skip)");
    assert!(skipped[1]["workerId"].is_null(), "{skipped:?}");
    let both = fired_twice(&sandbox, "both", "parallel");
    assert_eq!((&both[0]["status"], &both[1]["status"]), (&json!("running"), &json!("running")));
    assert_ne!(both[0]["workerId"], both[1]["workerId"]);
    sandbox.finish();
}

#[test]
fn doctor_says_which_schedules_and_triggers_do_not_fire() {
    let sandbox = world();
    let found = || {
        let all = sandbox.run(&["doctor"]).document()["data"]["findings"].as_array().unwrap().clone();
        all.into_iter().filter(|finding| finding["id"] == "config.schedules").collect::<Vec<Value>>()
    };
    let _ = add(&sandbox, &["calm", "--every", "20m", "demo", "!say done"]);
    sandbox.run(&["schedule", "pause", "calm"]).data_of("schedule.paused");
    let calm = found();
    assert_eq!((calm.len(), &calm[0]["status"]), (1, &json!("ok")), "{calm:?}");
    let worker = sandbox.start("demo");
    let args = ["trigger", "add", "after", "--after", &worker, "demo", "!say done"];
    sandbox.run(&args).data_of("trigger.added");
    let args = ["bad", "--every", "20m", "--max-failures", "1", "demo", "!error -32603 no luck"];
    let _ = add(&sandbox, &args);
    sandbox.run(&["schedule", "run", "bad"]).data_of("schedule.fired");
    let _ = wait_for(&sandbox, "bad", "failed", 1);
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let said: Vec<String> =
        found().iter().map(|finding| finding["seen"].as_str().unwrap().to_owned()).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("the schedule bad is paused (failures): "), "{said:?}");
    assert!(said[1].starts_with("the trigger after cannot fire: "), "{said:?}");
    sandbox.finish();
}

/// The daemon dies at the point during a firing; the next one continues.
fn fires_once_although_the_daemon_dies_at(point: &str) {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("once");
    sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort@1"));
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    let sandbox = started(sandbox);
    let add = ["schedule", "add", "tick", "--every", "3s", "--missed", "all", "demo", "!say done"];
    let _ = sandbox.subagent(&add).run();
    wait_until("the point to be reached", SOON, || {
        let _ = sandbox.subagent(&["worker", "list"]).run();
        once.exists().then_some(())
    });
    let _ = wait_for(&sandbox, "tick", "completed", 2);
    sandbox.run(&["schedule", "pause", "tick"]).data_of("schedule.paused");
    let all = wait_until("the last task to end", SOON, || {
        let all = log(&sandbox, "tick");
        all.iter().all(|firing| firing["status"] != "running").then_some(all)
    });
    let started: Vec<&Value> = all.iter().filter(|firing| firing["workerId"].is_string()).collect();
    let tasks = tasks(&sandbox, "tick");
    assert_eq!(tasks.len(), started.len(), "{point}: {all:?} {tasks:?}");
    assert!(tasks.values().all(|count| *count == 1), "{point}: {tasks:?}");
    assert!(started.iter().all(|firing| firing["status"] == "completed"), "{point}: {all:?}");
    sandbox.finish();
}

#[test]
fn each_time_fires_once_whenever_the_daemon_dies() {
    for point in [
        "schedule.before_store",
        "schedule.after_store",
        "firing.before_start",
        "firing.after_start",
        "task_spawn.after_commit",
    ] {
        fires_once_although_the_daemon_dies_at(point);
    }
}

#[test]
fn messages_go_to_a_worker_and_a_worker_that_is_stopped_pauses_the_schedule() {
    let sandbox = world();
    let worker = sandbox.start("demo");
    let added = add(&sandbox, &["remind", "--every", "1s", "--send", &worker, "--text", "!say reminded"]);
    assert_eq!(added["work"]["send"]["worker"], json!(worker));
    let all = wait_for(&sandbox, "remind", "completed", 2);
    assert!(all[0]["turnId"].is_string() && all[0]["workerId"] == json!(worker), "{all:?}");
    let sent = sandbox.events(&worker);
    assert!(sent.iter().any(|event| event["type"] == "schedule.fired"));
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let shown = wait_until("the schedule to be paused", SOON, || {
        let shown = show(&sandbox, "remind");
        (shown["paused"] == "worker_gone").then_some(shown)
    });
    assert_eq!(shown["error"]["code"], "WORKER_STOPPED");
    sandbox.finish();
}

#[test]
fn failures_in_a_row_pause_and_are_reported() {
    let sandbox = world();
    let args = ["bad", "--every", "1s", "--max-failures", "2", "demo", "!error -32603 no luck"];
    let _ = add(&sandbox, &args);
    let shown = wait_until("the schedule to be paused", SOON, || {
        let shown = show(&sandbox, "bad");
        (shown["paused"] == "failures").then_some(shown)
    });
    assert_eq!(shown["failures"], 2);
    let last = shown["lastFiring"].clone();
    let failed: Vec<Value> = log(&sandbox, "bad").into_iter().filter(|f| f["status"] == "failed").collect();
    let worker = failed.last().unwrap()["workerId"].as_str().unwrap().to_owned();
    assert_eq!(failed.len(), 2, "{last}");
    let events = sandbox.events(&worker);
    let paused = events.iter().find(|event| event["type"] == "schedule.paused").unwrap();
    assert_eq!(paused["data"]["reason"], "failures");
    let resumed = sandbox.run(&["schedule", "resume", "bad"]).data_of("schedule.resumed");
    assert_eq!((&resumed["failures"], resumed["nextAt"].is_string()), (&json!(0), true));
    sandbox.run(&["schedule", "rm", "bad"]).data_of("schedule.removed");
    sandbox.finish();
}

#[test]
fn what_cannot_be_fired_is_refused() {
    let sandbox = world();
    let refused = |args: &[&str], code: &str, says: &str| {
        let all: Vec<&str> = ["schedule", "add", "x"].iter().chain(args).copied().collect();
        let error = sandbox.run(&all).error(code);
        assert!(error.to_string().contains(says), "{args:?}: {error}");
    };
    let work = ["--timezone", "UTC", "demo", "hello"];
    let with = |when: &[&'static str]| -> Vec<&'static str> { when.iter().chain(&work).copied().collect() };
    refused(&with(&["--cron", "0 0 30 2 *"]), "INVALID_ARGUMENT", "never comes");
    refused(&with(&["--cron", "61 * * * *"]), "INVALID_ARGUMENT", "61");
    refused(&with(&["--cron", "* * * *"]), "INVALID_ARGUMENT", "five fields");
    refused(&with(&["--at", "2020-01-01T00:00"]), "INVALID_ARGUMENT", "never comes");
    refused(&with(&["--at", "soon"]), "INVALID_ARGUMENT", "is not a time");
    refused(&["--every", "5m", "--timezone", "Mars/Olympus", "demo", "x"], "INVALID_ARGUMENT", "not known");
    refused(
        &["--every", "5m", "--timezone", "../../etc/passwd", "demo", "x"],
        "INVALID_ARGUMENT",
        "name of a time zone",
    );
    let berlin = |time| ["--at", time, "--timezone", "Europe/Berlin", "demo", "x"];
    refused(&berlin("2030-03-31T02:30"), "INVALID_ARGUMENT", "does not exist");
    refused(&berlin("2030-10-27T02:30"), "INVALID_ARGUMENT", "exists twice");
    refused(&["--every", "5m", "gone", "x"], "AGENT_NOT_FOUND", "gone");
    refused(&["--every", "5m", "--task", "gone", "--text", "x"], "AGENT_NOT_FOUND", "gone");
    refused(&["--every", "5m", "--send", "w_0123456789", "--text", "x"], "WORKER_NOT_FOUND", "w_0123456789");
    // The daemon in the background would have ended by then.
    refused(&with(&["--every", "7d"]), "SCHEDULE_UNATTENDED", "daemon install");
    let _ = add(&sandbox, &["mine", "--every", "20m", "demo", "hello"]);
    let again = ["schedule", "add", "mine", "--every", "20m", "demo", "hello"];
    sandbox.run(&again).error("NAME_TAKEN");
    assert_eq!(sandbox.run(&["schedule", "list"]).data_of("schedule.listed")["count"], 1);
    sandbox.finish();
}

#[test]
fn a_firing_during_the_stop_of_all_workers_waits_for_the_next_daemon() {
    let mut sandbox = TestSandbox::new();
    let (demo, state) = (sandbox.executable("subagent"), sandbox.file_name("slow"));
    // It ends only when it is killed, some seconds after the stop began.
    let script = format!("trap '' TERM\n{demo} demo-agent --state {state}\nexec /bin/sleep 600");
    sandbox.launcher("slow", TestLauncher::new("/bin/sh", ["-c", script.as_str()]));
    let sandbox = started(sandbox);
    let _ = add(&sandbox, &["tick", "--every", "1s", "demo", "!say done"]);
    let _ = wait_for(&sandbox, "tick", "completed", 1);
    sandbox.run(&["worker", "start", "--launcher", "slow"]).data_of("worker.started");
    let stop = sandbox.command("subagentd").args(["stop", "--workers", "--json"]).run();
    assert_eq!(stop.status.code(), Some(0), "{stop}");
    assert_eq!(sandbox.number("SELECT count(*) FROM workers WHERE state != 'stopped'"), 0);
    assert!(sandbox.number("SELECT count(*) FROM firings WHERE status = 'waiting'") > 0, "none fell due");
    // The next daemon starts it.
    let before = log(&sandbox, "tick").len();
    let _ = wait_for(&sandbox, "tick", "completed", before);
    sandbox.run(&["schedule", "rm", "tick"]).data_of("schedule.removed");
    sandbox.finish();
}
