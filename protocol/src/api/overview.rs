//! What a person wants to know of a worker, in one answer.

use serde::{Deserialize, Serialize};

use super::inbox::InboxItem;
use super::queue::QueueView;
use super::tasks::{TaskStatus, TaskView};
use super::usage::UsageSums;
use super::workers::WorkerShown;
use super::worktrees::WorktreeView;
use crate::budget::BudgetView;
use crate::ids::{ControllerId, EventId, TurnId, WorkerId};
use crate::state::WorkerState;
use crate::tags::Tags;
use crate::time::Timestamp;
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

/// Data of `overview.shown`: all workers at one moment. A view goes on with `GET /v1/events?from=CURSOR`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OverviewShown {
    /// The newest event of the moment: all up to it are in the items, and none after it.
    pub cursor: EventId,
    /// The clock of the daemon at the moment.
    pub at: Timestamp,
    /// The workers, the newest first.
    pub items: Vec<OverviewItem>,
    /// How many.
    pub count: usize,
}

/// A worker at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OverviewItem {
    /// Its id.
    pub worker_id: WorkerId,
    /// Its name.
    pub name: String,
    /// Its label.
    pub label: String,
    /// Its controller.
    pub controller_id: ControllerId,
    /// The name of its launcher.
    pub launcher: String,
    /// Its role.
    pub role: String,
    /// Its working folder.
    pub cwd: String,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// Its state.
    pub state: WorkerState,
    /// Since when.
    pub since: Timestamp,
    /// When its last event was written; null if no event is kept.
    pub last_event_at: Option<Timestamp>,
    /// The open turn.
    pub active_turn_id: Option<TurnId>,
    /// What the open turn is at; null without one.
    pub doing: Option<Doing>,
    /// Why it failed last.
    pub last_error: Option<String>,
    /// What it asks, the oldest first.
    pub questions: Vec<InboxItem>,
    /// What waits for it; null if nothing does.
    pub queue: Option<QueueView>,
    /// Its task; null for a worker that is not a task's.
    pub task: Option<TaskOfWorker>,
    /// What its own stored turns have used.
    pub usage: UsageSums,
    /// What it has used with the tasks below it, and may use.
    pub budget: BudgetView,
    /// Its git worktree; null without one.
    pub worktree: Option<WorktreeView>,
}

/// The task of a worker, and where it is in its tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskOfWorker {
    /// The name of the task.
    pub name: String,
    /// How far it is.
    pub status: TaskStatus,
    /// The worker whose task it is; null for a manager's.
    pub parent: Option<WorkerId>,
    /// The worker at the top of the tree; null for a manager's.
    pub root: Option<WorkerId>,
    /// How far below the root, from 1.
    pub depth: u32,
}
