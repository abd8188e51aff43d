//! What can be wrong with a cluster: each has a code and advice, and leaves no pod.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox, wait_until};

use super::cluster::{DEADLINE, Kubernetes};
use super::pods::BARE_IMAGE;

/// Starts a worker there in vain, returns the error and removes the worker.
fn refused(sandbox: &TestSandbox, code: &str) -> Value {
    let error = sandbox.try_start_on("pods").error(code);
    if let Some(worker) = error["details"]["workerId"].as_str() {
        let _ = sandbox.run(&["worker", "rm", "--force", worker]).data_of("worker.removed");
    }
    error
}

fn unreachable(sandbox: &TestSandbox, reason: &str) {
    let error = refused(sandbox, "PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], reason, "{error}");
}

#[test]
fn what_is_missing_in_a_cluster_is_named() {
    let mut sandbox = TestSandbox::new();
    let Some(mut cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    cluster.place(&sandbox, json!({"namespace": "none"}));
    unreachable(&sandbox, "namespace");
    cluster.place(&sandbox, json!({"context": "none"}));
    unreachable(&sandbox, "client");
    cluster.place(&sandbox, json!({}));
    cluster.pods.forbid(Some("create"));
    unreachable(&sandbox, "forbidden");
    cluster.pods.forbid(None);
    cluster.template(&sandbox, json!({"spec": {"containers": [{"name": "agent"}]}}));
    unreachable(&sandbox, "pod");
    let bare = json!({"containers": [{"name": "agent", "image": BARE_IMAGE}]});
    cluster.template(&sandbox, json!({"spec": bare}));
    let error = refused(&sandbox, "PLACEMENT_NOT_PREPARED");
    assert!(error["message"].as_str().unwrap().contains("not found in $PATH"), "{error}");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("prepare pods"), "{error}");
    cluster.template(&sandbox, json!({}));
    cluster.place(&sandbox, json!({"cwd": "/no-such-folder"}));
    let error = refused(&sandbox, "PLACEMENT_FOLDER_MISSING");
    assert_eq!(error["details"]["cwd"], "/no-such-folder", "{error}");
    cluster.place(&sandbox, json!({}));
    cluster.cut();
    unreachable(&sandbox, "engine");
    cluster.mend();
    assert!(cluster.pods.pods().is_empty(), "{:?}", cluster.pods.pods());
    let worker = sandbox.start_on("pods");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn an_agent_that_only_this_machine_has_is_named_and_leaves_no_pod() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    let bin = sandbox.file("bin");
    fs::create_dir(&bin).unwrap();
    symlink(sandbox.executable("subagent"), bin.join("agent-of-this-machine")).unwrap();
    let path = std::env::var("PATH").unwrap();
    // An image is only a search path, so a pod does not have this folder.
    sandbox.set_env("PATH", format!("{}:{path}", bin.display()));
    sandbox.launcher("demo", TestLauncher::new("agent-of-this-machine", ["demo-agent"]));
    sandbox.init();
    let error = refused(&sandbox, "BACKEND_LAUNCHER");
    assert!(error["message"].as_str().unwrap().contains("agent-of-this-machine"), "{error}");
    let details = &error["details"];
    assert_eq!((&details["launcher"], &details["placement"]), (&json!("demo"), &json!("pods")), "{error}");
    assert!(details["recommendedAction"].as_str().unwrap().contains("install it there"), "{error}");
    cluster.wait_for_none();
    wait_until("the end of everything there", DEADLINE, || {
        sandbox.processes().iter().all(|one| one.name == "subagentd").then_some(())
    });
    // Here it is found.
    let _ = sandbox.start("demo");
    sandbox.finish();
}

#[test]
fn a_template_that_is_no_pod_of_ours_is_refused_before_anything_is_asked() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.init();
    for (keys, part) in [
        (json!({"kind": "Deployment"}), "kind: Pod"),
        (json!({"metadata": {"name": "mine"}}), "metadata.name"),
        (json!({"spec": {"hostPID": true, "containers": [{"name": "agent"}]}}), "hostPID"),
        (json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}), "several containers"),
        (json!({"spec": 7}), "no manifest"),
    ] {
        cluster.template(&sandbox, keys);
        let error = sandbox.try_start_on("pods").error("CONFIG_PARSE_ERROR");
        assert!(error["message"].as_str().unwrap().contains(part), "{part}: {error}");
    }
    cluster.place(&sandbox, json!({"template": "none.yaml"}));
    let error = sandbox.try_start_on("pods").error("CONFIG_PARSE_ERROR");
    assert!(error["message"].as_str().unwrap().contains("none.yaml"), "{error}");
    cluster.place(&sandbox, json!({"args": ["--token=x"]}));
    let error = sandbox.try_start_on("pods").error("CONFIG_PARSE_ERROR");
    assert!(error["message"].as_str().unwrap().contains("kubeconfig"), "{error}");
    assert!(cluster.pods.created().is_empty());
    sandbox.finish();
}

#[test]
fn a_machine_without_kubectl_says_so() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    sandbox.set_env("PATH", "/no-such-folder");
    sandbox.init();
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert!(error["message"].as_str().unwrap().contains("`kubectl` cannot be started"), "{error}");
    assert!(cluster.pods.created().is_empty());
    sandbox.finish();
}

#[test]
fn a_placement_of_pods_is_checked_step_by_step() {
    let mut sandbox = TestSandbox::new();
    let Some(cluster) = Kubernetes::start(&mut sandbox) else { return };
    let check = || sandbox.run(&["placement", "check", "pods"]);
    let checked = check().data_of("placement.checked");
    let steps: Vec<&Value> = checked["items"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
    assert_eq!(steps, ["engine", "runtime", "folder", "pod", "agent", "log", "stop"], "{checked}");
    cluster.wait_for_none();
    let prepared = sandbox.run(&["placement", "prepare", "pods"]).data_of("placement.prepared");
    assert_eq!(prepared["line"], "COPY subagent-runtime subagent /usr/local/bin/", "{prepared}");
    cluster.place(&sandbox, json!({"cwd": "/none"}));
    let error = check().error("PLACEMENT_FOLDER_MISSING");
    assert_eq!(error["details"]["steps"][1]["step"], "runtime", "{error}");
    cluster.place(&sandbox, json!({}));
    let bare = json!({"containers": [{"name": "agent", "image": BARE_IMAGE}]});
    cluster.template(&sandbox, json!({"spec": bare}));
    let error = check().error("PLACEMENT_NOT_PREPARED");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("prepare pods"), "{error}");
    let listed = sandbox.run(&["placement", "list"]).data_of("placement.listed");
    let item = &listed["items"][0];
    assert_eq!((&item["kind"], &item["namespace"]), (&"kubernetes".into(), &"agents".into()), "{listed}");
    sandbox.finish();
}
