//! What the daemon hands to a new runtime over its standard input, once, as one JSON object.
//!
//! It holds the environment of the agent and so is never put on a command line, into a log or into the database.

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

/// Everything that a runtime must know.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStart {
    /// The protocol of the daemon.
    pub protocol: u32,
    /// Whose runtime this is.
    pub worker_id: WorkerId,
    /// Which one of the worker's runtimes: 1, 2, 3, ...
    pub incarnation: u64,
    /// The generation of the daemon that starts it.
    pub generation: u64,
    /// The worker's directory: journals and locks.
    pub directory: PathBuf,
    /// Where to listen for commands.
    pub socket: PathBuf,
    /// Where the agent's standard error goes (appended).
    pub log: PathBuf,
    /// The number of the segment to begin.
    pub segment: u64,
    /// The number of the first record to write.
    pub first_record: u64,
    /// The last turn that an earlier runtime took, 0 for none.
    pub last_turn: u64,
    /// This boot, for the segment's first record.
    pub boot_id: String,
    /// A value that only processes of this runtime have in their environment (`SUBAGENT_MARKER`).
    pub marker: String,
    /// The agent to run.
    pub agent: AgentCommand,
    /// The session to restore.
    pub session: Option<String>,
    /// Whether the start fails when it cannot be restored, instead of going on with a new one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resume_only: bool,
    /// What the last starts came to that failed while they restored it. After one, an agent that does not answer is
    /// asked for a new session in the same start; after more, it is asked for a new one at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restore_failures: Vec<String>,
    /// Deadlines.
    pub timeouts: Timeouts,
    /// Limits.
    pub limits: Limits,
    /// The folders that the agent's file requests and terminals stay within, absolute; none means its working directory.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// Folders that are closed to those also inside the roots: the state dir, and the one with the sockets.
    #[serde(default)]
    pub private: Vec<PathBuf>,
    /// MCP servers for its sessions.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
    /// Folders that its sessions may also work in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_directories: Vec<PathBuf>,
    /// What of the session was chosen.
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    /// How somebody logs in to the agent.
    #[serde(default)]
    pub login: Login,
    /// What of the requests for files and terminals the daemon is asked about; absent of a worker without rules. Needs
    /// [`crate::frame::CLIENT_RULES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_rules: Option<ClientRules>,
    /// How to start the daemon again after it died; absent if this runtime must not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<DaemonStart>,
    /// What the definition of the agent adds; none of a worker without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Instructions>,
}

/// What a runtime needs to start the daemon again. The program lies beside the runtime's own; the rest of the environment
/// is that of the runtime, which is the daemon's without its own settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStart {
    /// The state dir, absolute.
    pub state_dir: PathBuf,
    /// The daemon's settings (`SUBAGENT_*`), by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<(Bytes64, Bytes64)>,
}

/// Which of the agent's requests to its client are done only when the daemon allows them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientRules {
    /// To read a file.
    pub read: bool,
    /// To write one.
    pub edit: bool,
    /// To run a command.
    pub execute: bool,
    /// Folders, absolute, in which files are written only then, whatever `edit` says.
    pub guarded: Vec<PathBuf>,
}

/// How somebody logs in to an agent that wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Login {
    /// The launcher's name: what to say to `subagent launcher login`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
    /// The way that the launcher names, which the agent is asked to go by itself when it wants a login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// A program to run and all that it inherits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCommand {
    /// The executable, absolute or found in the `PATH` of `env`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: Vec<(Bytes64, Bytes64)>,
    /// Its file mode creation mask.
    pub umask: u32,
    /// Its soft limit of open files.
    pub nofile: Option<u64>,
    /// What it and everything below it may reach; absent: all that the user may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Deadlines, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// From the agent's start to its session.
    pub startup_ms: u64,
    /// From the agent's start to its answer to `initialize`; none means as long as the whole start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialize_ms: Option<u64>,
    /// One request for a session; none means as long as the whole start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_ms: Option<u64>,
    /// A turn; none means that it may take for ever.
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

/// Limits, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// The longest line of the agent that is kept whole.
    pub max_line_bytes: u64,
    /// A segment is closed when it is longer.
    pub segment_bytes: u64,
    /// The agent is not read while its journal on disk is longer.
    pub journal_quota_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_line_bytes: crate::MAX_LINE_BYTES as u64,
            segment_bytes: 16 * 1024 * 1024,
            journal_quota_bytes: 1024 * 1024 * 1024,
        }
    }
}
