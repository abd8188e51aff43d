//! What is stored of how a worker is run: resolved once, at its start, and never looked up again.

use serde::{Deserialize, Serialize};
use subagent_protocol::api::{LauncherSpec, StartWorker};
use subagent_protocol::start::Timeouts;

use crate::store::WorkerRow;

/// The stored spec. Of the environment it holds the names only; the values are in [`super::environment`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) launcher: LauncherSpec,
    pub(super) umask: u32,
    pub(super) nofile: Option<u64>,
    pub(super) environment: Vec<String>,
}

/// The times that the launcher of a worker sets.
pub(super) fn timeouts(row: &WorkerRow) -> Timeouts {
    // A worker whose spec cannot be read has no actor, and so nothing that could take time.
    serde_json::from_str::<Spec>(&row.spec)
        .map_or_else(|_| Timeouts::default(), |spec| spec.launcher.timeouts)
}

impl Spec {
    pub(super) fn of(request: &StartWorker) -> Self {
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        Self {
            launcher: request.launcher.clone(),
            umask: request.umask,
            nofile: request.nofile,
            environment: match subagent_failpoint::sabotaged("database.values") {
                false => request.env.iter().map(|(key, _)| name(&key.0)).collect(),
                true => request.env.iter().map(|(_, value)| name(&value.0)).collect(),
            },
        }
    }
}
