//! Workers: starting, showing and stopping them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::AnswerTime;
use super::controllers::ControllerChoice;
use super::questions::approvals::OpenQuestion;
use super::questions::inbox::InboxItem;
use super::queue::{ParkedView, QueueView};
use super::worktrees::{NewWorktree, WorktreeEnd, WorktreeView};
use crate::budget::Limits;
use crate::bytes64::Bytes64;
use crate::children::ChildSession;
use crate::data::workers::{PendingPlace, UnreachableState};
use crate::definition::AgentSpec;
use crate::delegation::DelegationSpec;
use crate::details::{AuthStatus, ConfigOption, Cost};
use crate::hook::Hook;
use crate::ids::{ControllerId, TurnId, WorkerId};
use crate::mcp::McpServers;
use crate::options::Options;
use crate::placement::{Placement, PlacementView};
use crate::policy::PolicySpec;
use crate::sandbox::{PreferredSandbox, Sandbox, SandboxSpec};
use crate::start::Timeouts;
use crate::state::{OnRateLimit, WorkerState};
use crate::tags::Tags;
use crate::time::Timestamp;

/// A launcher as the caller resolved it: the daemon never uses its own `PATH` or config.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LauncherSpec {
    /// Name in the config.
    pub name: String,
    /// The kind of backend; only `acp-stdio` can be run.
    pub backend_kind: String,
    /// Absolute path of the executable. In debug mode it may name a command that is not
    /// installed. A starting runtime then searches the PATH of `env` for it.
    pub program: String,
    /// The command as configured, for errors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// All arguments of the program.
    pub args: Vec<String>,
    /// Deadlines of its conversation.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The login method that the agent may run by itself when it requires a login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<String>,
    /// Whether the task server's tools are named `subagent_task` etc.: the agent does not prefix
    /// MCP tools, and may have its own `task`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefix_tools: bool,
}

/// `POST /v1/workers`: starts a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StartWorker {
    /// The controller of the worker.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// The launcher to run.
    pub launcher: LauncherSpec,
    /// A role as free text.
    pub role: String,
    /// Absolute working folder of the agent.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub cwd: PathBuf,
    /// Name, unique among workers that are not removed; if absent, the launcher's name with
    /// the smallest free number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A label for people.
    pub label: String,
    /// The agent's whole environment (cleaned already, including the launcher's variables).
    pub env: Vec<(Bytes64, Bytes64)>,
    /// The environment of its tasks, for a worker on another machine that delegates. Its own has
    /// nothing of this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_env: Vec<(Bytes64, Bytes64)>,
    /// The caller's file mode creation mask.
    pub umask: u32,
    /// The caller's soft limit of open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nofile: Option<u64>,
    /// Start no agent: the worker is idle at once. Its first message that is
    /// not simulated starts one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub debug_mode: bool,
    /// No command waits for the worker's turns (`run -d`), so their ends may cause notifications.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// MCP servers for the agent's sessions. Only their names are stored.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
    /// Absolute paths of further working folders of the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub additional_directories: Vec<PathBuf>,
    /// Options of the agent's session.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// A session of the agent to resume; the start fails if the agent cannot resume or
    /// does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// Time without an open turn after which the agent is ended until it is needed, in
    /// milliseconds; 0 or absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// What happens when a turn fails for a rate limit of the provider; absent: `park`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_rate_limit: Option<OnRateLimit>,
    /// Maximum number of queued messages for the worker; absent: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_limit: Option<u32>,
    /// Names with values, which select workers.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// What the agent may do without asking; if absent, every permission request
    /// waits for the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// Deadline of its questions; if absent, they wait until they are answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_time: Option<AnswerTime>,
    /// Limits of its usage.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub budget: Limits,
    /// The agent's definition, resolved by the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSpec>,
    /// Whether its agent may delegate to others; if absent, it may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation: Option<DelegationSpec>,
    /// Where to find the definition `title`, which labels the worker after its first
    /// message; absent: no label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub titles: Option<DelegationSpec>,
    /// Commands that run before and after its actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// Its git worktree; absent: it works in `cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<NewWorktree>,
    /// The worker whose git worktree, if any, now belongs to this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_of: Option<WorkerId>,
    /// What its agent may reach; absent: everything that the user may. The daemon chooses the
    /// layers that enforce it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxSpec>,
    /// The sandbox to apply without `sandbox`, if the machine can enforce it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_sandbox: Option<PreferredSandbox>,
    /// Where its runtimes are started; absent: beside the daemon. With another machine, `cwd` and
    /// the launcher's program are of that machine, and `env` is added to the environment there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

/// The default label of a worker.
pub const UNLABELED: &str = "worker";
/// The default label of a worker of `run`.
pub const UNLABELED_RUN: &str = "run";

