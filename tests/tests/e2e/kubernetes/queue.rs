//! A pod that waits for a node or for its image.

use serde_json::Value;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::cluster::{DEADLINE, Kubernetes};
use super::pods::Obstacle;

pub(super) const FULL: Obstacle = Obstacle::Unschedulable("0/3 nodes are available: 3 Insufficient cpu.");
const NO_IMAGE: Obstacle = Obstacle::Container("ImagePullBackOff", "Back-off pulling image \"agents:1\"");

/// Starts a worker on the full cluster, without waiting, and returns it once its wait is shown.
pub(super) fn waiting(sandbox: &TestSandbox) -> (String, Value) {
    let sent = sandbox.subagent(&["worker", "start", "--launcher", "demo", "--on", "pods"]).spawn();
    let shown = wait_until("the wait for the cluster", DEADLINE, || {
        let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        let worker = listed["items"][0]["workerId"].as_str()?.to_owned();
        let shown = sandbox.show(&worker);
        shown["pending"].is_object().then_some((worker, shown))
    });
    let _ = sent.kill();
    shown
}

/// Waits until this is part of the reason.
pub(super) fn wait_for_reason(sandbox: &TestSandbox, worker: &str, part: &str) {
    wait_until("the reason", DEADLINE, || {
        sandbox.show(worker)["pending"]["reason"].as_str()?.contains(part).then_some(())
    });
}

#[test]
fn a_worker_that_waits_for_a_node_says_why_and_starts_later() {
    let mut sandbox = TestSandbox::new();
    let Some(mut cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    cluster.pods.obstruct(Some(FULL));
    let (worker, shown) = waiting(&sandbox);
    assert_eq!(
        (&shown["state"], &shown["pending"]["engine"]),
        (&"starting".into(), &"kubernetes".into()),
        "{shown}"
    );
    wait_for_reason(&sandbox, &worker, "Unschedulable: 0/3 nodes are available");
    cluster.pods.obstruct(Some(NO_IMAGE));
    wait_for_reason(&sandbox, &worker, "ImagePullBackOff: Back-off pulling image");
    // Another daemon finds the pod of the first one. Nor does it give up while the server is down.
    cluster.cut();
    sandbox.kill_daemon();
    wait_for_reason(&sandbox, &worker, "refused");
    cluster.mend();
    wait_for_reason(&sandbox, &worker, "ImagePullBackOff");
    cluster.pods.obstruct(None);
    wait_until("the start of the worker", DEADLINE, || {
        (sandbox.show(&worker)["state"] == "idle").then_some(())
    });
    assert!(sandbox.show(&worker)["pending"].is_null());
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(cluster.pods.created().len(), 1);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_stop_deletes_a_waiting_pod() {
    let mut sandbox = TestSandbox::new();
    let Some(mut cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    cluster.pods.obstruct(Some(FULL));
    let (worker, _) = waiting(&sandbox);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(cluster.pods.pods().is_empty());
    // Also if the daemon that asked for it is gone, and the server is down for a while.
    let (worker, _) = waiting(&sandbox);
    cluster.cut();
    sandbox.kill_daemon();
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    assert_eq!(error["details"]["pending"]["engine"], "kubernetes", "{error}");
    cluster.mend();
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(cluster.pods.pods().is_empty());
    sandbox.finish();
}

#[test]
fn a_daemon_that_dies_after_it_has_asked_for_a_pod_asks_for_no_second_one() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    let once = sandbox.file_name("once");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    sandbox.set_env("SUBAGENT_FAILPOINTS", "queued.after_start=abort");
    sandbox.init();
    let started = sandbox.try_start_on("pods");
    assert!(std::path::Path::new(&once).exists(), "{started}");
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let worker = listed["items"][0]["workerId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(cluster.pods.created().len(), 1, "{:?}", cluster.pods.created());
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_waiting_pod_that_is_deleted_from_outside_fails_the_start() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    cluster.pods.obstruct(Some(FULL));
    let (worker, _) = waiting(&sandbox);
    let deleted = cluster.run(&["delete", "pod", &cluster.pod(), "--wait=false"]);
    assert!(deleted.status.success(), "{deleted:?}");
    let failed = wait_until("the end of the start", DEADLINE, || {
        let shown = sandbox.show(&worker);
        (shown["state"] == "error").then_some(shown)
    });
    assert!(
        failed["lastError"].as_str().unwrap().contains("ended before the runtime was started"),
        "{failed}"
    );
    cluster.pods.obstruct(None);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}
