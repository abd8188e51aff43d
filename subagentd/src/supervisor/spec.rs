//! What is stored of how a worker is run: resolved once, at its start, and never looked up again.

use serde::{Deserialize, Serialize};
use subagent_protocol::api::{LauncherSpec, StartWorker};
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::start::Timeouts;

use super::environment::Variables;
use crate::store::WorkerRow;

/// The stored spec. Of the environment it holds the names only; the values are in [`super::environment`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) launcher: LauncherSpec,
    pub(super) umask: u32,
    pub(super) nofile: Option<u64>,
    pub(super) environment: Vec<String>,
    /// The session that its first agent takes up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resume: Option<String>,
}

/// The times that the launcher of a worker sets.
pub(super) fn timeouts(row: &WorkerRow) -> Timeouts {
    // A worker whose spec cannot be read has no actor, and so nothing that could take time.
    serde_json::from_str::<Spec>(&row.spec)
        .map_or_else(|_| Timeouts::default(), |spec| spec.launcher.timeouts)
}

impl Spec {
    pub(super) fn of(request: &StartWorker) -> Self {
        Self {
            launcher: request.launcher.clone(),
            umask: request.umask,
            nofile: request.nofile,
            environment: names(&request.env),
            resume: request.resume.clone(),
        }
    }

    /// The same worker with another environment.
    pub(super) fn with_environment(&self, variables: &Variables) -> Self {
        Self { environment: names(variables), ..self.clone() }
    }
}

fn names(variables: &Variables) -> Vec<String> {
    let values = subagent_failpoint::sabotaged("database.values");
    let kept = |(name, value): &(Bytes64, Bytes64)| {
        String::from_utf8_lossy(if values { &value.0 } else { &name.0 }).into_owned()
    };
    variables.iter().map(kept).collect()
}
