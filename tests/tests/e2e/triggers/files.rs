//! `--watch`: changed files fire once they are quiet, and a folder that is gone pauses the trigger.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use super::super::schedules::{SOON, world};
use super::{add, log, prompt, settle, wait_for};

/// Adds a trigger that watches these patterns in this folder of the workspace.
fn watch(sandbox: &TestSandbox, name: &str, folder: &str, globs: &[&str]) -> Value {
    let mut args = vec![name, "--cwd", folder, "--debounce", "0.5"];
    for glob in globs {
        args.extend(["--watch", *glob]);
    }
    args.extend(["demo", "!say looked\n{{payload}}"]);
    add(sandbox, &args)
}

fn show(sandbox: &TestSandbox, name: &str) -> Value {
    sandbox.run(&["trigger", "show", name]).data_of("trigger.shown")
}

#[test]
fn changes_fire_together_with_their_paths() {
    let sandbox = world();
    let root = sandbox.workspace();
    fs::create_dir_all(root.join("src/.git")).unwrap();
    let added = watch(&sandbox, "docs", ".", &["src/**/*.md", "*.toml"]);
    assert_eq!(added["attendant"], "daemon", "{added}");
    fs::write(root.join("src/.git/index.md"), "x").unwrap();
    fs::write(root.join("src/a.rs"), "x").unwrap();
    fs::create_dir_all(root.join("src/new/deep")).unwrap();
    fs::write(root.join("src/new/deep/b\nc.md"), "x").unwrap();
    fs::write(root.join("a.toml"), "x").unwrap();
    let fired = wait_for(&sandbox, "docs", "completed", 1);
    let text = prompt(&sandbox, &fired[0]);
    assert!(text.contains("\n| a.toml\n| src/new/deep/b\\nc.md\n</"), "{text}");
    assert!(!text.contains("index.md") && !text.contains("a.rs"), "{text}");
    // A change during a pause fires nothing, also not after it.
    sandbox.run(&["trigger", "pause", "docs"]).data_of("trigger.paused");
    fs::write(root.join("a.toml"), "y").unwrap();
    let resumed = sandbox.run(&["trigger", "resume", "docs"]).data_of("trigger.resumed");
    assert!(resumed["paused"].is_null(), "{resumed}");
    fs::remove_file(root.join("src/new/deep/b\nc.md")).unwrap();
    let fired = wait_for(&sandbox, "docs", "completed", 2);
    let text = prompt(&sandbox, &fired[1]);
    assert!(text.contains("\n| src/new/deep/b\\nc.md\n</") && !text.contains("a.toml"), "{text}");
    sandbox.finish();
}

#[test]
fn changes_that_go_on_fire_all_the_same() {
    let sandbox = world();
    let _ = watch(&sandbox, "busy", ".", &["log-*"]);
    let mut number = 0u32;
    wait_until("a firing while files change", SOON, || {
        // Every attempt comes sooner than the time to wait ends.
        fs::write(sandbox.workspace().join(format!("log-{number}")), "x").unwrap();
        number += 1;
        (!log(&sandbox, "busy").is_empty()).then_some(())
    });
    settle(&sandbox, "busy");
    sandbox.finish();
}

#[test]
fn a_folder_that_is_gone_pauses_its_trigger_with_the_reason() {
    let sandbox = world();
    let folder = sandbox.workspace().join("watched");
    fs::create_dir(&folder).unwrap();
    let _ = watch(&sandbox, "gone", "watched", &["**"]);
    fs::remove_dir(&folder).unwrap();
    let paused = |name: &str| {
        wait_until("a pause", SOON, || Some(show(&sandbox, name)).filter(|shown| !shown["paused"].is_null()))
    };
    let shown = paused("gone");
    assert_eq!(shown["paused"], "source_gone", "{shown}");
    assert_eq!(shown["error"]["code"], "WATCH_FAILED", "{shown}");
    assert!(shown["error"]["message"].as_str().unwrap().contains("is gone"), "{shown}");
    // It is still gone.
    sandbox.run(&["trigger", "resume", "gone"]).data_of("trigger.resumed");
    assert!(paused("gone")["error"]["message"].as_str().unwrap().contains("cannot be watched"));
    fs::create_dir(&folder).unwrap();
    sandbox.run(&["trigger", "resume", "gone"]).data_of("trigger.resumed");
    fs::write(folder.join("a"), "x").unwrap();
    let _ = wait_for(&sandbox, "gone", "completed", 1);
    sandbox.finish();
}

#[test]
fn the_next_daemon_watches_again() {
    let sandbox = world();
    let _ = watch(&sandbox, "docs", ".", &["*.md"]);
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let shown = show(&sandbox, "docs");
    assert_eq!(shown["attendant"], "daemon", "{shown}");
    let mut number = 0u32;
    wait_until("a firing of the next daemon", Duration::from_secs(60), || {
        number += 1;
        fs::write(sandbox.workspace().join("a.md"), number.to_string()).unwrap();
        log(&sandbox, "docs").iter().any(|firing| firing["status"] == json!("completed")).then_some(())
    });
    settle(&sandbox, "docs");
    sandbox.finish();
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let sandbox = world();
    let refused = |args: &[&str], says: &str| {
        let all = [&["trigger", "add", "x"][..], args, &["demo", "x"]].concat();
        let error = sandbox.run(&all).error("INVALID_ARGUMENT");
        assert!(error.to_string().contains(says), "{args:?}: {error}");
    };
    refused(&["--watch", "../*"], "below the folder");
    refused(&["--watch", "/etc/**"], "below the folder");
    refused(&["--watch", "src/"], "src/**");
    refused(&["--watch", "a["], "is not a pattern");
    refused(&["--watch", "*", "--debounce", "2h"], "an hour");
    refused(&["--watch", "*", "--cwd", "missing"], "missing");
    let both = ["trigger", "add", "x", "--watch", "*", "--after", "x", "demo", "x"];
    assert_eq!(sandbox.run(&both).status.code(), Some(2), "one source");
    assert_eq!(sandbox.run(&["trigger", "list"]).data_of("trigger.listed")["count"], 0);
    sandbox.finish();
}
