//! The pods of the fake cluster: local processes. A pod has a folder of its own as its home and its
//! disk, and the end of its first process ends all others, as a node does it.

// What is not as on a node: the pods share the file system, the network and the process ids of this
// machine. An image is only a search path.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use subagent_tests::harness::wait_while;

/// The variable that all processes of a pod have.
const MARKER: &str = "FAKE_POD";
/// Time limit of the end of a pod's processes.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// The image without a runtime.
pub(super) const BARE_IMAGE: &str = "bare:1";

/// Why a pod does not run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The scheduler has no node for it.
    Unschedulable(&'static str),
    /// The node cannot start its container, for this reason.
    Container(&'static str, &'static str),
}

enum PodState {
    Waiting(Obstacle),
    Running(Pid),
    Ended { code: i32, reason: &'static str, message: String },
}

struct FakePod {
    uid: String,
    /// The id that is shown, if it is another one.
    shown_uid: Option<String>,
    manifest: Value,
    state: PodState,
    deleted: bool,
}

/// What the API server answers from.
#[derive(Default)]
struct FakeState {
    pods: BTreeMap<String, FakePod>,
    /// All that were ever created.
    created: Vec<String>,
    obstacle: Option<Obstacle>,
    /// What the user may not do.
    forbidden: Option<&'static str>,
    /// The pod that the user may not delete.
    kept: Option<String>,
    /// Whether the next create is carried out without an answer.
    loses_answer: bool,
    /// Whether the client reaches another cluster, which has no pods.
    is_elsewhere: bool,
}

/// The pods, shared with the API server and the threads that wait for processes.
#[derive(Clone)]
pub(super) struct FakePods {
    folder: PathBuf,
    executables: PathBuf,
    state: Arc<Mutex<FakeState>>,
}

impl FakePods {
    pub(super) fn new(folder: PathBuf, executables: PathBuf) -> Self {
        Self { folder, executables, state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of all pods, with their phases.
    pub(super) fn pods(&self) -> Vec<(String, String)> {
        let state = self.lock();
        let phase = |pod: &FakePod| status(pod)["phase"].as_str().unwrap().to_owned();
        state.pods.iter().map(|(name, pod)| (name.clone(), phase(pod))).collect()
    }

    /// The names of all pods that were ever created.
    pub(super) fn created(&self) -> Vec<String> {
        self.lock().created.clone()
    }

    /// The disk of a pod.
    pub(super) fn disk(&self, name: &str) -> PathBuf {
        self.folder.join(&self.lock().pods[name].uid)
    }

    /// The manifest of a pod, as it was created.
    pub(super) fn manifest(&self, name: &str) -> Value {
        self.lock().pods[name].manifest.clone()
    }

    /// Pods that are created from now on wait for this reason; `None`: they start.
    pub(super) fn obstruct(&self, obstacle: Option<Obstacle>) {
        let mut state = self.lock();
        state.obstacle.clone_from(&obstacle);
        let waiting: Vec<String> = state
            .pods
            .iter()
            .filter(|(_, pod)| matches!(pod.state, PodState::Waiting(_)))
            .map(|(name, _)| name.clone())
            .collect();
        for name in waiting {
            match &obstacle {
                Some(obstacle) => {
                    state.pods.get_mut(&name).unwrap().state = PodState::Waiting(obstacle.clone())
                }
                None => self.start(&mut state, &name),
            }
        }
    }

    pub(super) fn forbid(&self, verb: Option<&'static str>) {
        self.lock().forbidden = verb;
    }

    pub(super) fn forbids(&self, verb: &str) -> bool {
        self.lock().forbidden == Some(verb)
    }

    /// The user may not delete this pod from now on.
    pub(super) fn keep(&self, name: Option<&str>) {
        self.lock().kept = name.map(str::to_owned);
    }

    pub(super) fn keeps(&self, path: &str) -> bool {
        self.lock().kept.as_ref().is_some_and(|name| path.ends_with(name.as_str()))
    }

    /// The answer to the next create gets lost.
    pub(super) fn lose_answer(&self) {
        self.lock().loses_answer = true;
    }

    pub(super) fn loses_answer(&self) -> bool {
        std::mem::take(&mut self.lock().loses_answer)
    }

    /// The client reaches another cluster from now on, or this one again.
    pub(super) fn go_elsewhere(&self, is_elsewhere: bool) {
        self.lock().is_elsewhere = is_elsewhere;
    }

    /// The id of the namespace.
    pub(super) fn cluster(&self) -> &'static str {
        if self.lock().is_elsewhere { "another-namespace-id" } else { "namespace-id" }
    }

    /// Puts another pod of the same name in the place of a pod.
    pub(super) fn replace(&self, name: &str) {
        self.lock().pods.get_mut(name).unwrap().shown_uid = Some("another-pod".into());
    }

    /// Creates a pod; `None` if there is one of this name.
    pub(super) fn create(&self, mut manifest: Value) -> Option<Value> {
        let mut state = self.lock();
        let name = manifest["metadata"]["name"].as_str().unwrap().to_owned();
        if state.pods.contains_key(&name) {
            return None;
        }
        // Other tests have pods at the same time.
        let test = self.folder.parent().and_then(Path::file_name).unwrap().to_str().unwrap();
        let uid = format!("{test}-{}", state.created.len());
        manifest["metadata"]["uid"] = json!(uid);
        state.created.push(name.clone());
        let obstacle = state.obstacle.clone();
        let waits = PodState::Waiting(obstacle.clone().unwrap_or(Obstacle::Unschedulable("")));
        state
            .pods
            .insert(name.clone(), FakePod { uid, shown_uid: None, manifest, state: waits, deleted: false });
        if obstacle.is_none() {
            self.start(&mut state, &name);
        }
        Some(shown(&state.pods[&name]))
    }

    pub(super) fn get(&self, name: &str) -> Option<Value> {
        let state = self.lock();
        state.pods.get(name).filter(|_| !state.is_elsewhere).map(shown)
    }

    pub(super) fn list(&self) -> Vec<Value> {
        self.lock().pods.values().map(shown).collect()
    }

    /// Deletes a pod. One that runs is asked to end, and goes after its processes.
    pub(super) fn delete(&self, name: &str, grace: u64) -> Option<Value> {
        let mut state = self.lock();
        let pod = state.pods.get_mut(name)?;
        let before = shown(pod);
        pod.deleted = true;
        match pod.state {
            PodState::Running(process) if grace > 0 => {
                let _ = kill(process, Signal::SIGTERM);
                let (pods, uid) = (self.clone(), pod.uid.clone());
                std::thread::spawn(move || {
                    // What a node does is a time.
                    let lives = || pods.lock().pods.values().any(|pod| pod.uid == uid).then_some(());
                    if wait_while(Duration::from_secs(grace), lives).is_some() {
                        end_all(&uid);
                    }
                });
            }
            PodState::Running(_) => {
                let uid = pod.uid.clone();
                state.pods.remove(name);
                drop(state);
                end_all(&uid);
            }
            PodState::Waiting(_) | PodState::Ended { .. } => drop(state.pods.remove(name)),
        }
        Some(before)
    }

    /// The output of the first process of a pod.
    pub(super) fn log(&self, name: &str) -> Option<String> {
        let state = self.lock();
        let log = self.folder.join(&state.pods.get(name)?.uid).join("log");
        Some(fs::read_to_string(log).unwrap_or_default())
    }

    /// Returns the command that runs in a pod; `Err` with what the node says.
    pub(super) fn exec(&self, name: &str, words: &[String]) -> Option<Result<Command, String>> {
        let state = self.lock();
        let pod = state.pods.get(name).filter(|_| !state.is_elsewhere)?;
        matches!(pod.state, PodState::Running(_)).then(|| self.command(pod, words))
    }

    fn start(&self, state: &mut FakeState, name: &str) {
        let pod = state.pods.get_mut(name).unwrap();
        let words: Vec<String> = serde_json::from_value(container(&pod.manifest)["command"].clone()).unwrap();
        let folder = self.folder.join(&pod.uid);
        fs::create_dir_all(&folder).unwrap();
        let log = File::create(folder.join("log")).unwrap();
        let started = self.command(pod, &words).and_then(|mut command| {
            let command = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
            command.spawn().map_err(|error| error.to_string())
        });
        match started {
            Ok(child) => {
                pod.state = PodState::Running(Pid::from_raw(i32::try_from(child.id()).unwrap()));
                let (pods, name, uid) = (self.clone(), name.to_owned(), pod.uid.clone());
                std::thread::spawn(move || pods.wait(child, &name, &uid));
            }
            Err(message) => pod.state = PodState::Ended { code: 128, reason: "StartError", message },
        }
    }

    /// Waits for the end of the first process of a pod, which ends the others.
    fn wait(&self, mut child: Child, name: &str, uid: &str) {
        let status = child.wait().unwrap();
        end_all(uid);
        let mut state = self.lock();
        let Some(pod) = state.pods.get_mut(name).filter(|pod| pod.uid == uid) else { return };
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap();
        let reason = if code == 0 { "Completed" } else { "Error" };
        pod.state = PodState::Ended { code, reason, message: String::new() };
        if pod.deleted {
            state.pods.remove(name);
        }
    }

    fn command(&self, pod: &FakePod, words: &[String]) -> Result<Command, String> {
        let container = container(&pod.manifest);
        let mut path = vec![PathBuf::from("/usr/bin"), PathBuf::from("/bin")];
        if container["image"] != BARE_IMAGE {
            path.insert(0, self.executables.clone());
        }
        let found = path.iter().map(|folder| folder.join(&words[0])).find(|file| file.exists());
        let missing = || {
            format!(
                "failed to create task: OCI runtime exec failed: exec: {:?}: executable file not found in $PATH: unknown",
                words[0]
            )
        };
        let folder = self.folder.join(&pod.uid);
        let mut command = Command::new(found.ok_or_else(missing)?);
        command.args(&words[1..]).env_clear().current_dir(&folder).env("HOME", &folder);
        command.env("PATH", std::env::join_paths(path).unwrap()).env(MARKER, &pod.uid);
        for one in container["env"].as_array().into_iter().flatten() {
            command.env(one["name"].as_str().unwrap(), one["value"].as_str().unwrap());
        }
        Ok(command)
    }

    /// Ends all that is left.
    pub(super) fn end(&self) {
        let uids: Vec<String> = self.lock().pods.values().map(|pod| pod.uid.clone()).collect();
        for uid in uids {
            end_all(&uid);
        }
    }
}

fn container(manifest: &Value) -> &Value {
    let all = manifest["spec"]["containers"].as_array().unwrap();
    all.iter().find(|one| one["name"] == "agent").unwrap_or(&all[0])
}

/// The pod as the API server shows it.
fn shown(pod: &FakePod) -> Value {
    let mut shown = pod.manifest.clone();
    shown["status"] = status(pod);
    if let Some(uid) = &pod.shown_uid {
        shown["metadata"]["uid"] = json!(uid);
    }
    shown["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    if pod.deleted {
        shown["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    shown
}

fn status(pod: &FakePod) -> Value {
    let of = |state: Value| json!([{"name": container(&pod.manifest)["name"], "state": state}]);
    let scheduled = |status: &str, message: &str| {
        let reason = if status == "False" { json!("Unschedulable") } else { Value::Null };
        json!([{"type": "PodScheduled", "status": status, "reason": reason, "message": message}])
    };
    match &pod.state {
        PodState::Waiting(Obstacle::Unschedulable(message)) => {
            json!({"phase": "Pending", "conditions": scheduled("False", message)})
        }
        PodState::Waiting(Obstacle::Container(reason, message)) => json!({
            "phase": "Pending", "conditions": scheduled("True", ""),
            "containerStatuses": of(json!({"waiting": {"reason": reason, "message": message}})),
        }),
        PodState::Running(_) => json!({
            "phase": "Running", "conditions": scheduled("True", ""),
            "containerStatuses": of(json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})),
        }),
        PodState::Ended { code, reason, message } => json!({
            "phase": if *code == 0 { "Succeeded" } else { "Failed" },
            "containerStatuses": of(json!({"terminated": {"exitCode": code, "reason": reason, "message": message}})),
        }),
    }
}

/// Kills all processes of a pod until there is none.
fn end_all(uid: &str) {
    let marker = format!("{MARKER}={uid}\0");
    let left = || {
        let files = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let pids = files.filter_map(|path| Some((path.file_name()?.to_str()?.parse().ok()?, path.clone())));
        let own: Vec<i32> = pids.filter(|(_, path)| has(path, &marker)).map(|(pid, _)| pid).collect();
        for pid in &own {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        (!own.is_empty()).then_some(())
    };
    // The sandbox finds what is left.
    let _ = wait_while(END_TIMEOUT, left);
}

/// Whether a process that has not ended has this variable.
fn has(process: &Path, marker: &str) -> bool {
    fs::read(process.join("environ")).is_ok_and(|bytes| {
        let text = String::from_utf8_lossy(&bytes);
        text.starts_with(marker) || text.contains(&format!("\0{marker}"))
    })
}
