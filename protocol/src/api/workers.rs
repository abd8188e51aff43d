//! Workers: starting, showing and stopping them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::AnswerTime;
use super::approvals::OpenQuestion;
use super::controllers::ControllerChoice;
use super::inbox::InboxItem;
use super::queue::QueueView;
use super::worktrees::{NewWorktree, WorktreeEnd, WorktreeView};
use crate::budget::Limits;
use crate::bytes64::Bytes64;
use crate::children::ChildSession;
use crate::definition::AgentSpec;
use crate::delegation::DelegationSpec;
use crate::details::{AuthStatus, ConfigOption, Cost};
use crate::hook::Hook;
use crate::ids::{ControllerId, TurnId, WorkerId};
use crate::mcp::McpServers;
use crate::options::Options;
use crate::policy::PolicySpec;
use crate::sandbox::{Sandbox, SandboxSpec};
use crate::start::Timeouts;
use crate::state::WorkerState;
use crate::tags::Tags;
use crate::time::Timestamp;

/// A launcher as the caller resolved it: the daemon never looks at its own `PATH` or config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LauncherSpec {
    /// Its name in the config.
    pub name: String,
    /// The kind of backend; only `acp-stdio` can be run.
    pub backend_kind: String,
    /// The executable, absolute. In debug mode also the word of a command that is not installed: it is looked up, in
    /// the PATH of `env`, when a runtime is started.
    pub program: String,
    /// The command as configured, for errors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// All its arguments.
    pub args: Vec<String>,
    /// Deadlines.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The way to log in that the agent is asked to go by itself when it wants a login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<String>,
    /// Whether the tools of the server for tasks are named `subagent_task` and so on: the agent gives the tools of MCP
    /// servers no prefix, and may have a `task` of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_tools: bool,
}

/// `POST /v1/workers`: starts a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StartWorker {
    /// Whose worker it will be.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// What to run.
    pub launcher: LauncherSpec,
    /// A free-form role.
    pub role: String,
    /// Where the agent works, absolute.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cwd: PathBuf,
    /// What it is called, unique among the workers that are not removed; absent: the name of its launcher with the
    /// smallest free number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A label for people.
    pub label: String,
    /// The agent's whole environment (already cleaned, the launcher's variables included).
    pub env: Vec<(Bytes64, Bytes64)>,
    /// The caller's file mode creation mask.
    pub umask: u32,
    /// The caller's soft limit of open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nofile: Option<u64>,
    /// Start no agent: the worker is idle at once. Its first message that is not simulated starts one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub debug_mode: bool,
    /// No command waits for the worker's turns (`run -d`), so their ends are worth a notification.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// MCP servers for the agent's sessions. Only their names are stored.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
    /// Folders that the agent may also work in, absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub additional_directories: Vec<PathBuf>,
    /// What is chosen of the agent's session.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// A session of the agent to take up; the start fails if the agent cannot or does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// After so many milliseconds without an open turn the agent is ended, until it is needed again; 0 or absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// So many messages may wait for the worker; absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_limit: Option<u32>,
    /// Names with values, by which workers are chosen.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// What the agent may do without asking; without it, every permission request waits for the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// How long its questions wait; without it, until they are answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_time: Option<AnswerTime>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub budget: Limits,
    /// The definition of the agent, resolved by the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSpec>,
    /// Whether its agent may give tasks to others; without it it may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation: Option<DelegationSpec>,
    /// Where the definition `title` is looked for, which labels the worker after its first message; absent: nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub titles: Option<DelegationSpec>,
    /// Commands that run before and after what it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// The git worktree in which it works; absent: it works in `cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<NewWorktree>,
    /// The worker whose git worktree, if it has one, is this worker's from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_of: Option<WorkerId>,
    /// What its agent may reach; absent: all that the user may. The daemon chooses the layers that enforce it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxSpec>,
}

/// The label of a worker that was given none.
pub const UNLABELED: &str = "worker";
/// The same for a worker of `run`.
pub const UNLABELED_RUN: &str = "run";