/// A worker, as in `worker.started` and `worker.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Name, which can be used instead of the id.
    #[serde(default)]
    pub name: String,
    /// Controller of the worker.
    pub controller_id: ControllerId,
    /// Label of the worker.
    pub label: String,
    /// Name of its launcher.
    pub launcher: String,
    /// Role of the worker.
    pub role: String,
    /// State of the worker.
    pub state: WorkerState,
    /// Working folder of the worker.
    pub cwd: String,
    /// The agent's session, or a placeholder before there is one.
    pub session_id: String,
    /// The turn that is open.
    pub active_turn_id: Option<TurnId>,
    /// Pid of its runtime while that lives.
    pub runtime_pid: Option<i32>,
    /// Command socket of its runtime while that lives.
    pub runtime_socket: Option<String>,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of its last change.
    pub updated_at: Timestamp,
    /// Time of its stop.
    pub stopped_at: Option<Timestamp>,
    /// Deadline of its questions; absent: they wait until they are answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_time: Option<AnswerTime>,
    /// `restartable`, `handoff_available` or `lost`, as text.
    pub recovery_state: String,
    /// The last error, as `CODE: message`.
    pub last_error: Option<String>,
    /// Whether its runtime lives but does not respond.
    #[serde(default)]
    pub unresponsive: bool,
    /// Since when its place does not answer, and why; absent while it is reached. What the other
    /// fields say is the last that was heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<UnreachableState>,
    /// What its next runtime waits for in the queue of its placement's engine; absent: it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingPlace>,
    /// Time in milliseconds after which its idle agent is ended; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Why an idle agent was not ended as intended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernation: Option<String>,
    /// Whether its agent was ended because it was idle; it is restarted when needed. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hibernated: bool,
    /// Time since when it hibernates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernated_at: Option<Timestamp>,
    /// Until when nothing is sent to its agent, and why; absent: it is not parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<ParkedView>,
    /// What happens when a turn fails for a rate limit; absent: `park`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_rate_limit: Option<OnRateLimit>,
    /// Its open questions, oldest first; only in `worker.shown`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<OpenQuestion>,
    /// Open questions of the tasks below it, oldest first; only
    /// in `worker.shown` and `worker.inspected`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions_below: Vec<InboxItem>,
    /// The sessions below its agent's own that the agent reported, at most
    /// 100; only in `worker.shown`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_sessions: Vec<ChildSession>,
    /// Its tags; absent if there are none.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// Its queue; absent if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueView>,
    /// Whether it was started with rules; absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_policy: bool,
    /// Name of its definition at the start; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_definition: Option<String>,
    /// Whether its agent reports that it is not logged in; only
    /// in `worker.started` and `worker.shown`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub login_wanted: bool,
    /// Whether its agent may delegate to others; absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delegates: bool,
    /// Its git worktree; absent without one. Only in `worker.started` and `worker.shown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeView>,
    /// What its agent may reach, and what enforces it; absent: everything that the user may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// Why the sandbox of its built-in definition is not applied; absent: it has none, or it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_sandbox: Option<String>,
    /// The other machine where it runs; absent: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementView>,
}

/// Data of `worker.shown`: a worker, and the known facts about its agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerShown {
    /// The worker with its state.
    #[serde(flatten)]
    pub worker: WorkerView,
    /// Reported facts about its agent.
    pub agent: AgentView,
}

/// An agent, as far as it reports about itself. Unreported values are null.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// Name of the agent.
    pub name: Option<String>,
    /// Version of the agent.
    pub version: Option<String>,
    /// The agent's id of its model.
    pub model: Option<String>,
    /// The agent's id of its mode.
    pub mode: Option<String>,
    /// Config options of its session.
    pub config_options: Option<Vec<ConfigOption>>,
    /// The agent's title of its session.
    pub title: Option<String>,
    /// Number of tokens in its context.
    pub context_used: Option<u64>,
    /// Size of its context in tokens.
    pub context_size: Option<u64>,
    /// Cost of its session.
    pub cost: Option<Cost>,
    /// Tokens by name, as counted in the response to its last prompt.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub tokens: Option<serde_json::Value>,
    /// How it is logged in; absent if it does not report that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_status: Option<AuthStatus>,
    /// Time of the worker's last event.
    pub last_activity_at: Option<Timestamp>,
    /// Number of its runtimes after the first one.
    pub restarts: u64,
    /// Present memory of its processes in bytes, counting shared memory
    /// once. Null without processes.
    pub memory_bytes: Option<u64>,
}

/// `POST /v1/workers/{worker}/name`: renames a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RenameWorker {
    /// The new name: 1 to 64 letters, digits, `-`, `_` and `.`, unused in the state directory.
    pub name: String,
}

/// Data of the response `worker.renamed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerRenamed {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// The worker's new name.
    pub name: String,
    /// The worker's former name.
    pub previous: String,
}

/// Data of the response `worker.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerList {
    /// The workers, newest first.
    pub items: Vec<WorkerView>,
    /// Number of the workers.
    pub count: usize,
    /// The controller filter of the request.
    pub controller_id: Option<String>,
    /// The tag selector of the request; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

/// `POST /v1/workers/{worker}/stop`: ends the worker and every process of it.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StopWorker {
    /// Gives up a place that does not answer: what runs there may go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_host: bool,
}

/// Data of the response `worker.stopped`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerStopped {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Controller of the worker.
    pub controller_id: ControllerId,
    /// State, which is always `stopped`.
    pub state: WorkerState,
    /// Time of the stop.
    pub stopped_at: Timestamp,
    /// Time of its last change.
    pub updated_at: Timestamp,
    /// What happened to its git worktree; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeEnd>,
}

/// Data of the response `worker.logs`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkerLogs {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Path of the file.
    pub path: String,
    /// Its last bytes, with U+FFFD for invalid UTF-8.
    pub text: String,
    /// Whether the file is longer than this.
    pub truncated: bool,
}
