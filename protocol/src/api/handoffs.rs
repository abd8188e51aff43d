//! Inspecting a worker, and handing its work to another one.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OwnerRule;
use super::questions::approvals::PendingApproval;
use super::workers::WorkerView;
use crate::bytes64::Bytes64;
use crate::definition::AgentSpec;
use crate::event::EventType;
use crate::hook::Hook;
use crate::ids::{EventId, SnapshotId, TurnId, WorkerId};
use crate::mcp::McpServers;
use crate::policy::PolicySpec;
use crate::time::Timestamp;

/// Data of the response `worker.inspected`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Inspected {
    /// The worker with its state.
    pub worker: WorkerView,
    /// Its undecided permission requests, oldest first.
    pub pending_approvals: Vec<PendingApproval>,
    /// The snapshot that covers the newest event.
    pub latest_handoff: Option<LatestHandoff>,
    /// The rules of its start; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// Rules created from decisions that apply to it, in order of creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_rules: Vec<OwnerRule>,
    /// The definition of its start; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentSpec>,
    /// The hooks of its start, in execution order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
    /// The last events that match the filters, in order.
    pub events: Vec<InspectedEvent>,
}

/// An event of `worker.inspected`, without raw data.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InspectedEvent {
    /// The id, which is also a cursor.
    pub event_id: EventId,
    /// Time when it was written.
    pub ts: Timestamp,
    /// Type of the event.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The turn that it belongs to.
    pub turn_id: Option<TurnId>,
    /// Data of the event.
    pub data: Value,
}

/// A snapshot that was created.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LatestHandoff {
    /// Id of the snapshot.
    pub snapshot_id: SnapshotId,
    /// Path of the document for the next worker.
    pub handoff_path: String,
    /// Path of the file for programs.
    pub checkpoint_path: String,
    /// The newest event it covers.
    pub up_to_event_id: EventId,
    /// Time of its creation.
    pub created_at: Timestamp,
}

/// `POST /v1/workers/{id}/handoffs`: documents a worker's work for another one that continues it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateHandoff {
    /// Absolute folder for the files; if absent, that in the state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub handoffs_dir: Option<PathBuf>,
    /// Git's report on the worker's folder. The caller provides it, because the daemon runs nothing
    /// in a worker's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceStatus>,
    /// Another agent's summary of the worker, at most 16 KiB. It is quoted in a separate section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Git's report on a worker's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum WorkspaceStatus {
    /// Git has reported the status.
    Known {
        /// The checked-out commit; absent before the first one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<String>,
        /// Differences from that commit.
        changes: Vec<WorkspaceChange>,
        /// Whether there are more changes than these.
        #[serde(default)]
        truncated: bool,
    },
    /// The status is not known.
    Unknown {
        /// The reason, as part of a sentence.
        unknown: String,
    },
}

/// A path that differs from the last commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkspaceChange {
    /// The two letters of git's short status.
    pub status: String,
    /// Relative to the worker's folder if inside it, otherwise absolute.
    pub path: String,
}

/// Data of the response `worker.handoff.ready`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HandoffReady {
    /// Id of the snapshot.
    pub snapshot_id: SnapshotId,
    /// Id of the source worker.
    pub worker_id: WorkerId,
    /// Path of the document for the next worker.
    pub handoff_path: String,
    /// Path of the file for programs.
    pub checkpoint_path: String,
    /// The worker's last turn.
    pub source_turn_id: Option<TurnId>,
}

/// `POST /v1/workers/{id}/restart`: starts another runtime for a worker, with the same session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RestartWorker {
    /// Restart even if a turn is open; it is canceled.
    #[serde(default)]
    pub force: bool,
    /// Restart although the worker's place does not answer: the old agent may go on there. It is ended
    /// when that place gets the new one.
    #[serde(default, rename = "acceptDuplicate", skip_serializing_if = "std::ops::Not::not")]
    pub accept_duplicate: bool,
    /// The agent's whole environment, as in `worker start`, after `ENV_REQUIRED`. Used only if the
    /// daemon has none, and not part of the request's fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<(Bytes64, Bytes64)>>,
    /// The agent's MCP servers, sent with `env`.
    #[serde(default, skip_serializing_if = "McpServers::is_empty")]
    pub mcp_servers: McpServers,
}
