//! Tasks: workers with one piece of work from another worker or a manager, with a name,
//! limits and an outcome.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::controllers::ControllerChoice;
use super::worktrees::{WorktreeChoice, WorktreeView};
use crate::bytes64::Bytes64;
use crate::children::ChildSession;
use crate::data::workers::UnreachableState;
use crate::details::Cost;
use crate::error::Error;
use crate::ids::{TurnId, WorkerId};
use crate::sandbox::FileSystem;
use crate::state::words;
use crate::time::Timestamp;
use crate::worktree::{bounded, is_zero};

/// The variable with the token of an agent's task server.
pub const TASK_TOKEN: &str = "SUBAGENT_TASK_TOKEN";
/// The name of the MCP server for an agent's tasks.
pub const TASK_SERVER: &str = "subagent";
/// Maximum length of a task's name, in characters.
pub const MAX_TASK_NAME_CHARS: usize = 64;

words! {
    /// The status of a task. The last six are final.
    TaskStatus {
        /// It waits for a free slot.
        Queued = "queued",
        /// Its agent is being started.
        Spawning = "spawning",
        /// A turn is open.
        Running = "running",
        /// A question of its agent waits for an answer.
        WaitingApproval = "waiting_approval",
        /// Its last turn completed.
        Completed = "completed",
        /// Its last turn failed, or its agent could not be started.
        Failed = "failed",
        /// The caller canceled the task.
        Cancelled = "cancelled",
        /// It used up its tool calls.
        MaxIterationsReached = "max_iterations_reached",
        /// It reached its time limit.
        TimedOut = "timed_out",
        /// Its runtime was lost during a turn.
        Lost = "lost",
    }
}

impl TaskStatus {
    /// Whether the status is final.
    #[must_use]
    pub const fn is_end(self) -> bool {
        !matches!(self, Self::Queued | Self::Spawning | Self::Running | Self::WaitingApproval)
    }
}

words! {
    /// Whether a caller waits for the result.
    TaskMode {
        /// Its caller waits, and it ends with the caller's turn.
        Foreground = "foreground",
        /// No caller waits: its end is a message to its parent.
        Background = "background",
    }
}

/// `POST /v1/tasks`: delegates a task to an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunTask {
    /// The definition; if absent, the parent's launcher, model and rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The work to do.
    pub prompt: String,
    /// The same in three to five words, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Name, unique among the parent's tasks that are not archived; if absent,
    /// made from the description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the caller waits; if absent, as in the definition, or foreground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TaskMode>,
    /// Arbitrary data of the caller.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Map<String, Value>,
    /// Restrictions beyond the definition.
    #[serde(default, skip_serializing_if = "TaskOverrides::is_empty")]
    pub overrides: TaskOverrides,
    /// Its git worktree; if absent, as in the definition, or for a manager's task as in the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeChoice>,
    /// For a manager's task: where and with what it runs. An agent's tasks use the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<Box<TaskPlace>>,
}

/// Restrictions of a definition in a call. Except for the prompt, they can only narrow it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TaskOverrides {
    /// Text appended to the definition's prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The only tools that are not denied, out of the definition's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools that are denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// A model instead of the definition's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Maximum number of tool calls per prompt, at most the definition's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Time limit of a prompt in milliseconds, at most the definition's; 0: no limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How it shares the workspace's files, within all other limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FileSystem>,
}

impl TaskOverrides {
    /// Whether there are no restrictions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where and with what a manager's task runs: the values that `worker start` takes from the shell.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskPlace {
    /// The controller of the task.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Absolute path of the workspace.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub workspace: PathBuf,
    /// Absolute working folder of the agent.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cwd: PathBuf,
    /// Absolute path of the config file; if absent, the one found from the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub config: Option<PathBuf>,
    /// Absolute path of the user's own config file, if `config` is a project's on top of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub user_config: Option<PathBuf>,
    /// Name of the sandbox; if absent, the launcher's or the config's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Name of the placement, or `local`; if absent, the launcher's or the config's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// The launcher for definitions without one; if absent, the config's default.
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
    /// Id of the task, which is also its worker's.
    pub task_id: WorkerId,
    /// Name of the task.
    pub name: String,
    /// The names from the root to it.
    pub path: Vec<String>,
    /// The definition; null without one.
    pub agent: Option<String>,
    /// The work in a few words.
    pub description: String,
    /// The prompt, in lists only its beginning.
    pub prompt: String,
    /// Whether its caller waits.
    pub mode: TaskMode,
    /// Status of the task.
    pub status: TaskStatus,
    /// Since when its place does not answer, and why; absent while it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<UnreachableState>,
    /// The parent worker; null for a manager's task.
    pub parent: Option<WorkerId>,
    /// The parent's turn that submitted or resumed it; null for a manager's task.
    pub parent_turn_id: Option<TurnId>,
    /// The worker at the top of the tree; null for a manager's task.
    pub root: Option<WorkerId>,
    /// Depth below the root, from 1.
    pub depth: u32,
    /// Name of its launcher.
    pub launcher: String,
    /// The model, if known.
    pub model: Option<String>,
    /// Distinct tool calls of the present or last prompt.
    pub steps: u64,
    /// Distinct tool calls of all prompts.
    pub tool_calls: u64,
    /// Its cost, if known.
    pub cost: Option<Cost>,
    /// Number of used tokens, if known.
    pub tokens: Option<u64>,
    /// Number of prompts: 1, and one more for each resume.
    pub runs: u64,
    /// Why the task failed, if it did.
    pub error: Option<Error>,
    /// Arbitrary data of the caller.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Map<String, Value>,
    /// When what happened to it.
    #[serde(flatten)]
    pub times: TaskTimes,
    /// The sessions below its agent's own that the agent reported, at most 100; only in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_sessions: Vec<ChildSession>,
}

