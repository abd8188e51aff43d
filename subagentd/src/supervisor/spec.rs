//! What is stored of how a worker is run: resolved once, at its start, and never looked up again.

use serde::{Deserialize, Serialize};
use subagent_protocol::api::{LauncherSpec, StartWorker};

/// The stored spec. Of the environment it holds the names only; the values are in [`super::environment`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) launcher: LauncherSpec,
    pub(super) umask: u32,
    pub(super) nofile: Option<u64>,
    pub(super) environment: Vec<String>,
}

impl Spec {
    pub(super) fn of(request: &StartWorker) -> Self {
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        Self {
            launcher: request.launcher.clone(),
            umask: request.umask,
            nofile: request.nofile,
            environment: request.env.iter().map(|(key, _)| name(&key.0)).collect(),
        }
    }
}
