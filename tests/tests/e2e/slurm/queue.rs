//! A job that waits in the queue of the cluster.

use std::fs;

use serde_json::Value;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::cluster::{DEADLINE, Slurm};

/// Starts a worker on the full cluster, without waiting, and returns it once its wait is shown.
fn waiting(sandbox: &TestSandbox) -> (String, Value) {
    let sent = sandbox.subagent(&["worker", "start", "--launcher", "demo", "--on", "cluster"]).spawn();
    let shown = wait_until("the wait for the cluster", DEADLINE, || {
        let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        let worker = listed["items"][0]["workerId"].as_str()?.to_owned();
        let shown = sandbox.show(&worker);
        shown["pending"].is_object().then_some((worker, shown))
    });
    let _ = sent.kill();
    shown
}

#[test]
fn a_worker_that_waits_for_the_cluster_says_why_and_starts_later() {
    let mut sandbox = TestSandbox::new();
    let Some(mut slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let filling = slurm.fill();
    let (worker, shown) = waiting(&sandbox);
    assert_eq!(
        (&shown["state"], &shown["pending"]["engine"]),
        (&"starting".into(), &"slurm".into()),
        "{shown}"
    );
    wait_until("the reason", DEADLINE, || {
        let reason = &sandbox.show(&worker)["pending"]["reason"];
        (reason == "Resources" || reason == "Priority").then_some(())
    });
    // Another daemon finds the job of the first one, and submits no second one. Nor does it give up
    // while the cluster does not answer.
    slurm.kill_controller();
    sandbox.kill_daemon();
    wait_until("the wait without an answer", DEADLINE, || {
        sandbox.show(&worker)["pending"]["reason"].as_str()?.contains("Unable to contact").then_some(())
    });
    slurm.start_controller();
    wait_until("the wait to be shown again", DEADLINE, || {
        sandbox.show(&worker)["pending"].is_object().then_some(())
    });
    let name = slurm.job_of(&worker, 1);
    assert_eq!(slurm.jobs().iter().filter(|(other, _)| *other == name).count(), 1);
    let _ = slurm.run(&["scancel", &filling]);
    wait_until("the start of the worker", DEADLINE, || {
        (sandbox.show(&worker)["state"] == "idle").then_some(())
    });
    assert!(sandbox.show(&worker)["pending"].is_null());
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(slurm.past_jobs().iter().filter(|(other, _)| *other == name).count(), 1);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_stop_takes_a_waiting_job_out_of_the_queue() {
    let mut sandbox = TestSandbox::new();
    let Some(mut slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let filling = slurm.fill();
    let (worker, _) = waiting(&sandbox);
    let name = slurm.job_of(&worker, 1);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(slurm.jobs().iter().all(|(other, _)| *other != name), "{:?}", slurm.jobs());
    // Also if the daemon that asked for it is gone, and the cluster does not answer for a while.
    let (worker, _) = waiting(&sandbox);
    let name = slurm.job_of(&worker, 1);
    slurm.kill_controller();
    sandbox.kill_daemon();
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    assert_eq!(error["details"]["pending"]["engine"], "slurm", "{error}");
    slurm.start_controller();
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(slurm.jobs().iter().all(|(other, _)| *other != name), "{:?}", slurm.jobs());
    let _ = slurm.run(&["scancel", &filling]);
    sandbox.finish();
}

#[test]
fn a_stop_takes_a_waiting_job_out_of_the_queue_after_the_state_dir_was_moved() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let filling = slurm.fill();
    let (worker, _) = waiting(&sandbox);
    let name = slurm.job_of(&worker, 1);
    sandbox.kill_daemon();
    fs::remove_dir_all(sandbox.file("run/subagent")).unwrap();
    let moved = sandbox.file("moved");
    fs::rename(sandbox.state_dir(), &moved).unwrap();
    sandbox.set_state_dir(moved);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(slurm.jobs().iter().all(|(other, _)| *other != name), "{:?}", slurm.jobs());
    let _ = slurm.run(&["scancel", &filling]);
    sandbox.finish();
}

#[test]
fn a_daemon_that_dies_after_it_has_asked_for_a_job_asks_for_no_second_one() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    let once = sandbox.file_name("once");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    sandbox.set_env("SUBAGENT_FAILPOINTS", "queued.after_start=abort");
    sandbox.init();
    let started = sandbox.try_start_on("cluster");
    assert!(std::path::Path::new(&once).exists(), "{started}");
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let worker = listed["items"][0]["workerId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(slurm.past_jobs().len(), 1, "{:?}", slurm.past_jobs());
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_waiting_job_that_is_canceled_from_outside_fails_the_start() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let filling = slurm.fill();
    let (worker, _) = waiting(&sandbox);
    let _ = slurm.run(&["scancel", "--name", &slurm.job_of(&worker, 1)]);
    let failed = wait_until("the end of the start", DEADLINE, || {
        let shown = sandbox.show(&worker);
        (shown["state"] == "error").then_some(shown)
    });
    assert!(failed["lastError"].as_str().unwrap().contains("CANCELLED"), "{failed}");
    let _ = slurm.run(&["scancel", &filling]);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let started = sandbox.try_start_on("cluster");
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_drained_node_ends_its_turn_and_takes_no_other_worker() {
    let mut sandbox = TestSandbox::new();
    let Some(slurm) = Slurm::start(&mut sandbox) else { return };
    sandbox.init();
    let first = sandbox.start_on("cluster");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&first, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    slurm.update_node("drain");
    let (second, _) = waiting(&sandbox);
    wait_until("the reason", DEADLINE, || {
        let reason = sandbox.show(&second)["pending"]["reason"].as_str()?.to_lowercase();
        (reason.contains("drain") || reason.contains("node")).then_some(())
    });
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let _ = sandbox.run(&["worker", "stop", &first]).data_of("worker.stopped");
    slurm.update_node("resume");
    wait_until("the start of the second worker", DEADLINE, || {
        (sandbox.show(&second)["state"] == "idle").then_some(())
    });
    assert_eq!(sandbox.send(&second, "hello")["assistantText"], "hello");
    let _ = sandbox.run(&["worker", "stop", &second]).data_of("worker.stopped");
    sandbox.finish();
}
