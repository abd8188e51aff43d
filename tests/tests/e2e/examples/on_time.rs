//! `examples/on-time-and-events`: a review at night, a fixer of failed jobs, a watcher of a folder.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox, wait_until};

use super::{bash, example};
use crate::schedules::{SOON, firings, wait_for_firings};
use crate::worktrees::repository;

fn run(sandbox: &TestSandbox, script: &str, args: &[&str]) -> Output {
    let script = example("on-time-and-events").join(script);
    let output = bash(sandbox).args([script]).args(args).cwd(sandbox.workspace()).run();
    assert!(output.status.success(), "{output}");
    output
}

/// A file with a task for the scripted agent.
fn task(sandbox: &TestSandbox, text: &str) -> String {
    let file = sandbox.file("task.md");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn shown(sandbox: &TestSandbox, firing: &Value) -> Value {
    sandbox.run(&["task", "show", firing["workerId"].as_str().unwrap()]).data_of("task.shown")
}

#[test]
fn a_nightly_review_works_in_a_worktree_and_its_end_is_a_notification() {
    let mut sandbox = repository();
    // As a daemon of systemd, it stays until the night.
    sandbox.set_env("SUBAGENT_IDLE_EXIT_SECONDS", "0");
    let notified = sandbox.file("notified");
    let config = sandbox.file("home/.config/subagent/config.yaml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let sink = format!("{{on: [done], to: command, command: 'cat >> {}'}}", notified.display());
    fs::write(&config, format!("notify:\n  - {sink}\n")).unwrap();
    let from = example("on-time-and-events/.agents/agents/night-reviewer.md");
    let to = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&to).unwrap();
    fs::copy(from, to.join("night-reviewer.md")).unwrap();
    let review = json!({"verdict": "findings", "findings": [{"file": "a", "reason": "it is empty"}]});
    let asked = format!("!ask execute git log -3\n!ask edit a\n!say in \n!cwd\n!tool read a\n{review}");
    let _ = run(&sandbox, "nightly-review.sh", &[&task(&sandbox, &asked)]);
    let added = sandbox.run(&["schedule", "show", "nightly-review"]).data_of("schedule.shown");
    assert!(added["nextAt"].is_string() && added["attendant"] == "daemon", "{added}");
    sandbox.run(&["schedule", "run", "nightly-review"]).data_of("schedule.fired");
    let fired = wait_for_firings(&sandbox, "schedule", "nightly-review", "completed", 1);
    let task = shown(&sandbox, &fired[0]);
    assert_eq!(task["result"], review.to_string(), "{task}");
    let text: String = sandbox
        .events(fired[0]["workerId"].as_str().unwrap())
        .iter()
        .filter_map(|event| event["data"]["text"].as_str().map(str::to_owned))
        .collect();
    assert!(text.contains("allow-once") && text.contains("reject-once"), "it may read, not edit: {text}");
    assert!(text.contains("/worktrees/"), "{text}");
    let document = wait_until("the notification", SOON, || {
        let text = fs::read_to_string(&notified).ok()?;
        serde_json::from_str::<Value>(text.lines().next()?).ok()
    });
    assert_eq!(document["type"], "done", "{document}");
    sandbox.finish();
}

#[test]
fn a_fixer_works_once_for_each_job_that_failed() {
    let sandbox = repository();
    let text = "!edit create fixed.txt yes\n!say fixed\n\n{{payload}}";
    let _ = run(&sandbox, "ci-fixer.sh", &["add", "demo", &task(&sandbox, text)]);
    let log = sandbox.file("job.log");
    fs::write(&log, format!("{}\nerror: it does not build\n", "line\n".repeat(100_000))).unwrap();
    let log = log.to_str().unwrap();
    for job in ["7", "7", "8"] {
        let _ = run(&sandbox, "ci-fixer.sh", &["failed", job, log]);
    }
    let fired = wait_for_firings(&sandbox, "trigger", "ci-fixer", "completed", 2);
    assert_eq!(fired.len(), 2, "{fired:?}");
    for firing in &fired {
        let worker = firing["workerId"].as_str().unwrap();
        let events = sandbox.events(worker);
        let sent = events.iter().find(|event| event["type"] == "message.sent").unwrap();
        assert!(sent["data"]["text"].as_str().unwrap().contains("\n| error: it does not build\n"), "{sent}");
        let branch = sandbox.run(&["worktree", "show", worker]).data_of("worktree.shown");
        let folder = PathBuf::from(branch["path"].as_str().unwrap());
        assert_eq!(fs::read_to_string(folder.join("fixed.txt")).unwrap(), "yes\n", "{branch}");
    }
    assert!(!sandbox.workspace().join("fixed.txt").exists(), "the own work tree is not touched");
    sandbox.finish();
}

#[test]
fn a_watcher_gets_the_files_that_come_into_a_folder() {
    let sandbox = repository();
    let folder = sandbox.workspace().join("inbox");
    fs::create_dir(&folder).unwrap();
    let text = task(&sandbox, "!say read\n\n{{payload}}");
    let _ = run(&sandbox, "folder-watcher.sh", &["demo", "inbox", &text]);
    fs::write(folder.join("letter.txt"), "hello").unwrap();
    let fired = wait_for_firings(&sandbox, "trigger", "folder-watcher", "completed", 1);
    let events = sandbox.events(fired[0]["workerId"].as_str().unwrap());
    let sent = events.iter().find(|event| event["type"] == "message.sent").unwrap();
    assert!(sent["data"]["text"].as_str().unwrap().contains("\n| letter.txt\n"), "{sent}");
    assert_eq!(firings(&sandbox, "trigger", "folder-watcher").len(), 1);
    sandbox.finish();
}
