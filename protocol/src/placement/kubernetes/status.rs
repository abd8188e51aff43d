//! What the API server says about a pod: only a final phase, or the end of the container with the
//! runtime, is the end of a place.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::places::{ENDED_FROM_OUTSIDE, PlaceIdentity, PlaceStatus};
use crate::clean::one_line;

/// The label with the word of [`PlaceIdentity`].
pub(super) const REQUEST_LABEL: &str = "subagent/request";
/// The state of a pod that is being deleted and may have processes.
pub const TERMINATING: &str = "Terminating";
/// The state of a container whose process has ended by itself without a failure.
pub const COMPLETED: &str = "Completed";
/// The state of a container whose process has ended with a failure.
pub const ERROR: &str = "Error";
/// States of a container whose process could not be started.
const NOT_STARTED: [&str; 3] = ["StartError", "ContainerCannotRun", "RunContainerError"];
/// Maximum length of an explanation, in characters.
const MAX_EXPLANATION: usize = 300;

#[derive(Debug, Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    reason: Option<String>,
    message: Option<String>,
    conditions: Vec<PodCondition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Deserialize)]
struct PodCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ContainerStatus {
    name: String,
    #[serde(default)]
    state: ContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Explanation>,
    running: Option<serde::de::IgnoredAny>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Deserialize)]
struct Explanation {
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    #[serde(default)]
    exit_code: i32,
    reason: Option<String>,
    message: Option<String>,
}

/// Returns the API server's id of the pod in the printed JSON.
pub(in crate::placement) fn uid(printed: &[u8]) -> Option<String> {
    serde_json::from_slice(printed).ok().map(|Pod { metadata, .. }| metadata.uid)
}

/// Returns what the printed JSON says about a pod; `None` if it is no pod of this name. One that another
/// request has created is not the pod, which is then absent.
pub(super) fn status(
    name: &str,
    container: &str,
    identity: &PlaceIdentity,
    printed: &[u8],
) -> Option<PlaceStatus> {
    let Pod { metadata, status } = serde_json::from_slice(printed).ok()?;
    if metadata.name != name {
        return None;
    }
    if !identity.is(&metadata.uid, metadata.labels.get(REQUEST_LABEL).map(String::as_str)) {
        return Some(PlaceStatus::Absent);
    }
    let handle = metadata.name;
    let own = status.container_statuses.iter().find(|one| one.name == container);
    let ended = own.and_then(|one| one.state.terminated.as_ref());
    let is_over = matches!(status.phase.as_str(), "Succeeded" | "Failed");
    if is_over || ended.is_some() {
        return Some(PlaceStatus::Gone { handle, state: end(&status, ended) });
    }
    if metadata.deletion_timestamp.is_some() {
        return Some(PlaceStatus::Held { handle, state: TERMINATING.to_owned() });
    }
    Some(match (own, status.phase.as_str()) {
        (Some(one), _) if one.state.running.is_some() => PlaceStatus::Ready { handle },
        (_, "Pending" | "Running" | "") => PlaceStatus::Waiting { handle, reason: wait(&status, container) },
        (_, phase) => PlaceStatus::Held { handle, state: explained(phase, None) },
    })
}

/// Returns whether a container with this state lacks something in its image. One that was ended from
/// outside does not.
#[must_use]
pub fn is_not_prepared(state: &str) -> bool {
    let word = state.split(':').next().unwrap_or_default();
    let was_ended = ENDED_FROM_OUTSIDE.iter().any(|code| word == failed_with(*code));
    NOT_STARTED.contains(&word) || (word.starts_with(ERROR) && !was_ended)
}

/// Returns the state of a container whose process has ended with this exit code.
fn failed_with(exit_code: i32) -> String {
    format!("{ERROR} (exit code {exit_code})")
}

/// Returns how a pod has ended: the reason of the cluster for the pod, or that of the container.
fn end(status: &PodStatus, container: Option<&Terminated>) -> String {
    if let Some(reason) = &status.reason {
        return explained(reason, status.message.as_deref());
    }
    match container {
        Some(Terminated { exit_code: 0, .. }) => COMPLETED.to_owned(),
        Some(Terminated { exit_code, reason, message }) => {
            let said = reason.clone().filter(|reason| reason != ERROR);
            explained(&said.unwrap_or_else(|| failed_with(*exit_code)), message.as_deref())
        }
        None => explained(&status.phase, None),
    }
}

/// Returns why a pod does not run yet: what the scheduler or the node says.
fn wait(status: &PodStatus, container: &str) -> String {
    let waiting = |one: &ContainerStatus| {
        let Explanation { reason, message } = one.state.waiting.as_ref()?;
        Some(explained(reason.as_deref()?, message.as_deref()))
    };
    let unscheduled =
        status.conditions.iter().find(|one| one.kind == "PodScheduled" && one.status == "False");
    let unscheduled = unscheduled
        .map(|one| explained(one.reason.as_deref().unwrap_or("Unscheduled"), one.message.as_deref()));
    let own = status.container_statuses.iter().find(|one| one.name == container).and_then(waiting);
    let init = status.init_container_statuses.iter().find_map(waiting);
    // Before the first containers have run, the container of the agent only waits for them.
    let own = own.filter(|reason| init.is_none() || reason != "PodInitializing");
    unscheduled.or(own).or(init).unwrap_or_else(|| match status.phase.is_empty() {
        true => "Pending".to_owned(),
        false => status.phase.clone(),
    })
}

fn explained(reason: &str, message: Option<&str>) -> String {
    let text = match message.map(str::trim).filter(|message| !message.is_empty()) {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    };
    shortened(&text)
}

/// Returns foreign text as the begin of one harmless line.
#[must_use]
pub fn shortened(text: &str) -> String {
    one_line(text).chars().take(MAX_EXPLANATION).collect()
}
