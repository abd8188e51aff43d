//! The `data` of events about tasks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::{TaskMode, TaskStatus};
use crate::error::Error;
use crate::ids::{TurnId, WorkerId};

/// The task whose end a message reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ToldTask))]
#[serde(rename_all = "camelCase")]
pub struct EndedTask {
    /// Id of the task.
    pub subagent_id: WorkerId,
    /// Name of the task.
    pub name: String,
    /// Final status of the task.
    pub status: TaskStatus,
}

/// A task was submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubagentSpawned {
    /// Id of the task.
    pub id: WorkerId,
    /// Name of the task.
    pub name: String,
    /// The definition; null without one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub agent: Option<String>,
    /// The work in a few words.
    pub task: String,
    /// Whether the caller waits.
    pub mode: TaskMode,
    /// The parent's turn that submitted or resumed it; null for a manager's task.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub parent_turn_id: Option<TurnId>,
}

/// A prompt of a task has made another tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SubagentProgress {
    /// Id of the task.
    pub id: WorkerId,
    /// Name of the task.
    pub name: String,
    /// Number of the prompt's tool calls.
    pub steps: u64,
    /// Title or kind of the new call; null if both are absent.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub tool: Option<String>,
}

/// Another event of a task, in the stream of a worker above it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubagentEvent {
    /// The names from the root to the task.
    pub path: Vec<String>,
    /// Id of the task.
    pub worker_id: WorkerId,
    /// The definition; null without one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub agent: Option<String>,
    /// The event as in the task's own stream.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub event: Value,
}

/// A task ended with success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubagentCompleted {
    /// Id of the task.
    pub id: WorkerId,
    /// Name of the task.
    pub name: String,
    /// The beginning of its result.
    pub summary: String,
    /// The parent's turn that submitted or resumed it; null for a manager's task.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub parent_turn_id: Option<TurnId>,
}

/// A task ended with a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubagentFailed {
    /// Id of the task.
    pub id: WorkerId,
    /// Name of the task.
    pub name: String,
    /// Final status of the task.
    pub status: TaskStatus,
    /// The error; null if the status is sufficient.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub error: Option<Error>,
    /// The parent's turn that submitted or resumed it; null for a manager's task.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub parent_turn_id: Option<TurnId>,
}

/// A task was canceled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubagentCancelled {
    /// Id of the task.
    pub id: WorkerId,
    /// Name of the task.
    pub name: String,
    /// The reason, if known.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reason: Option<String>,
    /// The reason as an error with a code.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub error: Option<Error>,
    /// The parent's turn that submitted or resumed it; null for a manager's task.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub parent_turn_id: Option<TurnId>,
}
