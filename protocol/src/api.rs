//! Requests and responses of the HTTP API (`/v1` on the daemon's socket).
//!
//! Every response is an envelope: `{schemaVersion, ok: true, type, data}` or
//! `{schemaVersion, ok: false, type: "error", error}`. Followed events are NDJSON without an envelope.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bytes64::Bytes64;
use crate::error::Error;
use crate::event::{ApprovalOption, Event};
use crate::ids::{ControllerId, EventId, InstanceId, RequestId, TurnId, WorkerId};
use crate::process::ProcessId;
use crate::start::Timeouts;
use crate::state::{ApprovalStatus, WorkerState};
use crate::time::Timestamp;

/// Names of the HTTP headers that are not HTTP's own.
pub mod header {
    /// The client's protocol number, on every request; the daemon's on every response.
    pub const PROTOCOL: &str = "subagent-protocol";
    /// The key under which the result of a mutating request is kept.
    pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
    /// The owner handle: controller id.
    pub const CONTROLLER_ID: &str = "subagent-controller-id";
    /// The owner handle: epoch.
    pub const CONTROLLER_EPOCH: &str = "subagent-controller-epoch";
    /// The owner handle: token.
    pub const CONTROLLER_TOKEN: &str = "subagent-controller-token";
}

/// The envelope of every response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<T> {
    /// Always `v1`.
    pub schema_version: String,
    /// Whether the request was carried out.
    pub ok: bool,
    /// What `data` is; `error` for errors.
    #[serde(rename = "type")]
    pub kind: String,
    /// The result.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub data: Option<T>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

impl<T> Envelope<T> {
    /// The envelope of a result.
    pub fn success(kind: impl Into<String>, data: T) -> Self {
        Self { schema_version: "v1".to_owned(), ok: true, kind: kind.into(), data: Some(data), error: None }
    }

    /// The envelope of an error.
    #[must_use]
    pub fn failure(error: Error) -> Self {
        Self {
            schema_version: "v1".to_owned(),
            ok: false,
            kind: "error".to_owned(),
            data: None,
            error: Some(error),
        }
    }
}

/// Proof of ownership of a controller, as it comes in from the caller's environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Handle {
    /// The controller, unchecked text.
    pub controller_id: String,
    /// The epoch, unchecked text: what is no number is reported, not ignored.
    pub epoch: String,
    /// The secret.
    pub token: String,
}

// The token is a secret: it must not reach a log through a debug print.
impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({} epoch {})", self.controller_id, self.epoch)
    }
}

/// Which controller is meant: the first of these that is there.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerChoice {
    /// Named explicitly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_id: Option<String>,
    /// Found in the workspace's `controller.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hinted_controller_id: Option<String>,
    /// The workspace, whose controller is taken otherwise.
    pub workspace_key: String,
}

/// `POST /v1/controllers`: makes the caller the owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitController {
    /// Which one; without any, a new one is made.
    #[serde(flatten)]
    pub choice: ControllerChoice,
    /// Its label; an existing controller keeps its own without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The process whose life is the ownership's: the caller's session leader.
    pub owner: ProcessId,
}

/// Data of `controller.initialized`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerInitialized {
    /// The controller.
    pub controller_id: ControllerId,
    /// Its label.
    pub label: String,
    /// Its workspace.
    pub workspace_key: String,
    /// The new ownership.
    pub owner: OwnerGranted,
}

/// A new ownership, with the secret that is shown once.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerGranted {
    /// The controller.
    pub controller_id: ControllerId,
    /// The ownership.
    pub instance_id: InstanceId,
    /// Its epoch: 1, 2, 3, ...
    pub epoch: u64,
    /// The owner's process.
    pub pid: i32,
    /// Since when.
    pub created_at: Timestamp,
    /// The secret. Only its hash is stored.
    pub token: String,
}

impl std::fmt::Debug for OwnerGranted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnerGranted({} epoch {})", self.controller_id, self.epoch)
    }
}

/// Data of `controller.status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// The controller; null if there is none.
    pub controller_id: Option<ControllerId>,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its workspace.
    pub workspace_key: String,
    /// `active` with an owner, else `dormant`.
    pub state: String,
    /// The owner.
    pub active_owner: Option<OwnerView>,
    /// What the caller's handle is worth.
    pub env_handle: Value,
}

/// An owner, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerView {
    /// The ownership.
    pub instance_id: InstanceId,
    /// Its epoch.
    pub epoch: u64,
    /// The owner's process.
    pub pid: i32,
    /// Since when.
    pub created_at: Timestamp,
}

/// A launcher as the caller resolved it: the daemon never looks at its own `PATH` or config.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LauncherSpec {
    /// Its name in the config.
    pub name: String,
    /// The kind of backend; only `acp-stdio` can be run.
    pub backend_kind: String,
    /// The executable, absolute.
    pub program: String,
    /// All its arguments.
    pub args: Vec<String>,
    /// Deadlines.
    #[serde(default)]
    pub timeouts: Timeouts,
}

/// `POST /v1/workers`: starts a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
    pub cwd: PathBuf,
    /// A label for people.
    pub label: String,
    /// The agent's whole environment (already cleaned, the launcher's variables included).
    pub env: Vec<(Bytes64, Bytes64)>,
    /// The caller's file mode creation mask.
    pub umask: u32,
    /// The caller's soft limit of open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nofile: Option<u64>,
}

