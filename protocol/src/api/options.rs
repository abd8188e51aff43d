//! Setting options of a worker's session.

use serde::{Deserialize, Serialize};

use crate::ids::WorkerId;
use crate::options::{Current, Options};

/// `POST /v1/workers/{id}/options`: chooses options of the worker's session, now and for every session that follows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SetOptions {
    /// What is chosen; the rest stays as it is.
    #[serde(flatten)]
    pub options: Options,
    /// Config options that are the agent's own business again, by their ids, from its next start on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forget: Vec<String>,
    /// After so many milliseconds without an open turn the agent is ended, until it is needed again; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
}

/// Data of `worker.set`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerSet {
    /// The worker.
    pub worker_id: WorkerId,
    /// Whether the agent has it now. If not, no agent runs, and the next one is told when it starts.
    pub applied: bool,
    /// All that was ever chosen for this worker and counts.
    pub chosen: Options,
    /// After how long an idle agent is ended; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// What the agent says that is set now; null when none was asked.
    pub current: Option<Current>,
}
