//! A runtime dies while the disk is full: every request is answered in time, the worker is not
//! reported as running, and everything continues once there is space.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use subagent_tests::harness::{Faults, TestSandbox, wait_until};

/// Time limit for a worker to report the death of its runtime.
const OBSERVED: Duration = Duration::from_secs(5);
/// Time limit of any request while nothing can be stored.
const ANSWERED: Duration = Duration::from_secs(15);
/// Time from the first free byte until everything continues.
const GOES_ON: Duration = Duration::from_secs(15);

/// A sandbox whose files under `path` cannot be written while the returned file exists.
fn full_disk(path: &str) -> (TestSandbox, Faults, PathBuf) {
    failing(path, "ENOSPC", &["write", "allocate", "rename"])
}

/// A sandbox where these calls on files under `path` fail while the returned file exists.
fn failing(path: &str, errno: &str, ops: &[&str]) -> (TestSandbox, Faults, PathBuf) {
    let mut sandbox = TestSandbox::new();
    let gate = sandbox.file("failing");
    let rule =
        |op: &&str| format!("op={op};path=*/.subagent/state/{path};errno={errno};while={}", gate.display());
    let faults = Faults::arm(&mut sandbox, &ops.iter().map(rule).collect::<Vec<_>>());
    sandbox.init();
    (sandbox, faults, gate)
}

/// Kills a worker's runtime during a turn while the disk is full. Returns the turn.
fn killed_in_a_turn(sandbox: &TestSandbox, worker: &str, full: &Path) -> serde_json::Value {
    let prompt = format!("!say begun\n{}", sandbox.gate("never").directive());
    let accepted = sandbox.send_no_wait(worker, &prompt);
    let _ = sandbox.wait_after(worker, &accepted["acceptedEventId"], "progress.message");
    let runtime = sandbox.runtime(worker);
    fs::write(full, "").unwrap();
    sandbox.kill(&runtime);
    accepted
}

#[track_caller]
fn is_shown_as_gone(sandbox: &TestSandbox, worker: &str, before: &str, code: &str) {
    let shown = wait_until("the death to be shown", OBSERVED, || {
        let shown = sandbox.show(worker);
        (shown["state"] != before).then_some(shown)
    });
    assert_eq!(shown["state"], "error", "{shown}");
    assert!(shown["runtimePid"].is_null(), "{shown}");
    assert!(shown["lastError"].as_str().unwrap().starts_with(code), "{shown}");
}

#[track_caller]
fn every_request_is_answered(sandbox: &TestSandbox, worker: &str) {
    let requests: [&[&str]; 6] = [
        &["send", "--worker-id", worker, "--text", "now", "--no-wait"],
        &["send", "--worker-id", worker, "--text", "later", "--queue", "--no-wait"],
        &["cancel", "--worker-id", worker],
        &["worker", "set", "--worker-id", worker, "--mode", "bold"],
        &["worker", "restart", worker],
        &["worker", "stop", worker],
    ];
    for request in requests {
        let asked = Instant::now();
        let error = sandbox.subagent(request).deadline(ANSWERED * 4).run().error("STORAGE_FULL");
        assert!(asked.elapsed() < ANSWERED, "{request:?} took {:?}", asked.elapsed());
        assert_eq!(error["retryable"], true, "{error}");
        assert!(error["details"]["recommendedAction"].is_string(), "{error}");
    }
}

#[track_caller]
fn everything_goes_on(sandbox: TestSandbox, faults: &Faults, worker: &str, accepted: &serde_json::Value) {
    assert!(faults.counted(0).1 > 0, "nothing failed");
    let end = sandbox.turn_end(accepted);
    assert_eq!(
        (&end["type"], &end["data"]["error"]["code"]),
        (&"turn.failed".into(), &"RUNTIME_LOST".into())
    );
    wait_until("the worker to be idle", GOES_ON, || (sandbox.show(worker)["state"] == "idle").then_some(()));
    assert_eq!(sandbox.send(worker, "after")["assistantText"], "after");
    sandbox.finish();
}