/// A worker, as `worker.started`, `worker.listed` and `worker.shown` have it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    /// The worker.
    pub worker_id: WorkerId,
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
    /// `restartable`, `handoff_available` or `lost`.
    pub recovery_state: String,
    /// The last error, as `CODE: message`.
    pub last_error: Option<String>,
    /// Whether its runtime does not answer although it lives.
    #[serde(default)]
    pub unresponsive: bool,
}

/// Data of `worker.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerList {
    /// Newest first.
    pub items: Vec<WorkerView>,
    /// How many.
    pub count: usize,
    /// The filter.
    pub controller_id: Option<String>,
}

/// `POST /v1/workers/{id}/turns`: sends a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendTurn {
    /// The text; a blank one sends only the blocks.
    pub text: String,
    /// Further content blocks of ACP.
    #[serde(default)]
    pub blocks: Vec<Value>,
}

/// Data of `turn.accepted`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnAccepted {
    /// The worker.
    pub worker_id: WorkerId,
    /// The new turn.
    pub turn_id: TurnId,
    /// The worker's state.
    pub state: WorkerState,
    /// The worker's last event at acceptance.
    pub event_id: EventId,
    /// The `message.sent` event: the cursor to wait from.
    pub accepted_event_id: EventId,
}

/// `POST /v1/workers/{id}/wait`: waits for an event.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitRequest {
    /// What for, in the words of `--until`; none is the default set.
    #[serde(default)]
    pub until: Option<String>,
    /// The cursor: only later events count. It wins over `include_history`.
    #[serde(default)]
    pub from_event_id: Option<String>,
    /// Without a cursor: from the beginning instead of from now.
    #[serde(default)]
    pub include_history: bool,
    /// How long, in seconds; 0 for ever.
    #[serde(default)]
    pub timeout_seconds: f64,
    /// How long without any event, in seconds; 0 for ever.
    #[serde(default)]
    pub no_progress_timeout_seconds: f64,
    /// Also collect the agent's text of this turn after the cursor.
    #[serde(default)]
    pub collect_turn: Option<TurnId>,
}

/// Data of a wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// The first event that matched.
    pub matched_event: Event,
    /// The worker's state now.
    pub state: WorkerState,
    /// The agent's text of the turn that was asked for, up to the match; null without any.
    pub assistant_text: Option<String>,
    /// Its last piece.
    pub last_assistant_chunk: Option<String>,
}

/// `POST /v1/workers/{id}/approvals/{requestId}`: decides. The first of option id, alias and decision counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decide {
    /// An option's alias or id, or a synonym of allow or deny.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Exactly this option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Exactly this alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// A note for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Data of `approval.decided`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecided {
    /// The worker.
    pub worker_id: WorkerId,
    /// The permission request.
    pub request_id: RequestId,
    /// The decision as it was given.
    pub decision: String,
    /// The option that it selected.
    pub option_id: String,
    /// The option's alias.
    pub alias: Option<String>,
    /// The worker's state now.
    pub state: WorkerState,
    /// The `approval.decided` event.
    pub event_id: EventId,
    /// `delivered`, `undelivered` or `pending` (not confirmed in time; it will be).
    pub delivery: String,
}

/// `POST /v1/workers/{id}/cancel`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelTurn {
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Data of `turn.canceled`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnCanceled {
    /// The worker.
    pub worker_id: WorkerId,
    /// Its state now.
    pub state: WorkerState,
    /// The event that ended the turn.
    pub event_id: EventId,
    /// The turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Whether the turn had ended before the cancel reached it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_terminal: bool,
    /// How it had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_event_type: Option<crate::event::EventType>,
}

/// Data of `worker.stopped`.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
}

/// A permission request, as `GET /v1/workers/{id}/approvals` lists the pending ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingApproval {
    /// The permission request.
    pub request_id: RequestId,
    /// The turn that asks.
    pub turn_id: Option<TurnId>,
    /// Always `tool.call`.
    pub kind: String,
    /// What for.
    pub message: String,
    /// The answers that are offered.
    pub options: Vec<ApprovalOption>,
    /// Its status.
    pub status: ApprovalStatus,
    /// Since when.
    pub created_at: Timestamp,
}

/// Data of `worker.logs`.
#[derive(Debug, Clone, Serialize, Deserialize)]
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

/// `POST /v1/daemon/stop`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopDaemon {
    /// Also stop all workers.
    #[serde(default)]
    pub workers: bool,
}

/// `GET /v1/daemon`, and what `daemon.json` holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonInfo {
    /// The newest protocol that it speaks.
    pub protocol: u32,
    /// The oldest protocol that it understands.
    pub oldest_protocol: u32,
    /// The version of its package.
    pub version: String,
    /// Its process.
    pub process: ProcessId,
    /// Raised at every start.
    pub generation: u64,
    /// Its socket.
    pub socket: PathBuf,
    /// Its state dir.
    pub state_dir: PathBuf,
    /// `foreground` or `background`.
    pub mode: String,
    /// Since when.
    pub started_at: Timestamp,
}
