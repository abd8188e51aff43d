//! A pod of a Kubernetes cluster: the command lines of `kubectl`, and what it prints. A pod belongs to
//! one runtime, and ends with it. Its name is its handle.

mod answers;
pub mod manifest;
pub mod status;

use serde::{Deserialize, Serialize};

use super::places::{ClientCommand, ClientOutput, PlaceIdentity, PlaceStart, PlaceStatus};
use super::podman::HOLD;
pub(super) use answers::{is_deleted, is_program_missing, is_refused, reason_of, without_log};
pub use answers::{is_of_client, is_taken};
use status::REQUEST_LABEL;
/// The client, searched in the PATH.
pub const CLIENT: &str = "kubectl";
/// The runtime in an image, if the placement names none: it is searched in the PATH there.
pub const PROGRAM: &str = "subagent-runtime";
/// The folder of placed workers in a pod, if the placement names none.
pub const PLACED_IN_POD: &str = "/tmp/subagent";
/// Option of [`HOLD`] for a place that has no folder of the worker yet.
pub const CREATE: &str = "--create";
/// Time limit of one request to the API server.
const REQUEST: &str = "--request-timeout=10s";
/// Time in seconds that a pod has to end its processes. It covers the guard's.
const GRACE: u32 = 25;
/// Lines of a container's log that a message may show.
const LOG_LINES: u32 = 20;
/// Maximum size of this in bytes: a line may be long.
const LOG_BYTES: u32 = 64 * 1024;
/// Global options of the client that the placement has keys for, or that would show a secret to all
/// users of this machine.
const REFUSED: [&str; 11] = [
    "--namespace",
    "--context",
    "--token",
    "--username",
    "--password",
    "--filename",
    "--output",
    "--dry-run",
    "--all-namespaces",
    // They print what is sent: a template may have secrets.
    "--v",
    "--vmodule",
];
/// How the client begins the API server's answer that there is no such thing.
const NOT_FOUND: &str = "Error from server (NotFound): ";
/// Maximum length of a name of Kubernetes in bytes.
const MAX_NAME_BYTES: usize = 63;

/// The cluster that `kubectl` reaches, and the pod for each runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KubernetesCluster {
    /// The context of the user's kubeconfig; absent: the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The namespace of the pods. Its id tells the cluster from others.
    pub namespace: String,
    /// Further global options of the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Path of the manifest of the pod. It may have secrets, so only its path is stored.
    pub template: String,
    /// The container with the runtime; in a config file, only if the manifest has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The image of this container; absent in a config file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Folder of the placed workers in the pod: absolute, or `~` or `~/...`, which is expanded there.
    pub folder: String,
}

impl KubernetesCluster {
    /// Returns the command that shows the pod of a name.
    #[must_use]
    pub fn look(&self, name: &str) -> ClientCommand {
        // Not `--ignore-not-found`: it also hides that of a proxy, which says nothing about the pod.
        self.command(["get", "pod", name, "--output=json", REQUEST])
    }

    /// Returns the command that prints the namespace's id, which no other cluster or namespace has.
    #[must_use]
    pub fn identify(&self) -> ClientCommand {
        self.command(["get", "namespace", &self.namespace, "--output=jsonpath={.metadata.uid}", REQUEST])
    }

