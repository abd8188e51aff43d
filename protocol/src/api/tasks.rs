//! Tasks: workers that another worker, or a manager, has given one piece of work, with a name, limits and an outcome.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::controllers::ControllerChoice;
use super::worktrees::{WorktreeChoice, WorktreeView};
use crate::bytes64::Bytes64;
use crate::children::ChildSession;
use crate::details::Cost;
use crate::error::Error;
use crate::ids::{TurnId, WorkerId};
use crate::sandbox::FileSystem;
use crate::state::words;
use crate::time::Timestamp;

/// The variable with the token of a task server that was given to an agent.
pub const TASK_TOKEN: &str = "SUBAGENT_TASK_TOKEN";
/// The name of the MCP server that an agent is given for its tasks.
pub const TASK_SERVER: &str = "subagent";
/// The longest name of a task, in characters.
pub const MOST_TASK_NAME_CHARS: usize = 64;

words! {
    /// How far a task is. The last six are ends.
    TaskStatus {
        /// It waits for its place among those that run.
        Queued = "queued",
        /// Its agent is being started.
        Spawning = "spawning",
        /// A turn is open.
        Running = "running",
        /// Somebody has to answer a question of its agent.
        WaitingApproval = "waiting_approval",
        /// Its last turn ended well.
        Completed = "completed",
        /// Its last turn failed, or its agent could not be started.
        Failed = "failed",
        /// Somebody canceled it.
        Cancelled = "cancelled",
        /// It made as many tool calls as it may.
        MaxIterationsReached = "max_iterations_reached",
        /// It ran for as long as it may.
        TimedOut = "timed_out",
        /// Its runtime was lost in the middle.
        Lost = "lost",
    }
}

impl TaskStatus {
    /// Whether it is an end.
    #[must_use]
    pub const fn is_end(self) -> bool {
        !matches!(self, Self::Queued | Self::Spawning | Self::Running | Self::WaitingApproval)
    }
}

words! {
    /// Whether somebody waits for its result.
    TaskMode {
        /// Its caller does, and it ends with the turn that called.
        Foreground = "foreground",
        /// Nobody: its end is a message to its parent.
        Background = "background",
    }
}

/// `POST /v1/tasks`: gives a task to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunTask {
    /// The definition; without one it is the parent's launcher, model and rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What is to be done.
    pub prompt: String,
    /// The same in three to five words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its name, unique among the parent's tasks that are not archived; without one it is made of the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether somebody waits for it; without it the definition's, else foreground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TaskMode>,
    /// What the caller wants to find again.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Map<String, Value>,
    /// What is narrower than in the definition.
    #[serde(default, skip_serializing_if = "TaskOverrides::is_empty")]
    pub overrides: TaskOverrides,
    /// The git worktree that it gets; absent: as its definition says, and of a manager's task as the config says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeChoice>,
    /// Of a manager: where and with what it is run. An agent's tasks have that of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<Box<TaskPlace>>,
}

/// What a call may say beside the definition: all of it can only narrow, but for the prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TaskOverrides {
    /// Added to the definition's prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The only tools that are not denied, of those that the definition has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools that are denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// The model in place of the definition's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// So many tool calls a prompt may make, at most as many as the definition says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// So long a prompt may run in milliseconds, at most as long as the definition says; 0: no limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How it shares the files of the workspace, at most as much as everything else lets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FileSystem>,
}

impl TaskOverrides {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where and with what a manager's task is run: what `worker start` would take from the shell.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskPlace {
    /// Whose task it will be.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// The workspace, absolute.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub workspace: PathBuf,
    /// Where the agent works, absolute.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cwd: PathBuf,
    /// The config file, absolute; without it the one that is found from the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub config: Option<PathBuf>,
    /// The user's own config file, absolute, where `config` is that of a project over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub user_config: Option<PathBuf>,
    /// The sandbox, by its name; without it that of the launcher, else the config's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The launcher of an agent that names none; without it the config's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
    /// `--agents`: definitions, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<String>,
    /// The caller's whole environment.
    pub env: Vec<(Bytes64, Bytes64)>,
    /// The caller's file mode creation mask.
    pub umask: u32,
    /// The caller's soft limit of open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nofile: Option<u64>,
}

