//! Client requests of an agent, through the whole product: files of the workspace, and terminals.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

fn with_sdk_agent() -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("sdk", agent);
    sandbox.init();
    let worker = sandbox.start("sdk");
    (sandbox, worker)
}

fn of_kind(sandbox: &TestSandbox, worker: &str, kind: &str) -> Vec<Value> {
    let events = sandbox.events(worker).into_iter();
    events.filter(|event| event["data"]["kind"] == kind).map(|event| event["data"].clone()).collect()
}

#[test]
fn an_agent_reads_and_writes_files_of_its_workspace_and_events_say_so() {
    let (sandbox, worker) = with_sdk_agent();
    let file = sandbox.workspace().join("folder/new.txt");
    let path = file.to_str().unwrap();
    let said = sandbox.send(&worker, &format!("write {path} hello there\nread {path}"));
    assert_eq!(said["assistantText"], "written\nhello there\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "hello there");
    let events = of_kind(&sandbox, &worker, "fs");
    assert_eq!(events.len(), 4);
    let write = json!({"method": "fs/write_text_file", "kind": "fs", "status": "requested", "call": 1, "path": path, "bytes": 11});
    assert_eq!(events[0], write);
    let read = json!({"method": "fs/read_text_file", "kind": "fs", "status": "completed", "call": 2, "path": path, "bytes": 11});
    assert_eq!(events[3], read);
    assert!(!events.iter().any(|event| event.to_string().contains("hello")), "no content: {events:?}");
    let narrowed = sandbox.run(&["worker", "inspect", &worker, "--event-type", "progress.update:fs"]);
    assert!(narrowed.status.success(), "{narrowed:?}");
    sandbox.finish();
}

#[test]
fn nothing_outside_of_the_workspace_is_read_or_written_nor_what_is_subagents_own() {
    let (sandbox, worker) = with_sdk_agent();
    let secret = sandbox.file_name("secret");
    fs::write(&secret, "a secret").unwrap();
    symlink(&secret, sandbox.workspace().join("link")).unwrap();
    let database = sandbox.state_dir().join("state.db");
    let before = fs::metadata(&database).unwrap().len();
    let link = sandbox.workspace().join("link");
    let lines: Vec<String> =
        [secret.as_str(), link.to_str().unwrap(), "/etc/passwd", database.to_str().unwrap()]
            .iter()
            .flat_map(|path| [format!("read {path}"), format!("write {path} overwritten")])
            .collect();
    let said = sandbox.send(&worker, &lines.join("\n"));
    let text = said["assistantText"].as_str().unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("error -32602: cannot ")).count(), 8, "{text}");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "a secret");
    assert!(fs::metadata(&database).unwrap().len() >= before);
    let failed = of_kind(&sandbox, &worker, "fs").into_iter().filter(|event| event["status"] == "failed");
    assert_eq!(failed.count(), 8);
    sandbox.finish();
}

#[test]
fn a_terminal_is_reported_and_its_processes_end_with_the_worker() {
    let (sandbox, worker) = with_sdk_agent();
    let said = sandbox.send(&worker, "run echo from the terminal; exit 7");
    assert_eq!(said["assistantText"], "exit Some(7) from the terminal\n\n");
    let events = of_kind(&sandbox, &worker, "terminal");
    let exited = events.iter().find(|event| event["method"] == "terminal.exited").unwrap();
    assert_eq!(
        *exited,
        json!({
            "method": "terminal.exited", "kind": "terminal", "status": "exited", "terminalId": "term_1_1",
            "exitStatus": {"exitCode": 7, "signal": null}, "outputBytes": 18, "tail": "from the terminal\n",
        })
    );
    let created = &events[0];
    assert_eq!(
        (&created["method"], &created["command"]),
        (&json!("terminal/create"), &json!("echo from the terminal; exit 7"))
    );
    let left = sandbox.send(&worker, "leave trap '' TERM HUP INT; setsid sleep 1000 & sleep 1000");
    assert_eq!(left["assistantText"], "term_1_2\n");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_terminal_ends_with_its_runtime_and_the_next_one_begins_anew() {
    let (sandbox, worker) = with_sdk_agent();
    let _ = sandbox.send(&worker, "leave trap '' TERM HUP INT; setsid sleep 1000 & sleep 1000");
    sandbox.kill(&sandbox.runtime(&worker));
    // A new runtime starts only when no process of the previous one is left.
    assert_eq!(sandbox.send(&worker, "leave true")["assistantText"], "term_2_1\n");
    sandbox.finish();
}

#[test]
fn a_command_in_a_terminal_is_not_its_owner() {
    let (sandbox, worker) = with_sdk_agent();
    let subagent = sandbox.executable("subagent");
    let said = sandbox.send(&worker, &format!("run {subagent} worker stop {worker} --json"));
    assert!(said["assistantText"].as_str().unwrap().contains("FORBIDDEN_FROM_WORKER"), "{said}");
    let said = sandbox.send(&worker, &format!("run {subagent} worker show {worker} --json"));
    assert!(said["assistantText"].as_str().unwrap().starts_with("exit Some(0)"), "{said}");
    sandbox.finish();
}

#[test]
fn whose_terminal_it_is_the_next_daemon_knows_before_it_has_taken_the_worker_up() {
    let (mut sandbox, worker) = with_sdk_agent();
    let [go, said, whole] = ["go", "said", "whole"].map(|name| sandbox.file_name(name));
    mkfifo(go.as_str(), Mode::S_IRWXU).unwrap();
    let subagent = sandbox.executable("subagent");
    // Of another agent: the session resumes at its own request.
    let other = sandbox.start("sdk");
    let ask = format!("read go < {go}; {subagent} worker stop {other} --json > {said}; mv {said} {whole}");
    let _ = sandbox.send(&worker, &format!("leave {ask}"));
    sandbox.set_env("SUBAGENT_SABOTAGE", "adoption.never");
    sandbox.kill_daemon();
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    // A pipe without a reader cannot be opened this way, so this does not block.
    let open = || OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&go).ok();
    wait_until("its shell", Duration::from_secs(20), open).write_all(b"\n").unwrap();
    let said = wait_until("its answer", Duration::from_secs(20), || fs::read_to_string(&whole).ok());
    assert!(said.contains("FORBIDDEN_FROM_WORKER"), "{said}");
    // An unknown guard would be refused too, without a message.
    assert!(said.contains(&format!("\"workerId\": \"{worker}\"")), "{said}");
    sandbox.finish();
}
