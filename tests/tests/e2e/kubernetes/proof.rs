//! No second runtime before the end of the first one is proved, and no pod of others is touched.

use std::fs;

use serde_json::json;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::cluster::{DEADLINE, Kubernetes};
use super::queue::{FULL, wait_for_reason, waiting};

#[test]
fn a_restart_waits_for_the_proof_that_the_old_pod_has_ended() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let first = cluster.pod();
    cluster.pods.forbid(Some("delete"));
    let restart = sandbox.subagent(&["worker", "restart", &worker]).spawn();
    wait_for_reason(&sandbox, &worker, "cannot delete");
    assert_eq!(cluster.pods.created(), [first.as_str()]);
    // Nor does the next daemon start a second one.
    sandbox.kill_daemon();
    wait_for_reason(&sandbox, &worker, "an earlier pod may still run");
    assert_eq!(cluster.pods.created().len(), 1);
    cluster.pods.forbid(None);
    wait_until("the second pod", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    let _ = restart.kill();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(cluster.pods.created().len(), 2);
    assert!(cluster.pods.pods().iter().all(|(name, _)| *name != first), "{:?}", cluster.pods.pods());
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_stop_goes_on_until_the_pod_is_deleted() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    cluster.pods.forbid(Some("delete"));
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    assert!(error["message"].as_str().unwrap().contains("cannot delete"), "{error}");
    assert_eq!(cluster.pods.pods().len(), 1);
    cluster.pods.forbid(None);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(cluster.pods.pods().is_empty());
    sandbox.finish();
}

#[test]
fn a_daemon_with_a_copied_state_dir_leaves_the_pod_to_the_newer_daemon() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    cluster.pods.obstruct(Some(FULL));
    let (worker, _) = waiting(&sandbox);
    sandbox.kill_daemon();
    let pod = cluster.pod();
    let folder = cluster.pods.disk(&pod).join("placed").join(&worker);
    cluster.pods.obstruct(None);
    // The other daemon has found the pod first.
    wait_until("the folder of the worker", DEADLINE, || folder.is_dir().then_some(()));
    let record = folder.join("placed.json");
    let epoch = json!({"generation": 9, "start": "another"});
    fs::write(&record, json!({"epoch": epoch, "incarnation": 0}).to_string()).unwrap();
    // The first stop is stored before the place is asked, and waits for its answer.
    for _ in 0..2 {
        let error = sandbox.run(&["worker", "stop", &worker]).error("FENCED");
        assert!(error["message"].as_str().unwrap().contains("serves another daemon"), "{error}");
    }
    assert_eq!(cluster.pods.pods(), [(pod, "Running".to_owned())]);
    // The daemon that is started last is served.
    sandbox.kill_daemon();
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn another_cluster_says_nothing_about_a_pod() {
    let mut sandbox = TestSandbox::new();
    let Some(mut cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    cluster.pods.go_elsewhere(true);
    cluster.cut();
    cluster.mend();
    wait_until("the worker to be unreachable", DEADLINE, || {
        let reason = sandbox.show(&worker)["unreachable"]["reason"].to_string();
        reason.contains("another cluster").then_some(())
    });
    gate.open();
    assert_eq!(sandbox.show(&worker)["state"], "running");
    cluster.pods.go_elsewhere(false);
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(cluster.pods.created().len(), 1);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn another_pod_of_the_same_name_is_not_deleted() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    cluster.pods.obstruct(Some(FULL));
    let (worker, _) = waiting(&sandbox);
    let pod = cluster.pod();
    cluster.pods.replace(&pod);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(cluster.pod(), pod);
    assert!(cluster.run(&["delete", "pod", &pod, "--wait=false"]).status.success());
    sandbox.finish();
}

#[test]
fn a_pod_whose_creation_was_not_answered_is_used() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    cluster.pods.lose_answer();
    let started = sandbox.try_start_on("pods");
    let worker = wait_until("the start", DEADLINE, || {
        let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        let one = &listed["items"][0];
        (one["state"] == "idle").then(|| one["workerId"].as_str().unwrap().to_owned())
    });
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello", "{started}");
    assert_eq!(cluster.pods.created().len(), 1);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_start_waits_for_the_end_of_another_pod_of_its_name() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let next = cluster.pod();
    let next = format!("{}-2", next.strip_suffix("-1").unwrap());
    cluster.pods.obstruct(Some(FULL));
    let container = json!({"name": "agent", "image": "agents:1", "command": ["true"]});
    let other = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": next}, "spec": {"containers": [container]},
    });
    assert!(cluster.pods.create(other).is_some());
    cluster.pods.obstruct(None);
    let restart = sandbox.subagent(&["worker", "restart", &worker]).spawn();
    wait_for_reason(&sandbox, &worker, &format!("another pod has the name {next}; delete it, or wait"));
    assert!(cluster.run(&["delete", "pod", &next, "--wait=false"]).status.success());
    wait_until("the second pod", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    let _ = restart.kill();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn the_end_of_an_earlier_pod_of_a_number_proves_nothing_about_the_next_one() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    cluster.pods.obstruct(Some(FULL));
    let (worker, _) = waiting(&sandbox);
    sandbox.kill_daemon();
    assert!(cluster.run(&["delete", "pod", &cluster.pod(), "--wait=false"]).status.success());
    let placed = sandbox.state_dir().join("placed").join(&worker);
    let (asked, ended) = (placed.join("asked-1"), placed.join("ended-1"));
    fs::rename(&asked, &ended).unwrap();
    wait_for_reason(&sandbox, &worker, "Unschedulable");
    assert!(asked.exists() && !ended.exists());
    assert_eq!(cluster.pods.created().len(), 2);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(ended.exists() && !asked.exists() && cluster.pods.pods().is_empty());
    sandbox.finish();
}

#[test]
fn a_pod_is_not_lost_to_a_daemon_whose_state_dir_was_moved() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("pods");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    let (runtime, pod) = (sandbox.runtime(&worker), cluster.pod());
    sandbox.kill_daemon();
    fs::remove_dir_all(sandbox.file("run/subagent")).unwrap();
    let moved = sandbox.file("moved");
    fs::rename(sandbox.state_dir(), &moved).unwrap();
    sandbox.set_state_dir(moved);
    // The name of a pod has a hash of the path.
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], shown.get("unreachable")), (&json!("running"), None), "{shown}");
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    assert_eq!(cluster.pods.created(), [pod.as_str()]);
    // The next pod has a name of this path.
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert!(cluster.pods.created().len() == 2 && cluster.pod() != pod, "{:?}", cluster.pods.created());
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(cluster.pods.pods().is_empty(), "{:?}", cluster.pods.pods());
    sandbox.finish();
}