/// A task. Data of `task.spawned` and `task.shown`, and an item of `task.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// The task: its id is that of its worker.
    pub task_id: WorkerId,
    /// Its name.
    pub name: String,
    /// The names from the root to it.
    pub path: Vec<String>,
    /// The definition; null for one without.
    pub agent: Option<String>,
    /// What it is about, in a few words.
    pub description: String,
    /// What it was given to do: in a list its beginning.
    pub prompt: String,
    /// Whether somebody waits for it.
    pub mode: TaskMode,
    /// How far it is.
    pub status: TaskStatus,
    /// The worker whose task it is; null for a manager's.
    pub parent: Option<WorkerId>,
    /// The parent's turn that gave or resumed it; null if a manager did.
    pub parent_turn_id: Option<TurnId>,
    /// The worker at the top of the tree; null for a manager's.
    pub root: Option<WorkerId>,
    /// How far below the root, from 1.
    pub depth: u32,
    /// The name of its launcher.
    pub launcher: String,
    /// The model, as far as it is known.
    pub model: Option<String>,
    /// Distinct tool calls of the present or last prompt.
    pub steps: u64,
    /// Distinct tool calls of all of it.
    pub tool_calls: u64,
    /// What it has cost, as far as it is known.
    pub cost: Option<Cost>,
    /// The tokens that it has used, as far as they are known.
    pub tokens: Option<u64>,
    /// How many prompts it was given: 1, and one more for each time it was resumed.
    pub runs: u64,
    /// Why it failed.
    pub error: Option<Error>,
    /// What the caller gave along.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Map<String, Value>,
    /// Created.
    pub created_at: Timestamp,
    /// When it last changed: the time of its newest event.
    pub updated_at: Timestamp,
    /// When its present or last run began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// Since when it is kept, but hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Timestamp>,
    /// The sessions that its agent runs below its own, as far as it has told of them, at most 100; only lists have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_sessions: Vec<ChildSession>,
}

/// Data of `task.shown` and `task.waited`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskShown {
    /// The task.
    #[serde(flatten)]
    pub task: TaskView,
    /// The last message of its agent, whole; null before its end.
    pub result: Option<String>,
    /// What the result has to meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Value>,
    /// How many tokens of it its caller gets.
    pub result_max_tokens: u64,
    /// The git worktree that it works in, with what is in it after the end of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeView>,
    /// With `transcripts=true`: what was said in the tasks below it that are not inspectable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transcripts: Vec<TaskTranscript>,
}

/// What was said to the agent of a task and by it, and which tools it called.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskTranscript {
    /// The task.
    pub task_id: WorkerId,
    /// The names from the root to it.
    pub path: Vec<String>,
    /// The definition; null for one without.
    pub agent: Option<String>,
    /// How far it is.
    pub status: TaskStatus,
    /// `## NAME (AGENT, STATUS)`, and below that what was said, each line of it behind `> `.
    pub text: String,
}

/// Data of `task.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskList {
    /// The tasks, the oldest first.
    pub items: Vec<TaskView>,
    /// How many.
    pub count: usize,
}

/// `POST /v1/tasks/{task}/wait`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitTask {
    /// For so many milliseconds; absent: until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Return as soon as it is not as far any more as the caller knows: its status or its steps have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<KnownTask>,
}

/// What a caller knows of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KnownTask {
    /// How far it is.
    pub status: TaskStatus,
    /// Its tool calls.
    pub steps: u64,
}

/// `POST /v1/tasks/{task}/messages`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MessageTask {
    /// What it is told.
    pub message: String,
    /// Whether it is to stop after that; one that is queued is canceled at once.
    #[serde(default)]
    pub cancel: bool,
    /// Whether it may go on without what it knew, if its agent cannot restore that.
    #[serde(default)]
    pub allow_fresh: bool,
    /// Whether somebody waits for what comes of it; without it as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TaskMode>,
}

words! {
    /// What became of a message to a task.
    TaskMessage {
        /// It belongs to the prompt of a task that has not begun.
        Appended = "appended",
        /// It is the task's next turn.
        Queued = "queued",
        /// It is the task's last turn.
        Last = "last",
        /// The task goes on after its end.
        Resumed = "resumed",
        /// The task that had not begun is canceled.
        Cancelled = "cancelled",
        /// Nothing: the task had ended.
        AlreadyEnded = "already_ended",
    }
}

/// Data of `task.messaged`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskMessaged {
    /// The task.
    #[serde(flatten)]
    pub task: TaskView,
    /// What became of the message.
    pub message: TaskMessage,
}

/// `POST /v1/tasks/{task}/cancel`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelTask {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An agent that the caller may give tasks to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallableAgent {
    /// Its name.
    pub name: String,
    /// When to give it work.
    pub description: String,
    /// Whether it always runs in the background.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

/// Data of `task.agents`: `GET /v1/tasks/agents`, from below a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallableAgents {
    /// The caller.
    pub worker_id: WorkerId,
    /// Those that its rules let it call, by name.
    pub agents: Vec<CallableAgent>,
}