/// When what happened to a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskTimes {
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of its newest event.
    pub updated_at: Timestamp,
    /// Start of its present or last run.
    pub started_at: Option<Timestamp>,
    /// Time of its end.
    pub completed_at: Option<Timestamp>,
    /// Time since when it is archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Timestamp>,
}

/// Data of `task.shown` and `task.waited`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskShown {
    /// The task in short.
    #[serde(flatten)]
    pub task: TaskView,
    /// The last complete message of its agent; null before its end.
    pub result: Option<String>,
    /// The JSON schema of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Value>,
    /// Maximum number of result tokens for the caller.
    pub result_max_tokens: u64,
    /// Its git worktree, with the content after its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeView>,
    /// The last merge of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<TaskMerge>,
    /// With `transcripts=true`: the messages of tasks below it that are not inspectable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transcripts: Vec<TaskTranscript>,
}

words! {
    /// The outcome of a merge of a task's files.
    MergeOutcome {
        /// The main work tree has all of them.
        Merged = "merged",
        /// Files that changed on both sides stay unchanged; the main work tree has all others.
        Conflict = "conflict",
        /// The merge failed. It can be repeated.
        Failed = "failed",
    }
}

/// The last merge of a task's files into the main work tree, in its present run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskMerge {
    /// How the merge ended.
    pub outcome: MergeOutcome,
    /// The files that are now as in the task's worktree, sorted by path: the first 100 of them.
    pub files: Vec<String>,
    /// Number of such files that `files` omits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_files: u64,
    /// Files that stay in the worktree: they changed on both sides, or an automatic merge leaves
    /// them out because they say what agents may do. The first 100 of them.
    pub refused: Vec<String>,
    /// Number of such files that `refused` omits.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_refused: u64,
    /// Why the merge failed; absent if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// When the merge ended.
    pub at: Timestamp,
}

impl TaskMerge {
    /// A merge that was carried out.
    #[must_use]
    pub fn of(files: Vec<String>, refused: Vec<String>, at: Timestamp) -> Self {
        let outcome = if refused.is_empty() { MergeOutcome::Merged } else { MergeOutcome::Conflict };
        let ((files, more_files), (refused, more_refused)) = (bounded(files), bounded(refused));
        Self { outcome, files, more_files, refused, more_refused, error: None, at }
    }

    /// A merge that failed.
    #[must_use]
    pub fn failed(error: Error, at: Timestamp) -> Self {
        let (files, refused) = (Vec::new(), Vec::new());
        let outcome = MergeOutcome::Failed;
        Self { outcome, files, more_files: 0, refused, more_refused: 0, error: Some(error), at }
    }
}

/// The messages to and from a task's agent, and its tool calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskTranscript {
    /// Id of the task.
    pub task_id: WorkerId,
    /// The names from the root to it.
    pub path: Vec<String>,
    /// The definition; null without one.
    pub agent: Option<String>,
    /// Status of the task.
    pub status: TaskStatus,
    /// `## NAME (AGENT, STATUS)`, followed by the messages, each line prefixed with `> `.
    pub text: String,
}

/// Data of the response `task.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskList {
    /// The tasks, oldest first.
    pub items: Vec<TaskView>,
    /// Number of the tasks.
    pub count: usize,
}

/// `POST /v1/tasks/{task}/wait`: waits for a task.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WaitTask {
    /// Time limit in milliseconds; absent: until it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Return as soon as status or steps differ from these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<KnownTask>,
}

/// A caller's last knowledge of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KnownTask {
    /// Status of the task.
    pub status: TaskStatus,
    /// Number of its tool calls.
    pub steps: u64,
}

/// `POST /v1/tasks/{task}/messages`: sends a message to a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MessageTask {
    /// Text of the message.
    pub message: String,
    /// Stop after this message; a queued task is canceled at once.
    #[serde(default)]
    pub cancel: bool,
    /// Continue without its earlier context, if its agent cannot restore that.
    #[serde(default)]
    pub allow_fresh: bool,
    /// Whether the caller waits for the result; if absent, as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TaskMode>,
}

words! {
    /// The effect of a message to a task.
    TaskMessage {
        /// Appended to the prompt of a task that has not started.
        Appended = "appended",
        /// It becomes the task's next turn.
        Queued = "queued",
        /// It becomes the task's last turn.
        Last = "last",
        /// The task continues after its end.
        Resumed = "resumed",
        /// A task that had not started was canceled.
        Cancelled = "cancelled",
        /// No effect: the task had ended.
        AlreadyEnded = "already_ended",
    }
}

/// Data of the response `task.messaged`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskMessaged {
    /// The task in short.
    #[serde(flatten)]
    pub task: TaskView,
    /// Effect of the message.
    pub message: TaskMessage,
}

/// `POST /v1/tasks/{task}/cancel`: cancels a task.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelTask {
    /// Reason for the cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An agent that the caller can delegate to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallableAgent {
    /// Name of the agent.
    pub name: String,
    /// When to delegate to it.
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
    /// Id of the calling worker.
    pub worker_id: WorkerId,
    /// The agents permitted by its rules, by name.
    pub agents: Vec<CallableAgent>,
}
