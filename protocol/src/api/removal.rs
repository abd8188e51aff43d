//! Removing workers, and what is kept of them.

use serde::{Deserialize, Serialize};

use crate::ids::{ControllerId, WorkerId};
use crate::time::Timestamp;

/// How long a stopped worker, the events of a turn that has ended, and the key of a request are kept, unless said
/// otherwise, in days.
pub const RETENTION_DAYS: u64 = 30;

/// `POST /v1/workers/{worker}/remove`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemoveWorker {
    /// Stop it first if it is not stopped.
    #[serde(default)]
    pub force: bool,
}

/// Data of `worker.removed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerRemoved {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its controller.
    pub controller_id: ControllerId,
    /// When it was stopped.
    pub stopped_at: Timestamp,
    /// When it was removed.
    pub removed_at: Timestamp,
}

/// `POST /v1/prune`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Prune {
    /// Remove what is older; absent: 30 days.
    #[serde(default = "default_age")]
    pub older_than_seconds: u64,
    /// Only say what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

const fn default_age() -> u64 {
    RETENTION_DAYS * 24 * 3600
}

/// Data of `state.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    /// Whether this is only what would be removed.
    pub dry_run: bool,
    /// What was asked for.
    pub older_than_seconds: u64,
    /// The removed workers, newest first.
    pub items: Vec<PrunedWorker>,
    /// How many.
    pub count: usize,
    /// How many events they had.
    pub events: u64,
    /// About how many bytes the workers and the leftovers had.
    pub bytes: u64,
    /// How many keys of requests were forgotten.
    pub keys: u64,
    /// Files and folders of workers that nobody knows, and what a restore has put aside.
    pub leftovers: Vec<String>,
}

/// A worker in `state.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PrunedWorker {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its controller.
    pub controller_id: ControllerId,
    /// Its label.
    pub label: String,
    /// When it was stopped.
    pub stopped_at: Timestamp,
    /// How many events it had.
    pub events: u64,
    /// About how many bytes, its files included.
    pub bytes: u64,
}
