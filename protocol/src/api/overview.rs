//! What a person wants to know of a worker, in one answer.

use serde::{Deserialize, Serialize};

use super::tasks::TaskView;
use super::workers::WorkerShown;
use crate::work_tree::TreeBase;

/// Data of `worker.overview`: a worker, what it does now, and what its diff starts from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerOverview {
    /// The worker, as `worker.shown` has it.
    #[serde(flatten)]
    pub shown: WorkerShown,
    /// What the open turn is at; null without an open turn.
    pub doing: Option<Doing>,
    /// What the agent said last. Of a long text the beginning.
    pub last_message: Option<LastMessage>,
    /// What its diff starts from; null before its first turn.
    pub base: Option<TreeBase>,
    /// The folder with the base, absolute.
    pub base_folder: String,
    /// The tasks that it has given, the oldest first.
    pub tasks: Vec<TaskView>,
}

/// What an open turn is at. Only the worker's newest events are looked at for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Doing {
    /// The title of the tool call that was begun last and is not over.
    pub tool: Option<String>,
    /// The entry of the plan that is in progress.
    pub step: Option<String>,
    /// Entries of the plan that are completed.
    pub steps_completed: usize,
    /// Entries of the plan.
    pub steps: usize,
}

/// The text after the last tool call, or the text before it if nothing follows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LastMessage {
    /// The text.
    pub text: String,
    /// Whether it is longer.
    pub truncated: bool,
}
