//! The `data` of events about tasks; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

use crate::api::{TaskMode, TaskStatus};
use crate::error::Error;
use crate::ids::WorkerId;

/// The task whose end a message tells.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToldTask {
    /// The task.
    subagent_id: WorkerId,
    /// Its name.
    name: String,
    /// What it has come to.
    status: TaskStatus,
}

/// A task was given.
#[derive(utoipa::ToSchema)]
pub(super) struct SubagentSpawned {
    /// The task.
    id: WorkerId,
    /// Its name.
    name: String,
    /// The definition; null for one without.
    #[schema(required)]
    agent: Option<String>,
    /// What it is about, in a few words.
    task: String,
    /// Whether somebody waits for it.
    mode: TaskMode,
}

/// A task ended well.
#[derive(utoipa::ToSchema)]
pub(super) struct SubagentCompleted {
    /// The task.
    id: WorkerId,
    /// Its name.
    name: String,
    /// The beginning of its result.
    summary: String,
}

/// A task failed.
#[derive(utoipa::ToSchema)]
pub(super) struct SubagentFailed {
    /// The task.
    id: WorkerId,
    /// Its name.
    name: String,
    /// What it has come to.
    status: TaskStatus,
    /// Why; null if its status says all.
    #[schema(required)]
    error: Option<Error>,
}

/// Somebody canceled a task.
#[derive(utoipa::ToSchema)]
pub(super) struct SubagentCancelled {
    /// The task.
    id: WorkerId,
    /// Its name.
    name: String,
    /// Why, if that is known.
    #[schema(required)]
    reason: Option<String>,
}
