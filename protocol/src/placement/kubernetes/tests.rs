use std::path::Path;

use serde_json::{Value, json};

use super::super::client::ClientFailure;
use super::super::{Engine, Placement};
use super::*;
use crate::error::Code;

fn manifest(value: Value) -> PodManifest {
    serde_json::from_value(value).unwrap()
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"labels": {"team": "blue"}},
        "spec": {
            "restartPolicy": "Always",
            "containers": [{
                "name": "agent", "image": "agents:1", "command": ["sleep"], "args": ["1"],
                "resources": {"limits": {"memory": "4Gi"}},
            }],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        },
    })
}

fn cluster(manifest: Option<Value>) -> KubernetesCluster {
    KubernetesCluster {
        context: Some("dev".into()),
        namespace: Some("agents".into()),
        args: vec!["--kubeconfig=/k".into()],
        template: "/t/pod.yaml".into(),
        container: None,
        folder: PLACED_IN_POD.into(),
        manifest: manifest.map(|value| Box::new(self::manifest(value))),
    }
}

#[test]
fn a_pod_is_that_of_one_runtime_and_has_nothing_secret() {
    let cluster = cluster(Some(pod()));
    let name = pod_name("0a1b2c3d", "w_0123456789", 3);
    assert_eq!(name, "subagent-0a1b2c3d-w-0123456789-3");
    assert!(is_label(&pod_name("0a1b2c3d", "w_0123456789", u64::MAX)));
    let started = cluster.start(&PlaceStart {
        name: &name,
        worker: "w_0123456789",
        number: 3,
        folder: Path::new("/tmp/subagent/w_0123456789"),
        program: "subagent-runtime",
    });
    let global = "kubectl --context=dev --namespace=agents --kubeconfig=/k";
    assert_eq!(
        started.line(),
        format!("{global} create --filename=- --validate=false --output=name --request-timeout=10s")
    );
    let sent: Value = serde_json::from_str(&started.input.unwrap()).unwrap();
    let mut expected = pod();
    expected["metadata"]["name"] = json!(name);
    expected["metadata"]["labels"] = json!({
        "team": "blue", "subagent/managed-by": "subagent", "subagent/runtime": "3",
        "subagent/worker": "w_0123456789",
    });
    expected["spec"]["restartPolicy"] = json!("Never");
    expected["spec"]["containers"][0]["command"] =
        json!(["subagent-runtime", "hold", "--create", "/tmp/subagent/w_0123456789", "3"]);
    expected["spec"]["containers"][0].as_object_mut().unwrap().remove("args");
    assert_eq!(sent, expected);
    assert_eq!(
        cluster.exec(&name, "/p", &["dial", "w_1"]).line(),
        format!("{global} exec --stdin {name} --container=agent -- /p dial w_1")
    );
    assert_eq!(
        cluster.end(&name).line(),
        format!(
            "{global} delete pod {name} --ignore-not-found --grace-period=25 --wait=false --request-timeout=10s"
        )
    );
}

