//! Two daemons with a copied state dir: the place serves the one that was started last. The other
//! one is told `FENCED`, and changes nothing there.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, SshHost, TestSandbox, wait_until};
use subagent_tests::invariants::Recorder;

use super::{DEADLINE, placed};

/// Copies the workspace as another machine sees it that attaches a snapshot of the volume. Placed
/// workers are at the same place for both.
fn copied(sandbox: &TestSandbox) -> PathBuf {
    let copy = sandbox.file("copy");
    assert!(Command::new("cp").arg("-a").args([&sandbox.workspace(), &copy]).status().unwrap().success());
    let state = copy.join(".subagent/state");
    // Those of another host are there.
    if fs::exists(state.join("placed")).unwrap() {
        fs::remove_dir_all(state.join("placed")).unwrap();
        symlink(sandbox.state_dir().join("placed"), state.join("placed")).unwrap();
    }
    let meta = state.metadata().unwrap();
    let file = state.join("state-id");
    let mut identity: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for (key, value) in
        [("inode", json!(meta.ino())), ("device", json!(meta.dev())), ("bootId", json!("another machine"))]
    {
        identity[key] = value;
    }
    fs::write(&file, serde_json::to_vec(&identity).unwrap()).unwrap();
    copy
}

fn here(sandbox: &TestSandbox, copy: &Path, args: &[&str]) -> Output {
    sandbox.subagent(args).cwd(copy).recorded_by(&Recorder::default()).run()
}

fn until_fenced(show: impl Fn() -> Output) -> Value {
    wait_until("the daemon to be fenced", DEADLINE, || {
        let shown = show().data_of("worker.shown");
        let reason = &shown["unreachable"]["reason"];
        (reason["code"] == "FENCED").then(|| reason.clone())
    })
}

/// A turn of the worker goes on under the daemon of a copy, and later under another one of the original.
pub(crate) fn the_last_daemon_is_served(sandbox: &TestSandbox, worker: &str) {
    assert_eq!(sandbox.send(worker, "before")["assistantText"], "before");
    let runtime = sandbox.runtime(worker);
    let touched = sandbox.file_name("touched");
    let gate = sandbox.gate("turn");
    let accepted =
        sandbox.send_no_wait(worker, &format!("!touch {touched}\n{}\n!say done", gate.directive()));
    wait_until("the turn", DEADLINE, || fs::exists(&touched).unwrap().then_some(()));
    let copy = copied(sandbox);
    let show = ["worker", "show", worker];
    let shown = here(sandbox, &copy, &show).data_of("worker.shown");
    assert_eq!((&shown["state"], shown.get("unreachable")), (&json!("running"), None), "{shown}");

    let reason = until_fenced(|| sandbox.run(&show));
    assert_eq!(reason["details"]["generation"], 2, "{reason}");
    let _ = sandbox.sending(worker, "hello").run().error("FENCED");
    let _ = sandbox.run(&["worker", "stop", worker]).error("FENCED");
    assert!(runtime.lives());
    let shown = here(sandbox, &copy, &show).data_of("worker.shown");
    assert!(shown.get("unreachable").is_none(), "{shown}");

    // Its turn ends for the daemon that is served, and the other one learns it after its next start.
    gate.open();
    wait_until("the end of the turn", DEADLINE, || {
        (here(sandbox, &copy, &show).data_of("worker.shown")["state"] == "idle").then_some(())
    });
    // Only another start is served.
    sandbox.kill_daemon();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(fs::read_to_string(&touched).unwrap().lines().count(), 1);
    assert_eq!(sandbox.send(worker, "again")["assistantText"], "again");
    assert_eq!(sandbox.runtime(worker).pid, runtime.pid);
    let _ = until_fenced(|| here(sandbox, &copy, &show));
    let ended = sandbox.command("subagentd").args(["stop", "--json"]).cwd(&copy).run();
    assert!(ended.status.success(), "{ended}");
}

#[test]
fn the_daemon_that_was_started_last_is_served_and_the_other_one_is_fenced() {
    let (sandbox, worker) = placed();
    the_last_daemon_is_served(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_host_serves_the_daemon_that_was_started_last() {
    let sandbox = TestSandbox::new();
    let Some(_host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    the_last_daemon_is_served(&sandbox, &worker);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_place_with_an_impossible_generation_fences_its_worker_and_stops_no_daemon() {
    let (sandbox, worker) = placed();
    assert_eq!(sandbox.send(&worker, "before")["assistantText"], "before");
    sandbox.kill_daemon();
    let file = sandbox.state_dir().join("placed").join(&worker).join("placed.json");
    let stored = fs::read(&file).unwrap();
    let mut record: Value = serde_json::from_slice(&stored).unwrap();
    record["epoch"]["generation"] = json!(u64::MAX);
    fs::write(&file, serde_json::to_vec(&record).unwrap()).unwrap();
    let _ = until_fenced(|| sandbox.run(&["worker", "show", worker.as_str()]));

    sandbox.kill_daemon();
    let other = sandbox.start("demo");
    assert_eq!(sandbox.send(&other, "hello")["assistantText"], "hello");
    sandbox.kill_daemon();
    fs::write(&file, stored).unwrap();
    assert_eq!(sandbox.send(&worker, "after")["assistantText"], "after");
    sandbox.finish();
}
