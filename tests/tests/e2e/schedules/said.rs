//! What `schedule list`, `doctor`, the board and notifications say when a budget holds a firing up,
//! when a schedule failed too often, and when the machine was off for a day.

use std::fs;

use rusqlite::Connection;
use serde_json::{Value, json};
use subagent_tests::harness::{On, TestSandbox, wait_until};

use super::{SOON, add, log, show, wait_for, world};

/// Sends notifications to a file, one a line.
fn notify(sandbox: &TestSandbox, on: &str) {
    let file = sandbox.file("home/.config/subagent/config.yaml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let to = sandbox.file("notified");
    fs::write(
        file,
        format!("notify:\n  - {{on: [{on}], to: command, command: 'cat >> {}'}}\n", to.display()),
    )
    .unwrap();
}

fn notified(sandbox: &TestSandbox, count: usize) -> Vec<Value> {
    wait_until("notifications", SOON, || {
        let text = fs::read_to_string(sandbox.file("notified")).unwrap_or_default();
        let all: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (all.len() >= count).then_some(all)
    })
}

/// What a person sees at a wide terminal.
fn seen(sandbox: &TestSandbox, args: &[&str]) -> String {
    sandbox.command("subagent").args(args).at_terminal(250, On::Both).screen().bytes
}

fn findings(sandbox: &TestSandbox) -> Vec<Value> {
    let all = sandbox.run(&["doctor"]).document()["data"]["findings"].take();
    all.as_array().unwrap().iter().filter(|one| one["id"] == "config.schedules").cloned().collect()
}

#[test]
fn a_firing_that_a_budget_holds_up_says_so_and_goes_on_later() {
    let sandbox = world();
    notify(&sandbox, "queue_paused, budget");
    let start = ["worker", "start", "--launcher", "demo", "--max-turns", "1"];
    let started = sandbox.run(&start).data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap();
    let gate = sandbox.gate("first");
    let _ = sandbox.send_no_wait(worker, &gate.directive());
    let _ = add(&sandbox, &["remind", "--every", "20m", "--send", worker, "--text", "!say reminded"]);
    let fired = sandbox.run(&["schedule", "run", "remind"]).data_of("schedule.fired");
    assert_eq!(fired["status"], "running", "{fired}");
    gate.open();
    let shown = wait_until("the reason", SOON, || {
        Some(show(&sandbox, "remind")).filter(|shown| shown["error"].is_object())
    });
    assert_eq!(
        (&shown["error"]["code"], &shown["paused"]),
        (&json!("QUEUE_PAUSED"), &Value::Null),
        "{shown}"
    );
    let listed = seen(&sandbox, &["schedule", "list"]);
    assert!(listed.contains("is paused (budget)"), "{listed}");
    let found = findings(&sandbox);
    assert!(found[0]["seen"].as_str().unwrap().contains("the schedule remind goes on later"), "{found:?}");
    assert!(found[0]["action"].as_str().unwrap().contains("queue resume"), "{found:?}");
    let types: Vec<Value> = notified(&sandbox, 2).iter().map(|one| one["type"].clone()).collect();
    assert!(types.contains(&json!("queue_paused")), "{types:?}");
    assert_eq!(sandbox.show(worker)["queue"]["reason"], "budget");
    sandbox.run(&["worker", "set", "--worker-id", worker, "--max-turns", "9"]).data_of("worker.set");
    sandbox.run(&["queue", "resume", "--worker-id", worker]).data_of("queue.resumed");
    let all = wait_for(&sandbox, "remind", "completed", 1);
    assert_eq!(all.len(), 1, "nothing is lost, and nothing is sent twice: {all:?}");
    assert!(show(&sandbox, "remind").get("error").is_none());
    sandbox.finish();
}

#[test]
fn a_firing_that_a_budget_refuses_is_a_failure_with_its_reason() {
    let sandbox = world();
    notify(&sandbox, "schedule_paused");
    let start = ["worker", "start", "--launcher", "demo", "--max-turns", "1"];
    let started = sandbox.run(&start).data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap();
    let flags = ["--max-failures", "2", "--send", worker, "--text", "!say reminded"];
    let _ = add(&sandbox, &[&["remind", "--every", "20m"][..], &flags].concat());
    let run = || sandbox.run(&["schedule", "run", "remind"]).data_of("schedule.fired");
    let _ = run();
    let _ = wait_for(&sandbox, "remind", "completed", 1);
    for _ in 0..2 {
        let failed = run();
        assert_eq!(
            (&failed["status"], &failed["error"]["code"]),
            (&json!("failed"), &json!("BUDGET_EXCEEDED")),
            "{failed}"
        );
    }
    let listed = seen(&sandbox, &["schedule", "list"]);
    assert!(listed.contains("paused (failures)") && listed.contains("the limit is 1"), "{listed}");
    assert_eq!(notified(&sandbox, 1).remove(0)["type"], "schedule_paused");
    let found = findings(&sandbox);
    assert!(found[0]["seen"].as_str().unwrap().contains("the limit is 1"), "{found:?}");
    // With a higher limit it goes on.
    sandbox.run(&["worker", "set", "--worker-id", worker, "--max-turns", "9"]).data_of("worker.set");
    sandbox.run(&["schedule", "resume", "remind"]).data_of("schedule.resumed");
    let _ = run();
    let _ = wait_for(&sandbox, "remind", "completed", 2);
    sandbox.finish();
}

#[test]
fn a_schedule_that_failed_three_times_says_why() {
    let sandbox = world();
    notify(&sandbox, "schedule_paused");
    let _ = add(&sandbox, &["bad", "--every", "1s", "demo", "!error -32603 no luck"]);
    let shown = wait_until("the schedule to be paused", SOON, || {
        Some(show(&sandbox, "bad")).filter(|shown| shown["paused"] == "failures")
    });
    assert_eq!(shown["failures"], 3, "{shown}");
    assert!(
        shown["error"]["message"].as_str().unwrap().contains("no luck"),
        "the agent's own error: {shown}"
    );
    let listed = seen(&sandbox, &["schedule", "list"]);
    assert!(listed.contains("failures") && listed.contains("no luck"), "{listed}");
    let sent = notified(&sandbox, 1).remove(0);
    assert_eq!(sent["type"], "schedule_paused", "{sent}");
    assert!(sent["data"]["command"].as_str().unwrap().starts_with("subagent schedule list"), "{sent}");
    let worker = sent["data"]["worker"]["id"].as_str().unwrap();
    let events = sandbox.events(worker);
    assert!(events.iter().any(|event| event["type"] == "schedule.paused"), "{events:?}");
    assert!(findings(&sandbox)[0]["seen"].as_str().unwrap().contains("bad is paused (failures)"));
    let board = sandbox.command("subagent").args(["top"]).at_terminal(120, On::All);
    board.sees("schedule bad paused (failures), see subagent schedule list: the agent rejected");
    board.types("q");
    assert!(board.screen().status.success());
    sandbox.finish();
}

/// Moves what is stored of all schedules a day into the past, as if no daemon had been there since.
fn a_day_passes(sandbox: &TestSandbox) {
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let database = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    // The newest time was ten minutes ago, so it is missed too.
    let day = (24 * 60 - 10) * 60_000;
    let sql = "UPDATE schedules SET anchor = anchor - ?1, cursor = cursor - ?1, created_at = created_at - ?1";
    database.execute(sql, [day]).unwrap();
}

#[test]
fn after_a_day_without_the_machine_each_rule_says_what_became_of_the_missed_times() {
    let sandbox = world();
    for missed in ["once", "skip", "all"] {
        let _ = add(&sandbox, &[missed, "--every", "20m", "--missed", missed, "demo", "!say done"]);
    }
    a_day_passes(&sandbox);
    let once = wait_for(&sandbox, "once", "completed", 1);
    let left_out = once[0]["leftOut"].as_u64().unwrap();
    assert_eq!((once.len(), left_out), (1, 70), "{once:?}");
    let skipped = log(&sandbox, "skip");
    assert_eq!((skipped.len(), &skipped[0]["status"]), (1, &json!("skipped")), "{skipped:?}");
    let message = skipped[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("no daemon was there") && skipped[0]["leftOut"] == 70, "{skipped:?}");
    let all = wait_until("all firings", SOON, || {
        let all = log(&sandbox, "all");
        all.iter().all(|firing| firing["status"] != "running" && firing["status"] != "waiting").then_some(all)
    });
    assert_eq!(all.len(), 71);
    let over: Vec<&Value> = all.iter().filter(|firing| firing["status"] == "skipped").collect();
    assert_eq!(over.len(), all.len() - 21, "one runs, 20 wait, older ones are left out (overlap: queue)");
    // What a person reads.
    let listed = seen(&sandbox, &["schedule", "list"]);
    assert!(listed.contains(&format!("completed ({left_out} missed before)")), "{listed}");
    let logged = seen(&sandbox, &["schedule", "log", "once"]);
    assert!(logged.contains("LEFT OUT") && logged.contains(&left_out.to_string()), "{logged}");
    sandbox.finish();
}

#[test]
fn a_definition_that_is_gone_pauses_at_once_and_is_used_again_when_it_is_back() {
    let sandbox = world();
    notify(&sandbox, "schedule_paused");
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: triage\ndescription: Labels new issues.\n---\nLabel them.\n";
    fs::write(folder.join("triage.md"), text).unwrap();
    let _ = add(&sandbox, &["label", "--every", "20m", "--task", "triage", "--text", "!say labelled"]);
    let run = || sandbox.run(&["schedule", "run", "label"]).data_of("schedule.fired");
    let _ = run();
    let _ = wait_for(&sandbox, "label", "completed", 1);
    fs::remove_file(folder.join("triage.md")).unwrap();
    let failed = run();
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("AGENT_NOT_FOUND")));
    let shown = show(&sandbox, "label");
    assert_eq!((&shown["paused"], &shown["nextAt"]), (&json!("definition_gone"), &Value::Null), "{shown}");
    assert!(shown["error"]["message"].as_str().unwrap().contains("triage"), "{shown}");
    assert_eq!(notified(&sandbox, 1).remove(0)["type"], "schedule_paused");
    assert!(findings(&sandbox)[0]["seen"].as_str().unwrap().contains("label is paused (definition_gone)"));
    fs::write(folder.join("triage.md"), text).unwrap();
    sandbox.run(&["schedule", "resume", "label"]).data_of("schedule.resumed");
    let _ = run();
    let _ = wait_for(&sandbox, "label", "completed", 2);
    sandbox.finish();
}