fn seen(status: Value, deleted: bool) -> PlaceStatus {
    let mut pod = json!({"kind": "Pod", "metadata": {"name": "p"}, "status": status});
    if deleted {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let (stdout, cluster) = (pod.to_string(), cluster(Some(self::pod())));
    let output = ClientOutput { success: true, stdout: stdout.as_bytes(), stderr: b"" };
    cluster.seen("p", &output).unwrap()
}

#[test]
fn only_a_final_phase_or_the_end_of_the_container_is_the_end() {
    let handle = || "p".to_owned();
    let of =
        |state: Value| json!([{"name": "side", "state": {"running": {}}}, {"name": "agent", "state": state}]);
    let waits = |reason: &str| PlaceStatus::Waiting { handle: handle(), reason: reason.to_owned() };
    let gone = |state: &str| PlaceStatus::Gone { handle: handle(), state: state.to_owned() };
    let held = |state: &str| PlaceStatus::Held { handle: handle(), state: state.to_owned() };
    let unscheduled = json!([{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes\nare free",
    }]);
    let cases = [
        (json!({}), waits("Pending")),
        (json!({"phase": "Pending", "conditions": unscheduled}), waits("Unschedulable: 0/3 nodes are free")),
        (
            json!({"phase": "Pending", "containerStatuses": of(json!({"waiting": {"reason": "ImagePullBackOff"}}))}),
            waits("ImagePullBackOff"),
        ),
        (
            json!({
                "phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}],
                "containerStatuses": of(json!({"waiting": {"reason": "PodInitializing"}})),
            }),
            waits("ErrImagePull"),
        ),
        (
            json!({"phase": "Running", "containerStatuses": of(json!({"running": {}}))}),
            PlaceStatus::Ready { handle: handle() },
        ),
        (json!({"phase": "Unknown"}), held("Unknown")),
        (
            json!({"phase": "Running", "containerStatuses": of(json!({"terminated": {"exitCode": 0}}))}),
            gone("Completed"),
        ),
        (
            json!({
                "phase": "Running",
                "containerStatuses": of(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
            }),
            gone("OOMKilled"),
        ),
        (
            json!({
                "phase": "Failed",
                "containerStatuses": of(json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "x"}})),
            }),
            gone("Error (exit code 3): x"),
        ),
        (
            json!({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}),
            gone("Evicted: low on disk"),
        ),
        (json!({"phase": "Failed"}), gone("Failed")),
    ];
    for (status, expected) in cases {
        assert_eq!(seen(status.clone(), false), expected, "{status}");
    }
    let running = json!({"phase": "Running", "containerStatuses": of(json!({"running": {}}))});
    assert_eq!(seen(running, true), held("Terminating"));
    assert_eq!(seen(json!({"phase": "Succeeded"}), true), gone("Succeeded"));
    assert!(status::is_not_prepared("StartError: exec: x") && status::is_not_prepared("Error (exit code 1)"));
    assert!(!status::is_not_prepared("OOMKilled") && !status::is_not_prepared("Evicted: x"));
}

#[test]
fn only_the_api_server_says_that_there_is_no_pod() {
    let cluster = cluster(None);
    let failed =
        |stderr: &'static str| ClientOutput { success: false, stdout: b"", stderr: stderr.as_bytes() };
    assert_eq!(
        cluster.seen("p", &failed("Error from server (NotFound): pods \"p\" not found\n")),
        Some(PlaceStatus::Absent)
    );
    for said in [
        // Of a proxy before the API server.
        "Error from server (NotFound): the server could not find the requested resource",
        "Error from server (NotFound): pods \"other\" not found",
        "Unable to connect to the server: EOF",
        "",
    ] {
        assert_eq!(cluster.seen("p", &failed(said)), None, "{said}");
    }
    let other = ClientOutput { success: true, stdout: b"{}", stderr: b"" };
    assert_eq!(cluster.seen("p", &other), None);
    let namespace = failed("Error from server (NotFound): namespaces \"agents\" not found\n");
    assert_eq!(cluster.seen("p", &namespace), Some(PlaceStatus::Absent));
    assert!(is_taken(
        b"Error from server (AlreadyExists): error when creating \"STDIN\": pods \"p\" already exists"
    ));
}

