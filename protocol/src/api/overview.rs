//! The state of workers for people, in one response.

use serde::{Deserialize, Serialize};

use super::automation::schedules::SchedulePaused;
use super::automation::triggers::TriggerPaused;
use super::questions::inbox::InboxItem;
use super::queue::{ParkedView, QueueView};
use super::tasks::{TaskStatus, TaskView};
use super::usage::UsageSums;
use super::workers::WorkerShown;
use super::worktrees::WorktreeView;
use crate::budget::BudgetView;
use crate::data::workers::UnreachableState;
use crate::ids::{ControllerId, EventId, TurnId, WorkerId};
use crate::state::WorkerState;
use crate::tags::Tags;
use crate::time::Timestamp;
use crate::work_tree::TreeBase;

/// Data of `worker.overview`: a worker, its present activity, and the base of its diff.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerOverview {
    /// The worker, as in `worker.shown`.
    #[serde(flatten)]
    pub shown: WorkerShown,
    /// Activity of the open turn; null without one.
    pub doing: Option<Doing>,
    /// The agent's last message, or the beginning of a long one.
    pub last_message: Option<LastMessage>,
    /// The base of its diff; null before its first turn.
    pub base: Option<TreeBase>,
    /// Absolute path of the folder with the base.
    pub base_folder: String,
    /// The tasks it has submitted, oldest first.
    pub tasks: Vec<TaskView>,
}

/// Activity of an open turn. Only the worker's newest events are considered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Doing {
    /// Title of the latest tool call that has not ended.
    pub tool: Option<String>,
    /// The plan entry in progress.
    pub step: Option<String>,
    /// Number of completed plan entries.
    pub steps_completed: usize,
    /// Number of plan entries.
    pub steps: usize,
    /// Paths of the files that the turn edits or has edited, as the agent names them; at most 50.
    #[serde(default)]
    pub editing: Vec<String>,
}

/// The text after the last tool call, or the text before it if nothing follows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LastMessage {
    /// The text of the message.
    pub text: String,
    /// Whether the message is longer.
    pub truncated: bool,
}

/// Data of `overview.shown`: all workers at one moment. A view
/// continues with `GET /v1/events?from=CURSOR`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OverviewShown {
    /// The newest event of that moment: the items include all events up to it and none after it.
    pub cursor: EventId,
    /// The daemon's clock at that moment.
    pub at: Timestamp,
    /// The workers, newest first.
    pub items: Vec<OverviewItem>,
    /// Number of the workers.
    pub count: usize,
    /// Schedules that no longer fire, except those that a user paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused_schedules: Vec<SchedulePaused>,
    /// The same of triggers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paused_triggers: Vec<TriggerPaused>,
}

/// A worker at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OverviewItem {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Name of the worker.
    pub name: String,
    /// Label of the worker.
    pub label: String,
    /// Controller of the worker.
    pub controller_id: ControllerId,
    /// Name of its launcher.
    pub launcher: String,
    /// Role of the worker.
    pub role: String,
    /// Working folder of the worker.
    pub cwd: String,
    /// Tags of the worker.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// State of the worker.
    pub state: WorkerState,
    /// Time of the last state change.
    pub since: Timestamp,
    /// Time of its last event; null if no event is kept.
    pub last_event_at: Option<Timestamp>,
    /// The turn that is open.
    pub active_turn_id: Option<TurnId>,
    /// Activity of the open turn; null without one.
    pub doing: Option<Doing>,
    /// Reason of its last failure.
    pub last_error: Option<String>,
    /// Its open questions, oldest first.
    pub questions: Vec<InboxItem>,
    /// Its queue; null if it is empty.
    pub queue: Option<QueueView>,
    /// Until when nothing is sent to its agent, and why; absent: it is not parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<ParkedView>,
    /// Since when its place does not answer, and why; absent while it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<UnreachableState>,
    /// Its task; null for a worker without one.
    pub task: Option<TaskOfWorker>,
    /// Usage of its own stored turns.
    pub usage: UsageSums,
    /// Usage and limits, including the tasks below it.
    pub budget: BudgetView,
    /// Its git worktree; null without one.
    pub worktree: Option<WorktreeView>,
}

/// A worker's task and its position in the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskOfWorker {
    /// Name of the task.
    pub name: String,
    /// Status of the task.
    pub status: TaskStatus,
    /// The parent worker; null for a manager's task.
    pub parent: Option<WorkerId>,
    /// The worker at the top of the tree; null for a manager's task.
    pub root: Option<WorkerId>,
    /// Depth below the root, from 1.
    pub depth: u32,
}
