//! `--on-command`: a changed output fires once, and a command that fails, hangs or floods holds nothing up.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use super::super::schedules::{SOON, started, world};
use super::{add, log, prompt, settle, tasks, wait_for};

/// Returns the arguments of a trigger that runs this command every second.
fn on<'a>(name: &'a str, command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let command = [name, "--on-command", command, "--changed", "--every", "1s"];
    let work = ["demo", "!say done\n{{payload}}"];
    command.iter().chain(more).chain(&work).copied().collect()
}

/// Waits until the command has run this many times; each run adds a line to this file.
fn wait_for_runs(sandbox: &TestSandbox, file: &str, count: usize) {
    wait_until("runs of the command", SOON, || {
        let runs = fs::read_to_string(sandbox.file(file)).unwrap_or_default().lines().count();
        (runs >= count).then_some(())
    });
}

/// Waits until this trigger is paused.
fn wait_for_pause(sandbox: &TestSandbox, name: &str) -> Value {
    wait_until("a pause", SOON, || {
        let shown = sandbox.run(&["trigger", "show", name]).data_of("trigger.shown");
        (!shown["paused"].is_null()).then_some(shown)
    })
}

#[test]
fn only_a_changed_output_fires_and_the_first_run_is_the_base() {
    let sandbox = world();
    fs::write(sandbox.file("head"), "one").unwrap();
    let (runs, head) = (sandbox.file("runs"), sandbox.file("head"));
    let command = format!("echo run >> '{}'; cat '{}'", runs.display(), head.display());
    let added = add(&sandbox, &on("head", &command, &[]));
    assert_eq!(added["source"]["command"]["everySeconds"], 1, "{added}");
    assert_eq!(added["attendant"], "daemon", "{added}");
    wait_for_runs(&sandbox, "runs", 3);
    assert_eq!(log(&sandbox, "head"), Vec::<Value>::new(), "the same output fires nothing");
    fs::write(sandbox.file("head"), "two").unwrap();
    let fired = wait_for(&sandbox, "head", "completed", 1);
    assert!(prompt(&sandbox, &fired[0]).contains("\n| two\n"), "{fired:?}");
    // What changes while it is paused fires nothing afterwards.
    sandbox.run(&["trigger", "pause", "head"]).data_of("trigger.paused");
    fs::write(sandbox.file("head"), "three").unwrap();
    let runs = fs::read_to_string(sandbox.file("runs")).unwrap().lines().count();
    sandbox.run(&["trigger", "resume", "head"]).data_of("trigger.resumed");
    wait_for_runs(&sandbox, "runs", runs + 3);
    assert_eq!(log(&sandbox, "head").len(), 1);
    sandbox.finish();
}

#[test]
fn a_command_runs_as_the_user_in_its_folder_without_the_variables_of_an_owner() {
    let sandbox = world();
    fs::create_dir(sandbox.workspace().join("below")).unwrap();
    let seen = sandbox.file("seen");
    let command = format!("pwd > '{0}'; env >> '{0}'; echo end >> '{0}'", seen.display());
    let _ = add(&sandbox, &on("env", &command, &["--cwd", "below"]));
    let text = wait_until("the command to run", SOON, || {
        let text = fs::read_to_string(&seen).unwrap_or_default();
        text.ends_with("end\n").then_some(text)
    });
    let folder = sandbox.workspace().canonicalize().unwrap().join("below");
    assert!(text.starts_with(&format!("{}\n", folder.display())), "{text}");
    assert!(!text.contains("SUBAGENT_CTL") && text.contains("PATH="), "{text}");
    sandbox.finish();
}

