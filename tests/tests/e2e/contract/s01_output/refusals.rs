//! Cases where older versions ended with a traceback: each is an error with a code that says what
//! to do. (Errors of config files and inputs are in their own sections.)

use std::fs;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;
use subagent_tests::harness::TestSandbox;

/// Checks that every command which needs the state fails with this error, in both output forms.
/// Returns the last details.
#[track_caller]
fn all_refuse(sandbox: &TestSandbox, commands: &[&[&str]], code: &str) -> Value {
    let mut details = Value::Null;
    for args in commands {
        let mut error = sandbox.run(args).error(code);
        details = error["details"].take();
        let plain = sandbox.command("subagent").args(*args).run();
        super::assert_plain_error(&plain, &code.into());
    }
    details
}

const MOST: &[&[&str]] = &[
    &["controller", "init"],
    &["controller", "status"],
    &["worker", "list"],
    &["worker", "show", "w_0123456789"],
    &["send", "--worker-id", "w_0123456789", "--text", "x"],
    &["wait", "--worker-id", "w_0123456789"],
    &["watch", "--worker-id", "w_0123456789"],
];

#[test]
fn a_state_dir_that_cannot_be_written() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_state_dir("/proc/self/state");
    let details =
        all_refuse(&sandbox, &[&["controller", "init"], &["daemon", "start"]], "STATE_DIR_UNWRITABLE");
    assert_eq!(details["stateDir"].as_str().map(|dir| dir.ends_with("/state")), Some(true), "{details}");
    assert!(sandbox.processes().is_empty());
}

#[test]
fn a_database_that_is_none() {
    let sandbox = TestSandbox::new();
    fs::create_dir_all(sandbox.state_dir()).unwrap();
    let path = sandbox.state_dir().join("state.db");
    fs::write(&path, "this is no database, but it may be needed").unwrap();
    let details = all_refuse(&sandbox, MOST, "STORAGE_ERROR");
    assert_eq!(details["stateDbPath"], path.to_str().unwrap());
    let action = details["recommendedAction"].as_str().unwrap();
    assert!(action.contains("damaged") && action.contains("move the state dir away"), "{action}");
    assert!(fs::read_to_string(&path).unwrap().starts_with("this is no database"));
}

#[test]
fn a_database_that_was_damaged_in_its_middle() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    assert!(sandbox.command("subagentd").args(["stop"]).run().status.success());
    let path = sandbox.state_dir().join("state.db");
    let mut bytes = fs::read(&path).unwrap();
    // The header stays, and every other page is invalid.
    bytes[100..].fill(0x5a);
    fs::write(&path, &bytes).unwrap();
    let details = all_refuse(&sandbox, &MOST[..1], "STORAGE_ERROR");
    assert!(details["recommendedAction"].as_str().unwrap().contains("damaged"), "{details}");
}

#[test]
fn a_database_that_another_program_keeps_locked() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    assert!(sandbox.command("subagentd").args(["stop"]).run().status.success());
    let holder = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    holder.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let begun = Instant::now();
    let error = sandbox.run(&["worker", "list"]).error("STORAGE_ERROR");
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(error["retryable"], true, "{error}");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("locked"), "{error}");
    drop(holder);
    sandbox.run(&["worker", "list"]).data_of("worker.listed");
    sandbox.finish();
}

#[test]
fn a_state_dir_of_the_reference() {
    let sandbox = TestSandbox::new();
    fs::create_dir_all(sandbox.state_dir()).unwrap();
    let path = sandbox.state_dir().join("state.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE workers (worker_id TEXT PRIMARY KEY, profile TEXT)").unwrap();
    drop(database);
    let before = fs::read(&path).unwrap();
    let details = all_refuse(&sandbox, MOST, "STATE_DIR_FOREIGN");
    assert_eq!(details["stateDbPath"], path.to_str().unwrap());
    assert!(details["recommendedAction"].as_str().unwrap().contains("move the folder away"), "{details}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_working_directory_that_is_gone() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.file("gone")).unwrap();
    let script = format!("rmdir ../gone; exec {} worker list --json", sandbox.executable("subagent"));
    let output = sandbox.command("bash").args(["-c", &script]).cwd(sandbox.file("gone")).run();
    output.error("INVALID_ARGUMENT");
    sandbox.finish();
}

#[test]
fn what_an_agent_nests_too_deep_does_not_hide_the_rest() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]);
    sandbox.launcher("hostile", agent);
    sandbox.init();
    let worker = sandbox.start("hostile");
    let _ = sandbox.send(&worker, "hostile: deep-nesting");
    let watch = ["watch", "--worker-id", &worker, "--raw"];
    let all = sandbox.run(&watch).data_of("events.watched");
    let lines = sandbox.command("subagent").args(watch).run();
    assert_eq!(lines.lines().len(), all["items"].as_array().unwrap().len());
    let raw = |kind: &str| {
        all["items"].as_array().unwrap().iter().filter(|item| item["data"]["kind"] == kind).count()
    };
    assert!(raw("tool_call") >= 15 && raw("notification") >= 15, "{}", lines.stdout);
    let until = ["--until", "progress.update:tool_call", "--include-history"];
    sandbox.subagent(&["wait", "--worker-id", &worker]).args(until).run().data_of("event.matched");
    sandbox.finish();
}

#[test]
fn a_worker_that_there_is_not() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let worker = ["--worker-id", "w_0123456789"];
    let path = sandbox.state_dir().join("state.db");
    for (command, flags) in [
        (&["worker", "show", "w_0123456789"][..], &[][..]),
        (&["worker", "stop", "w_0123456789"], &[]),
        (&["worker", "logs", "w_0123456789"], &[]),
        (&["worker", "show", "../../etc"], &[]),
        (&["worker", "show", "ä b/?#%"], &[]),
        (&["send"], &["--text", "x"]),
        (&["wait"], &[]),
        (&["wait"], &["--include-history"]),
        (&["watch"], &[]),
        (&["watch"], &["--follow"]),
        (&["approve"], &["--request", "ap_0123456789", "--decision", "allow"]),
        (&["cancel"], &[]),
    ] {
        let worker = if command[0] == "worker" { &[] } else { &worker[..] };
        let error = sandbox.run(&[command, worker, flags].concat()).error("WORKER_NOT_FOUND");
        assert_eq!(error["details"]["stateDbPath"], path.to_str().unwrap(), "{error}");
        let named = command.get(2).unwrap_or(&"w_0123456789");
        assert_eq!(error["details"]["workerId"], *named, "{error}");
    }
    sandbox.finish();
}