#[test]
fn a_template_that_takes_the_pod_away_is_refused() {
    let problem = |value: Value, container: Option<&str>| manifest(value).problem(container);
    assert_eq!(problem(pod(), None), None);
    for (path, value, text) in [
        ("/kind", json!("Deployment"), "kind: Pod"),
        ("/apiVersion", json!("apps/v1"), "apiVersion"),
        ("/metadata/name", json!("x"), "metadata.name"),
        ("/metadata/generateName", json!("x-"), "metadata.name"),
        ("/metadata/namespace", json!("x"), "metadata.namespace"),
        ("/metadata/ownerReferences", json!([{}]), "ownerReferences"),
        ("/metadata/finalizers", json!(["x"]), "finalizers"),
        ("/spec/hostPID", json!(true), "hostPID"),
        ("/spec/shareProcessNamespace", json!(true), "shareProcessNamespace"),
        ("/spec/containers", json!([]), "spec.containers"),
        ("/spec/containers", json!([{"name": "a"}, {"name": "b"}]), "several containers"),
        ("/spec/containers", json!([{"name": "a", "restartPolicy": "Always"}]), "restartPolicy"),
    ] {
        let mut bad = pod();
        let (parent, key) = path.rsplit_once('/').unwrap();
        bad.pointer_mut(parent).unwrap()[key] = value;
        let why = problem(bad, None).unwrap();
        assert!(why.contains(text), "{path}: {why}");
    }
    let mut two = pod();
    two["spec"]["containers"] = json!([{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]);
    assert_eq!(problem(two.clone(), Some("b")), None);
    assert!(problem(two.clone(), Some("c")).unwrap().contains("`container`"));
    two["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/default-container": "b"});
    let cluster = cluster(Some(two));
    assert_eq!((cluster.container_name(), cluster.image()), ("b", Some("y")));
}

#[test]
fn options_are_global_ones_without_a_secret() {
    let problem = |arg: &str| KubernetesCluster { args: vec![arg.into()], ..cluster(None) }.problem();
    for bad in ["delete", "-n", "--", "--token=x", "--namespace=x", "--dry-run=server", "--context"] {
        assert_eq!(problem(bad).unwrap().0, "args", "{bad}");
    }
    assert_eq!(problem("--as=me"), None);
    let with = |change: fn(&mut KubernetesCluster)| {
        let mut cluster = cluster(None);
        change(&mut cluster);
        cluster.problem().unwrap().0
    };
    assert_eq!(with(|one| one.namespace = Some("A_b".into())), "namespace");
    assert_eq!(with(|one| one.context = Some(String::new())), "context");
    assert_eq!(with(|one| one.container = Some("-x".into())), "container");
    assert_eq!(with(|one| one.folder = "x".into()), "folder");
    assert_eq!(with(|one| one.template = String::new()), "template");
}

#[test]
fn each_failure_of_a_client_has_advice() {
    let engine = Engine::Kubernetes(Box::new(cluster(None)));
    let placement =
        Placement { name: "pods".into(), cwd: "/x".into(), program: None, lease_ms: None, engine };
    for (said, reason) in [
        ("Unable to connect to the server: dial tcp: lookup x: no such host", "engine"),
        (
            "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
            "engine",
        ),
        ("Error from server (Forbidden): pods is forbidden: User \"me\" cannot create", "forbidden"),
        ("error: You must be logged in to the server (Unauthorized)", "login"),
        ("Error from server (NotFound): namespaces \"agents\" not found", "namespace"),
        ("The Pod \"x\" is invalid: spec.containers[0].image: Required value", "pod"),
        ("error: context \"dev\" does not exist", "client"),
    ] {
        let error = ClientFailure::Exited(Some(1), said.as_bytes()).error(&placement, "subagent-runtime");
        assert_eq!(
            (error.code, &error.details["reason"]),
            (Code::PlacementUnreachable, &reason.into()),
            "{said}"
        );
    }
    let said = b"E1128 00:34:29.007098 6738 memcache.go:265] \"Unhandled Error\" err=x\nerror: You must be logged in\n";
    let error = ClientFailure::Exited(Some(1), said).error(&placement, "p");
    assert_eq!(error.details["stderr"], "error: You must be logged in", "{error:?}");
    let missing = b"error: Internal error occurred: error executing command in container: exec: \"/p\": executable file not found in $PATH: unknown";
    let missing = ClientFailure::Exited(Some(1), missing).error(&placement, "/p");
    assert_eq!(missing.code, Code::PlacementNotPrepared);
    let there =
        ClientFailure::Exited(Some(3), b"command terminated with exit code 3").error(&placement, "/p");
    assert_eq!(there.code, Code::PlacementNotPrepared);
}
