//! Removal of archived tasks.

use serde::{Deserialize, Serialize};

use crate::api::tasks::TaskStatus;
use crate::ids::WorkerId;
use crate::time::Timestamp;

/// `POST /v1/prune/tasks`: removes archived tasks.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PruneTasks {
    /// Minimum time since archiving in seconds; 0: all archived tasks.
    pub older_than_seconds: u64,
    /// Only report what would be removed.
    pub dry_run: bool,
}

/// Data of the response `tasks.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PrunedTasks {
    /// Whether this only reports what would be removed.
    pub dry_run: bool,
    /// The requested minimum age in seconds.
    pub older_than_seconds: u64,
    /// The removed tasks, oldest first.
    pub items: Vec<PrunedTask>,
    /// Number of the tasks.
    pub count: usize,
    /// Number of their events.
    pub events: u64,
    /// Approximate size in bytes, including their files.
    pub bytes: u64,
    /// The archived tasks that are kept, with the reasons.
    pub kept: Vec<KeptTask>,
}

/// A task in `tasks.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PrunedTask {
    /// Id of the task.
    pub task_id: WorkerId,
    /// Name of the task.
    pub name: String,
    /// The names from the root to it.
    pub path: Vec<String>,
    /// How the task ended.
    pub status: TaskStatus,
    /// Time of its archiving.
    pub archived_at: Timestamp,
    /// Number of its events.
    pub events: u64,
    /// Approximate size in bytes, including its files.
    pub bytes: u64,
}

/// A task in `tasks.pruned` that is not removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KeptTask {
    /// Id of the task.
    pub task_id: WorkerId,
    /// Name of the task.
    pub name: String,
    /// Status of the task.
    pub status: TaskStatus,
    /// Why it is kept.
    pub reason: String,
    /// A command that ends it, if that is the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_command: Option<String>,
}
