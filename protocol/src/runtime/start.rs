//! The start parameters of a new runtime, sent by the daemon over standard input as one JSON
//! object. They contain the agent's environment and are therefore never put on a command line, into
//! a log or into the database.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bytes64::Bytes64;
use crate::definition::Instructions;
use crate::ids::WorkerId;
use crate::mcp::McpServers;
use crate::options::Options;
use crate::sandbox::Sandbox;

/// The descriptor on which a runtime inherits the locked `lock` file.
pub const LOCK_FD: i32 = 3;
/// The descriptor on which a runtime inherits the locked `guard.lock` file, for its guard.
pub const GUARD_LOCK_FD: i32 = 4;

/// The exit code of a runtime that cannot begin because a disk is full.
pub const STORAGE_FULL_EXIT: u8 = 28;

/// The start parameters of a runtime.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStart {
    /// Protocol version of the daemon.
    pub protocol: u32,
    /// The worker that it serves.
    pub worker_id: WorkerId,
    /// Counts the worker's runtimes: 1, 2, 3, ...
    pub incarnation: u64,
    /// The generation of the daemon that starts it.
    pub generation: u64,
    /// The worker's directory: journals and locks.
    pub directory: PathBuf,
    /// Path of its command socket.
    pub socket: PathBuf,
    /// The file to which the agent's stderr is appended.
    pub log: PathBuf,
    /// The number of the segment to begin.
    pub segment: u64,
    /// The number of the first record to write.
    pub first_record: u64,
    /// The last turn that an earlier runtime accepted, or 0.
    pub last_turn: u64,
    /// Id of the current boot, for the segment's first record.
    pub boot_id: String,
    /// Present in a container on the daemon's machine: the line with which a connection from outside
    /// of it must begin. Working folder, program and environment are resolved in the container.
    /// Another boot than `boot_id` is refused: only within one kernel, locks prove an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_token: Option<String>,
    /// How long the runtime works on while no daemon is connected, in milliseconds; absent: as long as
    /// it has work, and a day without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// A value that only processes of this runtime have in their environment (`SUBAGENT_MARKER`).
    pub marker: String,
    /// The agent to run.
    pub agent: AgentProgram,
    /// The session to restore.
    pub session: Option<String>,
    /// Whether the start fails if the session cannot be restored, instead of opening a new one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resume_only: bool,
    /// Outcomes of earlier starts that failed while restoring the session. After one
    /// failure, an agent that does not answer is asked for a new session in the same start. After
    /// more, it is asked for a new one at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restore_failures: Vec<String>,
    /// Deadlines of the conversation.
    pub timeouts: Timeouts,
    /// Size limits in bytes.
    pub limits: RuntimeLimits,
    /// Absolute folders that confine the agent's file requests and terminals; empty
    /// means its working directory.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// Folders that these must not access even within the roots: the state directory
    /// and the socket directory.
    #[serde(default)]
    pub private: Vec<PathBuf>,
    /// MCP servers for its sessions.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
    /// Whether the server [`crate::api::TASK_SERVER`] of these is completed on the other machine: its
    /// program is beside the runtime, its state dir in the worker's folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub task_server_there: bool,
    /// Further working folders of its sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<PathBuf>,
    /// Options of its session.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// How the user logs in to the agent.
    #[serde(default)]
    pub login: Login,
    /// The client requests that need the daemon's permission; absent for a worker
    /// without rules. Needs [`crate::frame::CLIENT_RULES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_rules: Option<ClientRules>,
    /// How to restart the daemon after its death; absent if this runtime must not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<DaemonStart>,
    /// What the definition of the agent adds; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Instructions>,
}

/// What a runtime needs to restart the daemon. The program is beside the runtime's own. The rest of
/// the environment is the runtime's, which is the daemon's without `SUBAGENT_*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStart {
    /// Absolute path of the state directory.
    pub state_dir: PathBuf,
    /// The daemon's variables that this runtime does not inherit (`SUBAGENT_*`), by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<(Bytes64, Bytes64)>,
    /// Whether to restart only a daemon that was awaited ([`crate::api::Announced`]): this worker
    /// alone has nothing that could be due.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub if_awaited: bool,
}

/// The client requests of the agent that need the daemon's permission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientRules {
    /// Reading a file needs permission.
    pub read: bool,
    /// Writing a file needs permission.
    pub edit: bool,
    /// Running a command needs permission.
    pub execute: bool,
    /// Absolute folders in which writing always needs permission.
    pub guarded: Vec<PathBuf>,
}

/// How the user logs in to an agent that requires it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Login {
    /// The launcher's name for `subagent launcher login`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
    /// The launcher's login method, which the agent may run by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// A program to run, and everything it inherits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentProgram {
    /// The executable, absolute or found in the `PATH` of `env`.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Absolute path of the working directory.
    pub cwd: PathBuf,
    /// The whole environment of the program.
    pub env: Vec<(Bytes64, Bytes64)>,
    /// Its file mode creation mask.
    pub umask: u32,
    /// Its soft limit of open files.
    pub nofile: Option<u64>,
    /// What it and its descendants may reach; absent: everything that the user may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Deadlines of a conversation, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// From the agent's start to its session.
    pub startup_ms: u64,
    /// From the agent's start to its response to `initialize`; absent: as long as the whole start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialize_ms: Option<u64>,
    /// One session request; absent: as long as the whole start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ms: Option<u64>,
    /// A turn; absent: no limit.
    pub turn_ms: Option<u64>,
    /// From `session/cancel` to the end of the turn, before the agent is killed.
    pub cancel_grace_ms: u64,
    /// For each step of an ordinary end (close, end of input, SIGTERM).
    pub stop_grace_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            startup_ms: 60_000,
            initialize_ms: None,
            session_ms: None,
            turn_ms: None,
            cancel_grace_ms: 10_000,
            stop_grace_ms: 2_000,
        }
    }
}

/// Size limits, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeLimits {
    /// Maximum length of an agent's line that is kept whole.
    pub max_line_bytes: u64,
    /// Size above which a segment is closed.
    pub segment_bytes: u64,
    /// The agent is not read while its journal on disk is larger.
    pub journal_quota_bytes: u64,
}

impl Default for RuntimeLimits {
    fn default() -> Self {
        Self {
            max_line_bytes: crate::MAX_LINE_BYTES as u64,
            segment_bytes: 16 * 1024 * 1024,
            journal_quota_bytes: 1024 * 1024 * 1024,
        }
    }
}
