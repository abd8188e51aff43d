//! A cluster for one test: a real `kubectl`, a fake API server and its pods. Dropping it asserts that
//! no pod is left.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output as ProcessOutput};
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, say, wait_until, wait_while};
use tempfile::TempDir;

use super::api::{FakeApiServer, NAMESPACE, TOKEN};
use super::pods::FakePods;

pub(super) const DEADLINE: Duration = Duration::from_secs(60);
/// The first version of `kubectl` that runs commands over a WebSocket.
const OLDEST_MINOR: u32 = 30;

pub(crate) struct Kubernetes {
    /// Outside of the sandbox, which regards a process with its path as its own.
    folder: TempDir,
    pub(super) pods: FakePods,
    server: Option<FakeApiServer>,
    address: SocketAddr,
}

impl Kubernetes {
    /// Starts the server, and adds the placement `pods` to the config file of the sandbox's user. Says
    /// loudly if there is no fitting `kubectl` on this machine.
    ///
    /// # Panics
    ///
    /// If there is none with `SUBAGENT_REQUIRE_KUBECTL`.
    pub(crate) fn start(sandbox: &mut TestSandbox) -> Option<Self> {
        if !has_kubectl() {
            let missing = "kubectl 1.30 or later is missing: workers in pods are not tested";
            assert!(std::env::var_os("SUBAGENT_REQUIRE_KUBECTL").is_none(), "{missing}");
            say(&format!("SKIPPED: {missing}"));
            return None;
        }
        let folder = tempfile::Builder::new().prefix("kube-").tempdir_in("/tmp").unwrap();
        let executables = sandbox.executable("subagent-runtime");
        let executables = Path::new(&executables).parent().unwrap().to_owned();
        let pods = FakePods::new(folder.path().join("pods"), executables);
        let (server, address) = FakeApiServer::start(&pods, ([127, 0, 0, 1], 0).into()).unwrap();
        let cluster = Self { folder, pods, server: Some(server), address };
        let config = cluster.kubeconfig();
        sandbox.set_env("KUBECONFIG", &config);
        sandbox.add_disks(cluster.folder.path().join("pods"));
        cluster.place(sandbox, json!({}));
        cluster.template(sandbox, json!({}));
        Some(cluster)
    }

    /// Writes the kubeconfig of the user.
    fn kubeconfig(&self) -> String {
        let server = format!("http://{}", self.address);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server}}],
            "users": [{"name": "me", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "me"}}],
        });
        let file = self.folder.path().join("kubeconfig");
        fs::write(&file, config.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Writes the placement `pods` with these keys into the config file of the sandbox's user.
    pub(super) fn place(&self, sandbox: &TestSandbox, keys: Value) {
        let work = sandbox.file("in-pods");
        fs::create_dir_all(&work).unwrap();
        let there = json!({
            "kind": "kubernetes", "namespace": NAMESPACE, "template": "pod.yaml", "cwd": work,
            // Each pod has a home of its own.
            "folder": "~/placed",
        });
        sandbox.place("pods", there, keys);
    }

    /// Writes the manifest of the pods, with these keys.
    pub(super) fn template(&self, sandbox: &TestSandbox, keys: Value) {
        let id = sandbox.path().file_name().unwrap().to_str().unwrap();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": {"team": "blue"}},
            "spec": {"containers": [{
                "name": "agent", "image": "agents:1",
                "env": [{"name": "TEST_SANDBOX_ID", "value": id}, {"name": "OF_POD", "value": "of the pod"}],
            }]},
        });
        merge(&mut pod, keys);
        fs::write(sandbox.file("home/.config/subagent/pod.yaml"), pod.to_string()).unwrap();
    }

    /// Runs `kubectl` as the user does.
    pub(super) fn run(&self, words: &[&str]) -> ProcessOutput {
        let mut kubectl = Command::new("kubectl");
        kubectl.env("KUBECONFIG", self.folder.path().join("kubeconfig")).env("HOME", self.folder.path());
        kubectl.args(["--namespace", NAMESPACE]).args(words).output().unwrap()
    }

    /// Ends the server and cuts its connections. Pods go on.
    pub(crate) fn cut(&mut self) {
        self.server = None;
    }

    /// Starts the server again, at the same address.
    pub(crate) fn mend(&mut self) {
        let started = wait_until("the port of the API server", DEADLINE, || {
            FakeApiServer::start(&self.pods, self.address).ok()
        });
        self.server = Some(started.0);
    }

    /// The name of a pod that runs.
    pub(crate) fn running(&self) -> Option<String> {
        self.pods.pods().into_iter().find(|(_, phase)| phase == "Running").map(|(name, _)| name)
    }

    /// Deletes a pod from outside, unless it has gone. Without grace, its processes are killed at
    /// once.
    pub(crate) fn delete(&self, name: &str, grace_seconds: u64) {
        let _ = self.pods.delete(name, grace_seconds);
    }

    /// The name of the only pod that runs or waits.
    pub(super) fn pod(&self) -> String {
        wait_until("the pod of a worker", DEADLINE, || self.pods.pods().first().map(|(name, _)| name.clone()))
    }

    /// Waits until there is no pod.
    pub(super) fn wait_for_none(&self) {
        wait_until("the end of the pods", DEADLINE, || self.pods.pods().is_empty().then_some(()));
    }
}

/// Whether the client can run commands over a WebSocket.
fn has_kubectl() -> bool {
    let Ok(output) = Command::new("kubectl").args(["version", "--client", "--output=json"]).output() else {
        return false;
    };
    let version: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default().trim_end_matches('+');
    minor.parse().is_ok_and(|minor: u32| minor >= OLDEST_MINOR)
}

fn merge(into: &mut Value, keys: Value) {
    for (key, value) in keys.as_object().unwrap() {
        match value {
            Value::Null => drop(into.as_object_mut().unwrap().remove(key)),
            value => into[key] = value.clone(),
        }
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        let left = match std::thread::panicking() {
            true => None,
            false => wait_while(DEADLINE, || Some(self.pods.pods()).filter(|left| !left.is_empty())),
        };
        self.pods.end();
        if !std::thread::panicking() {
            assert!(left.is_none(), "pods are left: {left:?}");
        }
    }
}
