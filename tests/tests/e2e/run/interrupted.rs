//! Ctrl-C and similar signals, in each phase of a run.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe, write};
use serde_json::Value;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::{all_stopped, running, workers};

const SOON: Duration = Duration::from_secs(20);

/// Waits until the worker of the run is in this state.
fn wait_state(sandbox: &TestSandbox, state: &str) -> String {
    let found = wait_until("the worker of the run", SOON, || {
        workers(sandbox).first().filter(|found| found["state"] == state).cloned()
    });
    found["workerId"].as_str().unwrap().to_owned()
}

#[test]
fn an_interrupted_run_cancels_its_turn_and_stops_its_worker() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let sandbox = TestSandbox::new();
        let run = running(&sandbox, "begun\n!sleep 60000").args(["--output", "ndjson"]).spawn();
        run.wait_line("what the agent says", |line| line.contains("\"begun\"").then_some(()));
        run.signal(signal);
        let output = run.output();
        assert_eq!(output.status.signal(), Some(signal as i32), "{output}");
        let lines = output.lines();
        let data = &lines.last().unwrap()["data"];
        assert_eq!(
            (&data["outcome"], &data["exitCode"]),
            (&"interrupted".into(), &(128 + signal as i32).into())
        );
        let canceled = lines.iter().find(|line| line["type"] == "turn.canceled").unwrap();
        assert_eq!(canceled["data"]["reason"], "the run was interrupted");
        all_stopped(&sandbox, 1);
        sandbox.finish();
    }
}

#[test]
fn a_second_signal_does_not_wait_for_the_agent() {
    let mut sandbox = TestSandbox::new();
    let deaf = sandbox.demo_agent(&[]).cancel_grace_seconds(600.0);
    sandbox.launcher("deaf", deaf);
    let run = running(&sandbox, "begun\n!ignore-cancel 600000")
        .args(["--launcher", "deaf", "--output", "ndjson"])
        .spawn();
    run.wait_line("what the agent says", |line| line.contains("\"begun\"").then_some(()));
    run.signal(Signal::SIGINT);
    wait_state(&sandbox, "canceling");
    run.signal(Signal::SIGINT);
    let output = run.output();
    assert_eq!(output.status.signal(), Some(Signal::SIGINT as i32), "{output}");
    assert!(output.elapsed < SOON, "{output}");
    wait_state(&sandbox, "stopped");
    sandbox.finish();
}

#[test]
fn a_run_that_is_interrupted_while_its_agent_starts_leaves_nothing() {
    let mut sandbox = TestSandbox::new();
    let slow = sandbox.demo_agent(&["--hang-initialize"]).startup_seconds(300.0);
    sandbox.launcher("slow", slow);
    let run = running(&sandbox, "hello").args(["--launcher", "slow", "--json"]).spawn();
    wait_state(&sandbox, "starting");
    run.signal(Signal::SIGINT);
    let output = run.output();
    assert_eq!(output.status.signal(), Some(Signal::SIGINT as i32), "{output}");
    let data: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&data["data"]["outcome"], &data["data"]["turnId"]), (&"interrupted".into(), &Value::Null));
    all_stopped(&sandbox, 1);
    let output = running(&sandbox, "hello").args(["--launcher", "slow", "--json", "--timeout", "1s"]).run();
    super::result(&output, "timeout", 13);
    all_stopped(&sandbox, 2);
    sandbox.finish();
}

#[test]
fn the_worker_of_a_run_that_was_killed_is_found_by_its_tag() {
    let sandbox = TestSandbox::new();
    let run = running(&sandbox, "!sleep 60000").spawn();
    let worker = wait_state(&sandbox, "running");
    let _ = run.kill();
    let stopped = sandbox.run(&["worker", "stop", "-l", "subagent/run"]).data_of("workers.stopped");
    assert_eq!((&stopped["count"], &stopped["items"][0]["workerId"]), (&1.into(), &worker.as_str().into()));
    all_stopped(&sandbox, 1);
    sandbox.finish();
}

#[test]
fn a_run_goes_on_over_the_death_of_the_daemon() {
    let sandbox = TestSandbox::new();
    let gate = sandbox.gate("turn");
    let run = running(&sandbox, &format!("begun\n{}\nafter", gate.directive()))
        .args(["--output", "ndjson"])
        .spawn();
    run.wait_line("what the agent says", |line| line.contains("\"begun\"").then_some(()));
    sandbox.kill_daemon();
    gate.open();
    let output = run.output();
    let data = super::result(&output, "completed", 0);
    assert_eq!(data["message"], "begunafter");
    all_stopped(&sandbox, 1);
    sandbox.finish();
}

#[test]
fn a_run_without_a_reader_of_its_output_ends() {
    let sandbox = TestSandbox::new();
    let path = format!("{}:/usr/bin:/bin", subagent_tests::harness::executables().folder().display());
    let script = "subagent run --text-stdin --output ndjson | head -n 1";
    let prompt = "!chunks 5 a\n!sleep 200\n!chunks 5 b\n!sleep 600000";
    let output = sandbox.command("bash").args(["-c", script]).env("PATH", path).stdin(prompt).run();
    assert_eq!(output.lines().len(), 1, "{output}");
    all_stopped(&sandbox, 1);
    sandbox.finish();
}

/// A run whose stdout is a full pipe without a reader; the caller must keep the returned end.
fn into_a_full_pipe(sandbox: &TestSandbox, args: &[&str]) -> (Child, OwnedFd) {
    let (reader, writer) = pipe().unwrap();
    let stdout = writer.try_clone().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while write(&writer, &[b'\n'; 4096]).is_ok() {}
    // Both ends share the flag: the run's writes must block.
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let command =
        sandbox.command("subagent").args(["run", "--text", "begun\n!sleep 600000", "--output", "ndjson"]);
    let child =
        command.args(args).process().stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn();
    (child.unwrap(), reader)
}

fn end_of(mut run: Child) -> ExitStatus {
    wait_until("the end of the run", Duration::from_secs(40), || run.try_wait().unwrap())
}

#[test]
fn a_run_whose_output_stands_still_ends_when_its_time_is_over() {
    let sandbox = TestSandbox::new();
    let (run, _reader) = into_a_full_pipe(&sandbox, &["--timeout", "1s"]);
    assert_eq!(end_of(run).code(), Some(13));
    all_stopped(&sandbox, 1);
    sandbox.finish();
}

#[test]
fn a_run_whose_output_stands_still_is_interrupted() {
    let sandbox = TestSandbox::new();
    let (run, _reader) = into_a_full_pipe(&sandbox, &[]);
    let signal = |signal: Signal| kill(Pid::from_raw(run.id().try_into().unwrap()), signal).unwrap();
    wait_state(&sandbox, "running");
    signal(Signal::SIGINT);
    wait_state(&sandbox, "stopped");
    // Only the output remains to be done.
    signal(Signal::SIGTERM);
    assert!(matches!(end_of(run).signal(), Some(2 | 15)));
    sandbox.finish();
}
