//! Tests of the command lines of `kubectl`, and of what it prints.

use std::path::Path;

use serde_json::{Value, json};

use super::super::client::ClientFailure;
use super::super::{Engine, Placement};
use super::manifest::PodManifest;
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

fn cluster() -> KubernetesCluster {
    KubernetesCluster {
        context: Some("dev".into()),
        namespace: "agents".into(),
        args: vec!["--kubeconfig=/k".into()],
        template: "/t/pod.yaml".into(),
        container: Some("agent".into()),
        image: Some("agents:1".into()),
        folder: PLACED_IN_POD.into(),
    }
}

#[test]
fn a_pod_is_that_of_one_runtime_and_has_nothing_secret() {
    let cluster = cluster();
    let name = pod_name("0a1b2c3d", "w_0123456789", 3);
    assert_eq!(name, "subagent-0a1b2c3d-w-0123456789-3");
    assert!(is_label(&pod_name("0a1b2c3d", "w_0123456789", u64::MAX)));
    let started = cluster.start(&PlaceStart {
        name: &name,
        worker: "w_0123456789",
        number: 3,
        folder: Path::new("/tmp/subagent/w_0123456789"),
        program: "subagent-runtime",
        request: "0f0f",
        manifest: manifest(pod()),
    });
    let global = "kubectl --context=dev --namespace=agents --kubeconfig=/k";
    assert_eq!(
        started.line(),
        format!("{global} create --filename=- --validate=false --output=json --request-timeout=10s")
    );
    let sent: Value = serde_json::from_str(&started.input.unwrap()).unwrap();
    let mut expected = pod();
    expected["metadata"]["name"] = json!(name);
    expected["metadata"]["labels"] = json!({
        "team": "blue", "subagent/managed-by": "subagent", "subagent/request": "0f0f", "subagent/runtime": "3",
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
    let end = cluster.end(&name, "u-1");
    let path = format!("/api/v1/namespaces/agents/pods/{name}");
    assert_eq!(end.line(), format!("{global} delete --raw={path} --filename=- --request-timeout=10s"));
    assert!(cluster.log(&name).line().contains(" --tail=20 --limit-bytes=65536 "));
    let options: Value = serde_json::from_str(&end.input.unwrap()).unwrap();
    assert_eq!(options["preconditions"], json!({"uid": "u-1"}));
    assert_eq!(
        cluster.identify().line(),
        format!("{global} get namespace agents --output=jsonpath={{.metadata.uid}} --request-timeout=10s")
    );
}

/// What is known of the pod with the id `u-1`.
fn identity(uid: Option<&str>) -> PlaceIdentity {
    PlaceIdentity {
        cluster: "c".into(),
        request: "0f0f".into(),
        name: String::new(),
        uid: uid.map(str::to_owned),
    }
}

#[test]
fn a_pod_of_the_same_name_that_another_request_has_created_is_not_the_pod() {
    let shown = |uid: &str, request: Option<&str>| {
        let pod = json!({
            "metadata": {"name": "p", "uid": uid, "labels": {"subagent/request": request.unwrap_or("x")}},
            "status": {"phase": "Running"},
        });
        pod.to_string()
    };
    for (known, uid, request, is_it) in [
        // Before its id is known, it has the word of the request.
        (None, "u-1", Some("0f0f"), true),
        (None, "u-1", Some("other"), false),
        (None, "u-1", None, false),
        (Some("u-1"), "u-1", Some("0f0f"), true),
        // A copy of the manifest has the word too.
        (Some("u-1"), "u-2", Some("0f0f"), false),
    ] {
        let stdout = shown(uid, request);
        let output = ClientOutput { success: true, stdout: stdout.as_bytes(), stderr: b"" };
        let status = cluster().seen("p", &identity(known), &output).unwrap();
        assert_eq!(status != PlaceStatus::Absent, is_it, "{known:?} {uid} {request:?}");
    }
}

#[test]
fn only_a_refusal_proves_that_no_pod_was_created() {
    for refused in [
        "Error from server (Forbidden): error when creating \"STDIN\": pods is forbidden",
        "Error from server (NotFound): error when creating \"STDIN\": namespaces \"x\" not found",
        "The Pod \"p\" is invalid: spec.containers[0].image: Required value",
        "error: context \"none\" does not exist",
    ] {
        assert!(is_refused(refused.as_bytes()), "{refused}");
    }
    for unclear in [
        "Error from server (Timeout): error when creating \"STDIN\": the server was unable to return a response",
        "Error from server (InternalError): error when creating \"STDIN\": an error on the server",
        "Error from server (AlreadyExists): error when creating \"STDIN\": pods \"p\" already exists",
        "error: unexpected EOF",
        "Unable to connect to the server: net/http: TLS handshake timeout",
        "error: http2: client connection lost",
        "",
    ] {
        assert!(!is_refused(unclear.as_bytes()), "{unclear}");
    }
}

fn seen(status: Value, deleted: bool) -> PlaceStatus {
    let mut pod = json!({"kind": "Pod", "metadata": {"name": "p", "uid": "u-1"}, "status": status});
    if deleted {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let stdout = pod.to_string();
    let output = ClientOutput { success: true, stdout: stdout.as_bytes(), stderr: b"" };
    cluster().seen("p", &identity(Some("u-1")), &output).unwrap()
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
    assert!(
        !status::is_not_prepared("Error (exit code 137)")
            && !status::is_not_prepared("Error (exit code 143): x")
    );
    assert!(!status::is_not_prepared("OOMKilled") && !status::is_not_prepared("Evicted: x"));
}

#[test]
fn what_a_cluster_says_is_short_and_harmless() {
    let long = format!("\u{1b}[31mred\u{202e}\n{}", "x".repeat(1000));
    let PlaceStatus::Held { state, .. } = seen(json!({"phase": long.clone()}), false) else { panic!() };
    let PlaceStatus::Gone { state: end, .. } =
        seen(json!({"phase": "Failed", "reason": "Evicted", "message": long}), false)
    else {
        panic!()
    };
    for (text, begin) in [(state, "red x"), (end, "Evicted: red x")] {
        assert!(text.starts_with(begin) && text.chars().count() == 300, "{text}");
    }
}

#[test]
fn what_may_be_secret_is_not_shown_by_debug() {
    let mut secret = pod();
    secret["spec"]["containers"][0]["env"] = json!([{"name": "KEY", "value": "secret-4711"}]);
    let manifest = manifest(secret);
    let start = PlaceStart {
        name: "p",
        worker: "w_1",
        number: 1,
        folder: Path::new("/f"),
        program: "p",
        request: "0f",
        manifest,
    };
    let command = cluster().start(&start);
    assert!(command.input.as_ref().unwrap().contains("secret-4711"));
    assert!(!format!("{start:?} {command:?}").contains("secret-4711"));
}

#[test]
fn only_the_api_server_says_that_there_is_no_pod() {
    let seen = |output: ClientOutput<'_>| cluster().seen("p", &identity(None), &output);
    let failed =
        |stderr: &'static str| ClientOutput { success: false, stdout: b"", stderr: stderr.as_bytes() };
    for said in [
        "Error from server (NotFound): pods \"p\" not found\n",
        "Error from server (NotFound): namespaces \"agents\" not found\n",
    ] {
        assert_eq!(seen(failed(said)), Some(PlaceStatus::Absent));
    }
    for said in [
        // Of a proxy before the API server.
        "Error from server (NotFound): the server could not find the requested resource",
        "Error from server (NotFound): pods \"other\" not found",
        "Unable to connect to the server: EOF",
        "",
    ] {
        assert_eq!(seen(failed(said)), None, "{said}");
    }
    assert_eq!(seen(ClientOutput { success: true, stdout: b"{}", stderr: b"" }), None);
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
    let two = manifest(two);
    assert_eq!((two.container(None), two.image("b")), (Some("b"), Some("y")));
}

#[test]
fn options_are_global_ones_without_a_secret() {
    let problem = |arg: &str| KubernetesCluster { args: vec![arg.into()], ..cluster() }.problem();
    for bad in [
        "delete",
        "-n",
        "--",
        "--token=x",
        "--namespace=x",
        "--dry-run=server",
        "--context",
        "--v=9",
        "--vmodule=x=9",
    ] {
        assert_eq!(problem(bad).unwrap().0, "args", "{bad}");
    }
    assert_eq!(problem("--as=me"), None);
    let with = |change: fn(&mut KubernetesCluster)| {
        let mut cluster = cluster();
        change(&mut cluster);
        cluster.problem().unwrap().0
    };
    assert_eq!(with(|one| one.namespace = "A_b".into()), "namespace");
    assert_eq!(with(|one| one.context = Some(String::new())), "context");
    assert_eq!(with(|one| one.container = Some("-x".into())), "container");
    assert_eq!(with(|one| one.folder = "x".into()), "folder");
    assert_eq!(with(|one| one.template = String::new()), "template");
}

#[test]
fn each_failure_of_a_client_has_advice() {
    let engine = Engine::Kubernetes(Box::new(cluster()));
    let placement =
        Placement { name: "pods".into(), cwd: "/x".into(), program: None, lease_ms: None, git: None, engine };
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
