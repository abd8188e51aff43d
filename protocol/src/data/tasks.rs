//! The `data` of events about tasks; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

use serde_json::Value;

use crate::api::{TaskMode, TaskStatus};
use crate::error::Error;
use crate::ids::{TurnId, WorkerId};

/// The task whose end a message reports.
#[derive(utoipa::ToSchema)]
#[schema(as = ToldTask)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndedTask {
    /// Id of the task.
    subagent_id: WorkerId,
    /// Name of the task.
    name: String,
    /// Final status of the task.
    status: TaskStatus,
}

/// A task was submitted.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubagentSpawned {
    /// Id of the task.
    id: WorkerId,
    /// Name of the task.
    name: String,
    /// The definition; null without one.
    #[schema(required)]
    agent: Option<String>,
    /// The work in a few words.
    task: String,
    /// Whether the caller waits.
    mode: TaskMode,
    /// The parent's turn that submitted or resumed it; null for a manager's task.
    #[schema(required)]
    parent_turn_id: Option<TurnId>,
}

/// A prompt of a task has made another tool call.
#[derive(utoipa::ToSchema)]
pub(super) struct SubagentProgress {
    /// Id of the task.
    id: WorkerId,
    /// Name of the task.
    name: String,
    /// Number of the prompt's tool calls.
    steps: u64,
    /// Title or kind of the new call; null if both are absent.
    #[schema(required)]
    tool: Option<String>,
}

/// Another event of a task, in the stream of a worker above it.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubagentEvent {
    /// The names from the root to the task.
    path: Vec<String>,
    /// Id of the task.
    worker_id: WorkerId,
    /// The definition; null without one.
    #[schema(required)]
    agent: Option<String>,
    /// The event as in the task's own stream.
    #[schema(value_type = Object)]
    event: Value,
}

/// A task ended with success.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubagentCompleted {
    /// Id of the task.
    id: WorkerId,
    /// Name of the task.
    name: String,
    /// The beginning of its result.
    summary: String,
    /// The parent's turn that submitted or resumed it; null for a manager's task.
    #[schema(required)]
    parent_turn_id: Option<TurnId>,
}

/// A task ended with a failure.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubagentFailed {
    /// Id of the task.
    id: WorkerId,
    /// Name of the task.
    name: String,
    /// Final status of the task.
    status: TaskStatus,
    /// The error; null if the status is sufficient.
    #[schema(required)]
    error: Option<Error>,
    /// The parent's turn that submitted or resumed it; null for a manager's task.
    #[schema(required)]
    parent_turn_id: Option<TurnId>,
}

/// A task was canceled.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubagentCancelled {
    /// Id of the task.
    id: WorkerId,
    /// Name of the task.
    name: String,
    /// The reason, if known.
    #[schema(required)]
    reason: Option<String>,
    /// The reason as an error with a code.
    #[schema(required)]
    error: Option<Error>,
    /// The parent's turn that submitted or resumed it; null for a manager's task.
    #[schema(required)]
    parent_turn_id: Option<TurnId>,
}