#[test]
fn a_runtime_that_dies_on_a_full_disk_is_shown_and_every_request_is_answered() {
    let (sandbox, faults, full) = full_disk("*");
    let worker = sandbox.start("demo");
    let accepted = killed_in_a_turn(&sandbox, &worker, &full);
    is_shown_as_gone(&sandbox, &worker, "running", "STORAGE_FULL");
    let listed = sandbox.run(&["worker", "list"]).data()["items"][0].take();
    assert_eq!(listed["state"], "error", "{listed}");
    every_request_is_answered(&sandbox, &worker);
    fs::remove_file(full).unwrap();
    everything_goes_on(sandbox, &faults, &worker, &accepted);
}

#[test]
fn a_runtime_that_dies_while_another_change_waits_for_room_is_shown() {
    let (sandbox, faults, full) = full_disk("state.db*");
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--approval-timeout", "4"]);
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let accepted = sandbox.send_no_wait(&worker, "!ask make it");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "approval.requested");
    let runtime = sandbox.runtime(&worker);
    fs::write(&full, "").unwrap();
    let log = sandbox.state_dir().join("logs/subagentd.log");
    wait_until("the question to expire", GOES_ON, || {
        fs::read_to_string(&log).ok()?.contains("a change cannot be stored").then_some(())
    });
    assert_eq!(sandbox.show(&worker)["state"], "waiting_approval", "its agent lives");
    sandbox.kill(&runtime);
    is_shown_as_gone(&sandbox, &worker, "waiting_approval", "STORAGE_FULL");
    every_request_is_answered(&sandbox, &worker);
    fs::remove_file(full).unwrap();
    everything_goes_on(sandbox, &faults, &worker, &accepted);
}

#[test]
fn a_runtime_that_dies_while_its_lock_cannot_be_opened_is_shown() {
    let (sandbox, faults, closed) = failing("runtimes/*/lock", "EACCES", &["open"]);
    let worker = sandbox.start("demo");
    let accepted = killed_in_a_turn(&sandbox, &worker, &closed);
    is_shown_as_gone(&sandbox, &worker, "running", "STORAGE_ERROR");
    fs::remove_file(closed).unwrap();
    everything_goes_on(sandbox, &faults, &worker, &accepted);
}

#[test]
fn a_daemon_and_a_runtime_that_find_a_full_disk_say_so() {
    let mut sandbox = TestSandbox::new();
    let full = |path: &str, gate: &Path| {
        ["write", "allocate", "rename", "change"]
            .map(|op| format!("op={op};path=*/.subagent/state/{path};errno=ENOSPC;while={}", gate.display()))
    };
    let (state, runtimes) = (sandbox.file("state-full"), sandbox.file("runtimes-full"));
    let rules = [full("*", &state), full("runtimes/*", &runtimes)].concat();
    let _faults = Faults::arm(&mut sandbox, &rules);
    fs::write(&state, "").unwrap();
    let says_so = |command: &[&str]| {
        let error = sandbox.subagent(command).deadline(ANSWERED * 4).run().error("STORAGE_FULL");
        let advice = error["details"]["recommendedAction"].as_str().unwrap();
        assert!(advice.starts_with("make room on the disk of "), "{command:?}: {error}");
        assert_eq!(error["retryable"], true, "{error}");
    };
    says_so(&["controller", "init"]);
    says_so(&["worker", "list"]);
    says_so(&["daemon", "start"]);
    fs::remove_file(&state).unwrap();
    sandbox.init();
    fs::write(&runtimes, "").unwrap();
    says_so(&["worker", "start", "--launcher", "demo"]);
    fs::remove_file(&runtimes).unwrap();
    let worker = sandbox.start("demo");
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    sandbox.finish();
}