    /// Returns the command that creates the pod of a runtime. The API server takes no second one of this
    /// name.
    #[must_use]
    pub fn start(&self, start: &PlaceStart<'_>) -> ClientCommand {
        let mut command =
            self.command(["create", "--filename=-", "--validate=false", "--output=json", REQUEST]);
        let (folder, number) = (start.folder.display().to_string(), start.number.to_string());
        let words = [start.program, HOLD, CREATE, &folder, &number].map(str::to_owned);
        let labels = [
            ("subagent/worker", start.worker),
            ("subagent/runtime", &number),
            ("subagent/managed-by", "subagent"),
            (REQUEST_LABEL, start.request),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let manifest = start.manifest.clone();
        let pod = manifest.named(start.name, self.container.as_deref(), labels, words.into());
        command.input = Some(pod.to_json());
        command
    }

    /// Returns the command that runs a program in a pod, with standard input and output as they are.
    #[must_use]
    pub fn exec(&self, pod: &str, program: &str, words: &[&str]) -> ClientCommand {
        let container = format!("--container={}", self.container_name());
        let before = ["exec", "--stdin", pod, &container, "--", program];
        self.command(before.into_iter().chain(words.iter().copied()))
    }

    /// Returns the command that deletes the pod of a name if it has this id.
    #[must_use]
    pub fn end(&self, name: &str, uid: &str) -> ClientCommand {
        // The client has no option for the id.
        let path = format!("--raw=/api/v1/namespaces/{}/pods/{name}", self.namespace);
        let mut command = self.command(["delete", &path, "--filename=-", REQUEST]);
        let options = DeleteOptions {
            api_version: "v1",
            kind: "DeleteOptions",
            grace_period_seconds: GRACE,
            preconditions: Preconditions { uid },
        };
        // Numbers and texts always have a text.
        command.input = Some(serde_json::to_string(&options).unwrap_or_default());
        command
    }

    /// Returns the command that shows the end of the log of a pod.
    #[must_use]
    pub fn log(&self, name: &str) -> ClientCommand {
        let container = format!("--container={}", self.container_name());
        let (tail, limit) = (format!("--tail={LOG_LINES}"), format!("--limit-bytes={LOG_BYTES}"));
        self.command(["logs", name, &container, &tail, &limit, REQUEST])
    }

    /// Returns what the client has said about the pod of this name; `None` if it has failed.
    #[must_use]
    pub fn seen(
        &self,
        name: &str,
        identity: &PlaceIdentity,
        output: &ClientOutput<'_>,
    ) -> Option<PlaceStatus> {
        if output.success {
            return status::status(name, self.container_name(), identity, output.stdout);
        }
        // Not that of a proxy, which says nothing about the pod.
        let missing = [("pods", name), ("namespaces", self.namespace.as_str())]
            .map(|(kind, name)| format!("{NOT_FOUND}{kind} \"{name}\" not found"));
        let said = String::from_utf8_lossy(output.stderr);
        said.lines().any(|line| missing.iter().any(|text| line.trim() == text)).then_some(PlaceStatus::Absent)
    }

    fn container_name(&self) -> &str {
        self.container.as_deref().unwrap_or_default()
    }

    fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> ClientCommand {
        let context = self.context.iter().map(|context| format!("--context={context}"));
        let namespace = [format!("--namespace={}", self.namespace)];
        let global = context.chain(namespace).chain(self.args.iter().cloned());
        ClientCommand::new(CLIENT, global.chain(words.into_iter().map(str::to_owned)))
    }

    /// Returns the key that is wrong, and why.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_bad = |text: &String| text.is_empty() || text.chars().any(char::is_control);
        let template = is_bad(&self.template).then_some(("template", "must be the path of a manifest"));
        let context = self.context.as_ref().filter(|text| is_bad(text));
        let context = context.map(|_| ("context", "must be the name of a context"));
        let namespace = !is_label(&self.namespace);
        let namespace = namespace.then_some(("namespace", "must have small letters, digits and `-`"));
        let container = self.container.as_ref().filter(|name| !is_label(name));
        let container = container.map(|_| ("container", "must be the name of a container of the template"));
        let folder = || super::path_problem(&self.folder).map(|problem| ("folder", problem));
        template
            .or(context)
            .or(namespace)
            .or(container)
            .or_else(|| self.args.iter().find_map(|arg| argument_problem(arg)).map(|why| ("args", why)))
            .or_else(folder)
    }
}

/// What the API server is given with a delete.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions<'a> {
    api_version: &'a str,
    kind: &'a str,
    grace_period_seconds: u32,
    preconditions: Preconditions<'a>,
}

#[derive(Serialize)]
struct Preconditions<'a> {
    uid: &'a str,
}

/// Returns why this is no global option.
fn argument_problem(arg: &str) -> Option<&'static str> {
    let word = arg.split_once('=').map_or(arg, |(word, _)| word);
    if !word.starts_with("--") || word == "--" || arg.contains('\0') {
        return Some("must be options of kubectl, each in one word: `--option=value`");
    }
    REFUSED.contains(&word).then_some(
        "must not have `--context`, `--namespace`, which are keys of the placement, nor options about output, \
         and no `--token` or `--password`: credentials belong into your kubeconfig",
    )
}

/// Returns whether this is a DNS label, as names of Kubernetes are.
fn is_label(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.chars().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Returns the name of the pod of a runtime. Ids of workers have one character that Kubernetes refuses,
/// and none that replaces it.
#[must_use]
pub fn pod_name(state: &str, worker: &str, incarnation: u64) -> String {
    super::places::place_name(state, &worker.replace('_', "-"), incarnation)
}

#[cfg(test)]
mod tests;
