//! Setting options of a worker's session.

use serde::{Deserialize, Serialize};

use crate::ids::WorkerId;
use crate::options::{Current, Options};
use crate::state::OnRateLimit;

/// `POST /v1/workers/{id}/options`: sets options of the worker's session, now and
/// for all later sessions.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SetOptions {
    /// The options to set; others stay unchanged.
    #[serde(flatten)]
    pub options: Options,
    /// Ids of config options that are left to the agent again, from its next start on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forget: Vec<String>,
    /// Time without an open turn after which the agent is ended until it is needed,
    /// in milliseconds; 0: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// What happens when a turn fails for a rate limit of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_rate_limit: Option<OnRateLimit>,
}

/// Data of the response `worker.set`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerSet {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Whether the agent has it now. If not, no agent runs, and the next one gets it at its start.
    pub applied: bool,
    /// All options set for this worker that still apply.
    pub chosen: Options,
    /// Time in milliseconds after which an idle agent is ended; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// What happens when a turn fails for a rate limit; absent: `park`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_rate_limit: Option<OnRateLimit>,
    /// The values that the agent reports now; null if no agent was asked.
    pub current: Option<Current>,
}
