//! Looking into a worker, and handing its work over to another one.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OwnerRule;
use super::approvals::PendingApproval;
use super::workers::WorkerView;
use crate::bytes64::Bytes64;
use crate::definition::AgentSpec;
use crate::event::EventType;
use crate::hook::Hook;
use crate::ids::{EventId, SnapshotId, TurnId, WorkerId};
use crate::mcp::McpServers;
use crate::policy::PolicySpec;
use crate::time::Timestamp;

/// Data of `worker.inspected`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Inspected {
    /// The worker.
    pub worker: WorkerView,
    /// Its permission requests that nobody has decided, oldest first.
    pub pending_approvals: Vec<PendingApproval>,
    /// The snapshot that speaks up to the newest event.
    pub latest_handoff: Option<LatestHandoff>,
    /// The rules that it was started with; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// The rules that decisions became and that hold for it, in the order in which they were added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_rules: Vec<OwnerRule>,
    /// The definition that it was started with; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSpec>,
    /// The hooks that it was started with, in the order in which they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// The last events that the filters let through, in order.
    pub events: Vec<InspectedEvent>,
}

/// An event of `worker.inspected`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InspectedEvent {
    /// The public cursor.
    pub event_id: EventId,
    /// When it was written.
    pub ts: Timestamp,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The turn that it belongs to.
    pub turn_id: Option<TurnId>,
    /// Its facts.
    pub data: Value,
}

/// A snapshot that was made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LatestHandoff {
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// For the next worker.
    pub handoff_path: String,
    /// For programs.
    pub checkpoint_path: String,
    /// The newest event that it speaks of.
    pub up_to_event_id: EventId,
    /// When it was made.
    pub created_at: Timestamp,
}

/// `POST /v1/workers/{id}/handoffs`: writes down what a worker did, for another one to go on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateHandoff {
    /// Below which folder, absolute; the state dir's own without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub handoffs_dir: Option<PathBuf>,
    /// What git says of the worker's folder. The caller asks it: the daemon runs nothing in a worker's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceStatus>,
    /// What another agent says of the worker; at most 16 KiB. It is quoted in a section of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// What git says of a worker's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum WorkspaceStatus {
    /// It answered.
    Known {
        /// The commit that is checked out; none before the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<String>,
        /// What differs from it.
        changes: Vec<WorkspaceChange>,
        /// Whether there are more changes than these.
        #[serde(default)]
        truncated: bool,
    },
    /// It did not.
    Unknown {
        /// Why not, as part of a sentence.
        unknown: String,
    },
}

/// A path that differs from the last commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkspaceChange {
    /// The two letters of git's short status.
    pub status: String,
    /// Relative to the worker's folder if it is in it, else absolute.
    pub path: String,
}

/// Data of `worker.handoff.ready`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HandoffReady {
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// The worker that it is of.
    pub worker_id: WorkerId,
    /// For the next worker.
    pub handoff_path: String,
    /// For programs.
    pub checkpoint_path: String,
    /// The worker's last turn.
    pub source_turn_id: Option<TurnId>,
}

/// `POST /v1/workers/{id}/restart`: another runtime for a worker, on the same session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RestartWorker {
    /// Also when a turn is open; it is canceled.
    #[serde(default)]
    pub force: bool,
    /// The agent's whole environment, as in `worker start`: after `ENV_REQUIRED`. Only taken if the daemon has none, and
    /// no part of what the idempotency key stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<(Bytes64, Bytes64)>>,
    /// The agent's MCP servers, with `env`.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
}
