//! Commands that start workers with `--host`: the host's own `subagent` runs them.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{On, SshHost, TestSandbox, wait_until};

use super::far_client::{at_lap, away, host};

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn a_worker_is_started_there_without_anything_of_here() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let workspace = sandbox.workspace();
    let folder = workspace.to_str().unwrap();
    let start = ["worker", "start", "demo", "--name", "far one's", "--cwd", folder];
    let refused = at_lap(&sandbox, &start).run().error("INVALID_ARGUMENT");
    assert!(refused["message"].as_str().unwrap().contains("far one's"), "{refused}");
    let start = ["worker", "start", "demo", "--name", "far", "--cwd", folder];
    let started = at_lap(&sandbox, &start).env("LOCAL_SECRET", "of-here").run().data_of("worker.started");
    assert_eq!(sandbox.show("far")["workerId"], started["workerId"]);
    let sent = at_lap(&sandbox, &["send", "far", "!shell env; pwd"]).run().data_of("turn.waited");
    let said = sent.to_string();
    assert!(said.contains("TEST_SANDBOX_ID") && !said.contains("of-here"), "{said}");
    let _ = at_lap(&sandbox, &["stop", "far"]).run().data();
    sandbox.finish();
}

#[test]
fn a_run_there_has_its_streams_its_text_and_its_exit_code() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let run = |args: &[&str]| {
        let words = [&["--host", "lap", "run", "demo"], args].concat();
        sandbox.command("subagent").args(words).cwd(sandbox.file("away"))
    };
    let hostile = "a 'b' \"c\" $(id) `id` \\ ; ~ *";
    let said = run(&[&format!("!say {hostile}")]).run();
    assert!(said.status.success() && said.stdout.contains(hostile), "{said}");
    let words = ["--host", "lap", "run", "--launcher", "demo", "--text-stdin"];
    let piped = sandbox.command("subagent").args(words).cwd(sandbox.file("away"));
    let piped = piped.stdin("!say from a pipe").run();
    assert!(piped.stdout.contains("from a pipe"), "{piped}");
    let denied = run(&["--no-ask", "!ask execute rm -rf build"]).run();
    assert_eq!(denied.status.code(), Some(12), "{denied}");
    let wrong = run(&["x", "--no-such-flag"]).run();
    assert_eq!(wrong.status.code(), Some(2), "{wrong}");
    let unknown = away(&sandbox, &["run", "nowhere", "x"]).env("SUBAGENT_HOST", "lap").run();
    unknown.error("AGENT_NOT_FOUND");
    // At a terminal the questions are asked here.
    let board = run(&["!ask execute rm -rf build"]).at_terminal(100, On::All);
    board.sees("rm -rf build");
    board.wait_for("[s] skip");
    board.types("y");
    assert!(board.screen().status.success());
    sandbox.finish();
}

#[test]
fn commands_that_need_the_files_of_their_daemon_run_there() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    let at_lap = |words: &[&str]| at_lap(&sandbox, words).run();
    let _ = at_lap(&["controller", "init"]).data_of("controller.initialized");
    let worker = sandbox.start("demo");
    let all = at_lap(&["worker", "list", "--all-workspaces"]).data_of("workers.listed");
    assert_eq!(all["items"][0]["workerId"], json!(worker), "{all}");
    at_lap(&["land", "nothing"]).error("WORKTREE_NOT_FOUND");
    let unattended = at_lap(&["schedule", "add", "nightly", "demo", "hello", "--cron", "0 3 * * *"]);
    unattended.error("SCHEDULE_UNATTENDED");
    let _ = sandbox.run(&["worker", "stop", &worker]).data();
    let running = sandbox.daemon();
    let _ = at_lap(&["daemon", "stop"]).data();
    assert!(!running.lives());
    let saved = host.home().join("saved.db");
    let _ = at_lap(&["backup", saved.to_str().unwrap()]).data();
    assert!(saved.exists());
    // About a machine: that of the flag, else this one.
    let with_flag = at_lap(&["launcher", "list"]).data();
    assert_eq!(with_flag["items"][0]["name"], "demo", "{with_flag}");
    sandbox.finish();
}