/// A worker, as `worker.started` and `worker.listed` have it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    /// The worker.
    pub worker_id: WorkerId,
    /// What it is called; it can be addressed by it.
    #[serde(default)]
    pub name: String,
    /// Its controller.
    pub controller_id: ControllerId,
    /// Its label.
    pub label: String,
    /// The name of its launcher.
    pub launcher: String,
    /// Its role.
    pub role: String,
    /// What it is doing.
    pub state: WorkerState,
    /// Where it works.
    pub cwd: String,
    /// The agent's session, or a placeholder before there is one.
    pub session_id: String,
    /// The open turn.
    pub active_turn_id: Option<TurnId>,
    /// The pid of its runtime while that lives.
    pub runtime_pid: Option<i32>,
    /// The command socket of its runtime while that lives.
    pub runtime_socket: Option<String>,
    /// Created.
    pub created_at: Timestamp,
    /// Last changed.
    pub updated_at: Timestamp,
    /// Stopped.
    pub stopped_at: Option<Timestamp>,
    /// How long its questions wait; absent if until they are answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_time: Option<AnswerTime>,
    /// `restartable`, `handoff_available` or `lost`.
    pub recovery_state: String,
    /// The last error, as `CODE: message`.
    pub last_error: Option<String>,
    /// Whether its runtime does not answer although it lives.
    #[serde(default)]
    pub unresponsive: bool,
    /// After how long its idle agent is ended; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Why an idle agent is not ended although it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernation: Option<String>,
    /// Whether its agent was ended because it was idle; it is started again when it is needed. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hibernated: bool,
    /// Since when it hibernates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernated_at: Option<Timestamp>,
    /// The questions that are open, oldest first; only `worker.shown` has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<OpenQuestion>,
    /// The open questions of the tasks below it, oldest first; only `worker.shown` and `worker.inspected` have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions_below: Vec<InboxItem>,
    /// The sessions that its agent runs below its own, as far as it has told of them, at most 100; only `worker.shown`
    /// has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_sessions: Vec<ChildSession>,
    /// Its tags; absent when there are none.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// The messages that wait for it; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueView>,
    /// Whether it was started with rules; absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_policy: bool,
    /// The name of the definition that it was started with; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_definition: Option<String>,
    /// Whether its agent reports that it is not logged in; only `worker.started` and `worker.shown` say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub login_wanted: bool,
    /// Whether its agent may give tasks to others; absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delegates: bool,
    /// Its git worktree; absent when it has none. Only `worker.started` and `worker.shown` have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeView>,
    /// What its agent may reach, and what enforces it; absent: all that the user may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Data of `worker.shown`: a worker, and what is known of its agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerShown {
    /// The worker.
    #[serde(flatten)]
    pub worker: WorkerView,
    /// Its agent.
    pub agent: AgentView,
}

/// An agent, as far as it reports of itself. What it does not report is null.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The model that it uses, by the agent's id.
    pub model: Option<String>,
    /// The mode that it is in, by the agent's id.
    pub mode: Option<String>,
    /// The options of its session.
    pub config_options: Option<Vec<ConfigOption>>,
    /// What it calls its session.
    pub title: Option<String>,
    /// Tokens in its context.
    pub context_used: Option<u64>,
    /// Tokens that fit into its context.
    pub context_size: Option<u64>,
    /// What its session has cost.
    pub cost: Option<Cost>,
    /// Tokens by name, as the answer to its last prompt counted them.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub tokens: Option<serde_json::Value>,
    /// How it is logged in; absent when it does not report that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_status: Option<AuthStatus>,
    /// When the worker's last event was written.
    pub last_activity_at: Option<Timestamp>,
    /// How many runtimes it has had after the first one.
    pub restarts: u64,
    /// The memory of its processes now, in bytes: what they share is counted once. Null when there are none.
    pub memory_bytes: Option<u64>,
}

/// `POST /v1/workers/{worker}/name`: gives a worker another name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RenameWorker {
    /// The new name: 1 to 64 letters, digits, `-`, `_` and `.`, free in the state dir.
    pub name: String,
}

/// Data of `worker.renamed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerRenamed {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its name now.
    pub name: String,
    /// Its name before.
    pub previous: String,
}

/// Data of `worker.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerList {
    /// Newest first.
    pub items: Vec<WorkerView>,
    /// How many.
    pub count: usize,
    /// The filter.
    pub controller_id: Option<String>,
    /// The other filter: a selector on tags; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

/// Data of `worker.stopped`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerStopped {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its controller.
    pub controller_id: ControllerId,
    /// Always `stopped`.
    pub state: WorkerState,
    /// When.
    pub stopped_at: Timestamp,
    /// Last changed.
    pub updated_at: Timestamp,
    /// What has become of its git worktree; absent when it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeEnd>,
}

/// Data of `worker.logs`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerLogs {
    /// The worker.
    pub worker_id: WorkerId,
    /// The file.
    pub path: String,
    /// Its last bytes, with U+FFFD for what is not UTF-8.
    pub text: String,
    /// Whether the file is longer than what is shown.
    pub truncated: bool,
}