#[test]
fn a_command_that_fails_hangs_or_floods_is_paused_and_holds_up_nothing() {
    let sandbox = world();
    let hangs = "echo $$ > pid; sleep 100000 & wait";
    let cases = [
        ("fails", "echo no such host >&2; exit 3", "exit status 3: no such host"),
        ("hangs", hangs, "took longer than 1 s"),
        ("floods", "yes", "took longer than 1 s"),
        ("long", "head -c 70000 /dev/zero", "more than 65536 bytes"),
    ];
    for (name, command, _) in cases {
        let _ = add(&sandbox, &on(name, command, &["--timeout", "1s", "--max-failures", "2"]));
    }
    // The others go on meanwhile.
    let counter = sandbox.file("counter");
    let counts = format!("echo x >> '{0}'; wc -l < '{0}'", counter.display());
    let _ = add(&sandbox, &on("counts", &counts, &[]));
    let _ = wait_for(&sandbox, "counts", "completed", 2);
    for (name, _, says) in cases {
        let shown = wait_for_pause(&sandbox, name);
        assert_eq!((&shown["paused"], &shown["failures"]), (&json!("failures"), &json!(2)), "{shown}");
        assert_eq!(shown["error"]["code"], "COMMAND_FAILED", "{shown}");
        assert!(shown["error"]["message"].as_str().unwrap().contains(says), "{name}: {shown}");
        let failed = log(&sandbox, name);
        assert!(failed.iter().all(|firing| firing["status"] == "failed"), "{failed:?}");
        assert_eq!((failed.len(), tasks(&sandbox, name).len()), (2, 0), "{failed:?}");
    }
    let pid = fs::read_to_string(sandbox.workspace().join("pid")).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "the command that hung is gone");
    settle(&sandbox, "counts");
    sandbox.finish();
}

#[test]
fn a_run_that_succeeds_ends_the_failures_in_a_row() {
    let sandbox = world();
    let state = sandbox.file("state");
    // Fails in every second run.
    let command = format!(
        "echo x >> '{0}'; test $(( $(wc -l < '{0}') % 2 )) = 0 && exit 1; echo same",
        state.display()
    );
    let _ = add(&sandbox, &on("flaky", &command, &["--max-failures", "2"]));
    wait_for_runs(&sandbox, "state", 7);
    let shown = sandbox.run(&["trigger", "show", "flaky"]).data_of("trigger.shown");
    assert!(shown["paused"].is_null(), "{shown}");
    sandbox.finish();
}

/// The daemon dies at the point while a changed output is stored; the next one continues.
fn fires_once_although_the_daemon_dies_at(point: &str) {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("once");
    // The first run only stores.
    sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort@2"));
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    let sandbox = started(sandbox);
    let (runs, head) = (sandbox.file("runs"), sandbox.file("head"));
    fs::write(&head, "one").unwrap();
    let command = format!("cat '{}'; echo run >> '{}'", head.display(), runs.display());
    let _ = sandbox.subagent(&[&["trigger", "add"][..], &on("head", &command, &[])].concat()).run();
    wait_for_runs(&sandbox, "runs", 1);
    fs::write(&head, "two").unwrap();
    wait_until("the point to be reached", SOON, || {
        let _ = sandbox.subagent(&["worker", "list"]).run();
        once.exists().then_some(())
    });
    let _ = wait_for(&sandbox, "head", "completed", 1);
    let seen = fs::read_to_string(&runs).unwrap().lines().count();
    wait_for_runs(&sandbox, "runs", seen + 2);
    let all = log(&sandbox, "head");
    assert_eq!((all.len(), tasks(&sandbox, "head").len()), (1, 1), "{point}: {all:?}");
    sandbox.finish();
}

#[test]
fn a_changed_output_fires_once_whenever_the_daemon_dies() {
    for point in ["observation.before_store", "observation.after_store"] {
        fires_once_although_the_daemon_dies_at(point);
    }
}

#[test]
fn a_command_that_cannot_be_watched_is_refused() {
    let sandbox = world();
    let refused = |args: &[&str], code: &str, says: &str| {
        let all = [&["trigger", "add", "x"][..], args, &["demo", "x"]].concat();
        let error = sandbox.run(&all).error(code);
        assert!(error.to_string().contains(says), "{args:?}: {error}");
    };
    let on = ["--on-command", "true", "--changed"];
    for wrong in [&["--on-command", "true"][..], &["--on-command", "true", "--changed", "--webhook"]] {
        let all = [&["trigger", "add", "x"][..], wrong, &["demo", "x"]].concat();
        assert_eq!(sandbox.run(&all).status.code(), Some(2), "{wrong:?}");
    }
    refused(&["--on-command", " ", "--changed"], "INVALID_ARGUMENT", "empty");
    refused(&[&on[..], &["--every", "0s"]].concat(), "INVALID_ARGUMENT", "every second");
    refused(&[&on[..], &["--timeout", "2h"]].concat(), "INVALID_ARGUMENT", "3600");
    let late = [&["trigger", "add", "x"][..], &on, &["--every", "7d", "demo", "x"]].concat();
    sandbox.run(&late).error("SCHEDULE_UNATTENDED");
    sandbox.finish();
}