#[test]
fn the_folder_is_one_there_and_a_host_that_is_down_is_said() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    let mut entry = host.entry(&sandbox);
    entry.as_object_mut().unwrap().remove("cwd");
    SshHost::offer(
        &sandbox,
        &json!({"lap": entry, "dead": {"host": "127.0.0.1", "args": ["-F", "/dev/null", "-p", "1"]}}),
    );
    for words in [&["run", "demo", "x"][..], &["run", "demo", "x", "--cwd", "src"]] {
        let error = at_lap(&sandbox, words).run().error("INVALID_ARGUMENT");
        assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("--cwd"), "{error}");
    }
    let missing = at_lap(&sandbox, &["run", "demo", "x", "--cwd", "~/nothing"]).run();
    assert_eq!(missing.error("INVALID_ARGUMENT")["details"]["host"], "lap", "{missing}");
    let dead = away(&sandbox, &["--host", "dead", "run", "demo", "x", "--cwd", "/"]).run();
    assert_eq!(dead.error("HOST_UNREACHABLE")["details"]["reason"], "network", "{dead}");
    // What the client says may also be a text of the command there.
    assert_eq!(dead.error("HOST_UNREACHABLE")["details"]["started"], "maybe", "{dead}");
    let entry =
        json!({"host": "there", "args": host.entry(&sandbox)["args"], "program": "/no/such/subagent"});
    SshHost::offer(&sandbox, &json!({"lap": entry}));
    at_lap(&sandbox, &["run", "demo", "x", "--cwd", "/"]).run().error("HOST_NOT_PREPARED");
    sandbox.finish();
}

#[test]
fn the_limit_of_a_wait_also_counts_while_the_host_is_down() {
    let sandbox = TestSandbox::new();
    let Some(mut host) = host(&sandbox) else { return };
    sandbox.init();
    let id = sandbox.run(&["worker", "start", "demo", "--name", "one"]).data_of("worker.started");
    let id = id["workerId"].as_str().unwrap().to_owned();
    let gate = sandbox.gate("turn");
    let send = ["--host", "lap", "send", "one", &gate.directive(), "--timeout", "8s"];
    let sending = sandbox.command("subagent").args(send).cwd(sandbox.file("away")).spawn();
    wait_until("the turn", DEADLINE, || (sandbox.show(&id)["state"] == "running").then_some(()));
    let begun = Instant::now();
    host.end_server();
    let sent = sending.output();
    assert_eq!(sent.status.code(), Some(13), "{sent}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    gate.open();
    host.restart_server(&sandbox);
    let _ = sandbox.run(&["worker", "stop", "one"]).data();
    sandbox.finish();
}

#[test]
fn a_signal_ends_the_client_too_and_what_has_begun_is_not_for_a_repetition() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let gate = sandbox.gate("turn");
    let running = at_lap(&sandbox, &["run", "demo", &gate.directive()]).spawn();
    let worker = wait_until("the turn there", DEADLINE, || {
        let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        let worker = &listed["items"][0];
        (worker["state"] == "running").then(|| worker["workerId"].as_str().unwrap().to_owned())
    });
    running.signal(Signal::SIGTERM);
    let error = running.output().error("HOST_UNREACHABLE");
    assert_eq!(
        (&error["retryable"], &error["details"]["started"]),
        (&json!(false), &json!("maybe")),
        "{error}"
    );
    let is_client = |one: &Process| one.name == "ssh";
    wait_until("the end of the client", DEADLINE, || {
        (!sandbox.processes().iter().any(is_client)).then_some(())
    });
    gate.open();
    wait_until("the end of the run there", DEADLINE, || {
        (sandbox.show(&worker)["state"] == "stopped").then_some(())
    });
    sandbox.finish();
}
