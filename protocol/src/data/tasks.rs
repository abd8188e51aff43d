//! The `data` of events about tasks; only their schema is used.

#![allow(dead_code, reason = "only their schema is used")]

use serde_json::Value;

use crate::api::{TaskMode, TaskStatus};
use crate::error::Error;
use crate::ids::{TurnId, WorkerId};

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
#[serde(rename_all = "camelCase")]
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
    /// The parent's turn that gave or resumed it; null if a manager did.
    #[schema(required)]
    parent_turn_id: Option<TurnId>,
}

/// A prompt of a task has made another tool call.
#[derive(utoipa::ToSchema)]
pub(super) struct SubagentProgress {
    /// The task.
    id: WorkerId,
    /// Its name.
    name: String,
    /// How many tool calls the prompt has made.
    steps: u64,
    /// What the agent calls the new one, or its kind; null if it says neither.
    #[schema(required)]
    tool: Option<String>,
}

/// Another event of a task, in the stream of a worker above it.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubagentEvent {
    /// The names from the root to the task.
    path: Vec<String>,
    /// The task.
    worker_id: WorkerId,
    /// The definition; null for one without.
    #[schema(required)]
    agent: Option<String>,
    /// The event as it is in the stream of the task.
    #[schema(value_type = Object)]
    event: Value,
}

/// A task ended well.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubagentCompleted {
    /// The task.
    id: WorkerId,
    /// Its name.
    name: String,
    /// The beginning of its result.
    summary: String,
    /// The parent's turn that gave or resumed it; null if a manager did.
    #[schema(required)]
    parent_turn_id: Option<TurnId>,
}

/// A task failed.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
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
    /// The parent's turn that gave or resumed it; null if a manager did.
    #[schema(required)]
    parent_turn_id: Option<TurnId>,
}

/// Somebody canceled a task.
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubagentCancelled {
    /// The task.
    id: WorkerId,
    /// Its name.
    name: String,
    /// Why, if that is known.
    #[schema(required)]
    reason: Option<String>,
    /// The same with a code.
    #[schema(required)]
    error: Option<Error>,
    /// The parent's turn that gave or resumed it; null if a manager did.
    #[schema(required)]
    parent_turn_id: Option<TurnId>,
}
