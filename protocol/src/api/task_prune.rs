//! Removing tasks that were archived.

use serde::{Deserialize, Serialize};

use super::tasks::TaskStatus;
use crate::ids::WorkerId;
use crate::time::Timestamp;

/// `POST /v1/prune/tasks`.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct PruneTasks {
    /// Remove what was archived so long ago; 0: all that is archived.
    pub older_than_seconds: u64,
    /// Only say what would be removed.
    pub dry_run: bool,
}

/// Data of `tasks.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PrunedTasks {
    /// Whether this is only what would be removed.
    pub dry_run: bool,
    /// What was asked for.
    pub older_than_seconds: u64,
    /// The removed tasks, the oldest first.
    pub items: Vec<PrunedTask>,
    /// How many.
    pub count: usize,
    /// How many events they had.
    pub events: u64,
    /// About how many bytes, their files included.
    pub bytes: u64,
    /// The archived tasks that are kept, and why.
    pub kept: Vec<KeptTask>,
}

/// A task in `tasks.pruned`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PrunedTask {
    /// The task.
    pub task_id: WorkerId,
    /// Its name.
    pub name: String,
    /// The names from the root to it.
    pub path: Vec<String>,
    /// How it ended.
    pub status: TaskStatus,
    /// When it was archived.
    pub archived_at: Timestamp,
    /// How many events it had.
    pub events: u64,
    /// About how many bytes, its files included.
    pub bytes: u64,
}

/// A task in `tasks.pruned` that is not removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KeptTask {
    /// The task.
    pub task_id: WorkerId,
    /// Its name.
    pub name: String,
    /// How far it is.
    pub status: TaskStatus,
    /// Why it is kept.
    pub reason: String,
    /// What ends it, if that is what it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_command: Option<String>,
}
