//! Pods whose end cannot be proved: their owner takes the risk of a second agent.

use serde_json::Value;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::cluster::{DEADLINE, Kubernetes};
use super::queue::{FULL, wait_for_reason, waiting};

/// Restarts a worker beside its pod.
fn restart_beside(sandbox: &TestSandbox, worker: &str) -> Value {
    sandbox.run(&["worker", "restart", worker, "--force", "--accept-duplicate"]).data_of("worker.restarted")
}

/// Gives up the worker of a cluster that does not come back, and stops and removes it with the same
/// daemon, or with another one.
fn given_up_by_its_owner(with_another_daemon: bool) {
    let mut sandbox = TestSandbox::new();
    let Some(mut cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(1);
    let pod = cluster.pod();
    cluster.cut();
    wait_until("the worker to be unreachable", DEADLINE, || {
        sandbox.show(&worker)["unreachable"].is_object().then_some(())
    });
    let restart = ["worker", "restart", &worker, "--force", "--accept-duplicate"];
    let error = sandbox.run(&restart).error("PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "engine", "{error}");
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    if with_another_daemon {
        sandbox.kill_daemon();
    }
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let _ = sandbox.run(&["worker", "rm", &worker]).data_of("worker.removed");
    // Its owner has accepted that the agent goes on there.
    cluster.mend();
    assert_eq!(cluster.pods.pods(), [(pod.clone(), "Running".to_owned())]);
    assert!(cluster.run(&["delete", "pod", &pod, "--grace-period=0", "--force"]).status.success());
    cluster.wait_for_none();
    sandbox.finish();
}

#[test]
fn a_worker_of_a_cluster_that_does_not_come_back_is_given_up_by_its_owner() {
    given_up_by_its_owner(false);
}

#[test]
fn a_worker_that_was_given_up_is_stopped_by_a_later_daemon() {
    given_up_by_its_owner(true);
}

#[test]
fn a_worker_that_waits_for_the_end_of_a_pod_is_restarted_beside_it() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let first = cluster.pod();
    cluster.pods.forbid(Some("delete"));
    let waits = sandbox.subagent(&["worker", "restart", &worker]).spawn();
    wait_for_reason(&sandbox, &worker, "an earlier pod may still run");
    let shown = restart_beside(&sandbox, &worker);
    assert_eq!(shown["state"], "idle", "{shown}");
    let _ = waits.kill();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    // One pod more, not two.
    assert_eq!(cluster.pods.created().len(), 2, "{:?}", cluster.pods.created());
    assert!(cluster.pods.pods().iter().any(|(name, _)| *name == first), "{:?}", cluster.pods.pods());
    // The pod that was given up is deleted once that is possible, while the new runtime lives.
    cluster.pods.forbid(None);
    wait_until("the end of the first pod", DEADLINE * 2, || {
        cluster.pods.pods().iter().all(|(name, _)| *name != first).then_some(())
    });
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(cluster.pods.pods().is_empty());
    sandbox.finish();
}

#[test]
fn a_worker_whose_first_pod_waits_is_restarted_beside_it() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    cluster.pods.obstruct(Some(FULL));
    let (worker, shown) = waiting(&sandbox);
    assert_eq!(shown["state"], "starting", "{shown}");
    let _ = sandbox.run(&["worker", "restart", &worker, "--force"]).error("WORKER_BUSY");
    let restart = ["worker", "restart", &worker, "--force", "--accept-duplicate"];
    let restarts = sandbox.subagent(&restart).spawn();
    let accepted = "SELECT count(*) FROM events WHERE type = 'worker.duplicate_accepted'";
    wait_until("the order", DEADLINE, || (sandbox.number(accepted) > 0).then_some(()));
    cluster.pods.obstruct(None);
    let restarted = restarts.output().data_of("worker.restarted");
    assert_eq!(restarted["state"], "idle", "{restarted}");
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    // It is the pod of the next runtime, and so is used and not given up any more.
    assert_eq!(cluster.pods.created().len(), 1);
    assert!(!sandbox.state_dir().join("placed").join(&worker).join("given-up-1").exists());
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(cluster.pods.pods().is_empty());
    sandbox.finish();
}

#[test]
fn a_stop_ends_each_pod_although_one_of_them_does_not_end() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let first = cluster.pod();
    cluster.pods.forbid(Some("delete"));
    let waits = sandbox.subagent(&["worker", "restart", &worker]).spawn();
    wait_for_reason(&sandbox, &worker, "an earlier pod may still run");
    let _ = restart_beside(&sandbox, &worker);
    let _ = waits.kill();
    cluster.pods.keep(Some(&first));
    cluster.pods.forbid(None);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(cluster.pods.pods().len(), 1, "{:?}", cluster.pods.pods());
    assert_eq!(cluster.pod(), first);
    cluster.pods.keep(None);
    assert!(cluster.run(&["delete", "pod", &first, "--wait=false"]).status.success());
    sandbox.finish();
}

#[test]
fn a_pod_in_which_no_command_can_be_run_is_not_deleted() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    cluster.pods.forbid(Some("exec"));
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the place does not say whom it serves"), "{error}");
    assert_eq!(cluster.pods.pods().len(), 1);
    cluster.pods.forbid(None);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(cluster.pods.pods().is_empty());
    // Its owner gives it up, and the pod is left.
    let worker = sandbox.start_on("pods");
    cluster.pods.forbid(Some("exec"));
    let stop = sandbox.subagent(&["worker", "stop", &worker]).spawn();
    wait_until("the stop to wait", DEADLINE, || sandbox.show(&worker)["pending"].is_object().then_some(()));
    let _ = sandbox.run(&["worker", "stop", &worker, "--without-host"]).data_of("worker.stopped");
    let _ = stop.output().data_of("worker.stopped");
    cluster.pods.forbid(None);
    let pod = cluster.pod();
    assert!(cluster.run(&["delete", "pod", &pod, "--grace-period=0", "--force"]).status.success());
    cluster.wait_for_none();
    sandbox.finish();
}
