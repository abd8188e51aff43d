//! The manifest of a pod that the user gives. Only what a runtime needs is read and set; everything
//! else is passed on.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Annotation with the container that `kubectl` chooses.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// The restart policy of a pod with a runtime: a runtime starts once.
const NEVER: &str = "Never";

/// A pod, as far as it is read. It may have secrets, so it is not shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodManifest {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: PodMetadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The metadata of a pod, as far as they are read.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generate_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    containers: Vec<PodContainer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restart_policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "hostPID")]
    host_pid: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share_process_namespace: Option<bool>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A container of a pod, as far as it is read.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodContainer {
    #[serde(default)]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    command: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    /// A restart policy of the container itself, which newer clusters know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restart_policy: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl fmt::Debug for PodManifest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PodManifest").finish_non_exhaustive()
    }
}

impl PodManifest {
    /// Returns the name of the container with the runtime: the chosen one, that of `kubectl`'s
    /// annotation, or the only one.
    #[must_use]
    pub fn container<'a>(&'a self, chosen: Option<&'a str>) -> Option<&'a str> {
        let annotated = self.metadata.annotations.get(DEFAULT_CONTAINER).map(String::as_str);
        match (chosen.or(annotated), self.spec.containers.as_slice()) {
            (Some(name), all) => all.iter().find(|one| one.name == name).map(|one| one.name.as_str()),
            (None, [one]) => Some(&one.name),
            (None, _) => None,
        }
    }

    /// Returns the image of this container.
    #[must_use]
    pub fn image(&self, container: &str) -> Option<&str> {
        self.spec.containers.iter().find(|one| one.name == container)?.image.as_deref()
    }

    /// Returns the pod of one runtime.
    pub(super) fn named(
        mut self,
        name: &str,
        container: Option<&str>,
        labels: impl IntoIterator<Item = (String, String)>,
        command: Vec<String>,
    ) -> Self {
        let chosen = self.container(container).map(str::to_owned);
        self.metadata.name = Some(name.to_owned());
        self.metadata.labels.extend(labels);
        self.spec.restart_policy = Some(NEVER.to_owned());
        if let Some(one) = self.spec.containers.iter_mut().find(|one| Some(&one.name) == chosen.as_ref()) {
            (one.command, one.args) = (command, Vec::new());
        }
        self
    }

    /// Returns the manifest as the client takes it.
    pub(super) fn to_json(&self) -> String {
        // Maps of texts and values always have a text.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns why no runtime can have such a pod.
    #[must_use]
    pub fn problem(&self, container: Option<&str>) -> Option<&'static str> {
        let (metadata, spec) = (&self.metadata, &self.spec);
        let is_chosen = |one: &&PodContainer| Some(one.name.as_str()) == self.container(container);
        let restarts =
            || spec.containers.iter().find(is_chosen).is_some_and(|one| one.restart_policy.is_some());
        let problems: [(bool, &str); 9] = [
            (
                self.kind != "Pod" || self.api_version != "v1",
                "must have `apiVersion: v1` and `kind: Pod`: each worker gets a pod of its own",
            ),
            (
                metadata.name.is_some() || metadata.generate_name.is_some(),
                "must not set `metadata.name`: each runtime has a pod of its own name",
            ),
            (
                metadata.namespace.is_some(),
                "must not set `metadata.namespace`: `namespace` of the placement does",
            ),
            (
                !metadata.owner_references.is_empty() || !metadata.finalizers.is_empty(),
                "must not set `metadata.ownerReferences` or `metadata.finalizers`: only the daemon ends a pod",
            ),
            (
                spec.host_pid == Some(true) || spec.share_process_namespace == Some(true),
                "must not set `hostPID` or `shareProcessNamespace`: the end of the container must end all its processes",
            ),
            (spec.containers.is_empty(), "must have a container in `spec.containers`"),
            (
                self.container(container).is_none() && container.is_some(),
                "has no container of the name in `container` of the placement",
            ),
            (
                self.container(container).is_none(),
                "has several containers: name the one of the agent with `container` of the placement",
            ),
            (restarts(), "must not set `restartPolicy` of the container: a runtime starts once"),
        ];
        problems.into_iter().find(|(is_wrong, _)| *is_wrong).map(|(_, why)| why)
    }
}
