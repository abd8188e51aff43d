//! Removal of workers, and retention.

use serde::{Deserialize, Serialize};

use crate::ids::{ControllerId, WorkerId};
use crate::time::Timestamp;

/// Default retention in days, for stopped workers, events of ended turns, and request keys.
pub const RETENTION_DAYS: u64 = 30;

/// `POST /v1/workers/{worker}/remove`: removes a worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemoveWorker {
    /// Stop it first if necessary.
    #[serde(default)]
    pub force: bool,
}

/// Data of the response `worker.removed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerRemoved {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Controller of the worker.
    pub controller_id: ControllerId,
    /// Time of its stop.
    pub stopped_at: Timestamp,
    /// Time of its removal.
    pub removed_at: Timestamp,
}

/// `POST /v1/prune`: removes old data.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Prune {
    /// Minimum age in seconds; absent: 30 days.
    #[serde(default = "default_age")]
    pub older_than_seconds: u64,
    /// Only report what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

const fn default_age() -> u64 {
    RETENTION_DAYS * 24 * 3600
}

/// Data of the response `state.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    /// Whether this only reports what would be removed.
    pub dry_run: bool,
    /// The requested minimum age in seconds.
    pub older_than_seconds: u64,
    /// The removed workers, newest first.
    pub items: Vec<PrunedWorker>,
    /// Number of the workers.
    pub count: usize,
    /// Number of their events.
    pub events: u64,
    /// Approximate size of workers and leftovers in bytes.
    pub bytes: u64,
    /// Number of deleted request keys.
    pub keys: u64,
    /// Files and folders of unknown workers, and data replaced by a restore.
    pub leftovers: Vec<String>,
}

/// A worker in `state.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PrunedWorker {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Controller of the worker.
    pub controller_id: ControllerId,
    /// Label of the worker.
    pub label: String,
    /// Time of its stop.
    pub stopped_at: Timestamp,
    /// Number of its events.
    pub events: u64,
    /// Approximate size in bytes, including its files.
    pub bytes: u64,
}
