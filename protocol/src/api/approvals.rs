//! Permission requests: the open ones, and decisions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::ApprovalOption;
use crate::ids::{EventId, RequestId, TurnId, WorkerId};
use crate::state::{ApprovalStatus, WorkerState};
use crate::time::Timestamp;

/// `POST /v1/workers/{id}/approvals/{requestId}`: decides. The first of option id, alias and decision counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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

/// A permission request, as `GET /v1/workers/{id}/approvals` lists the pending ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    /// What it is asked for, as far as the request itself says: `toolCallId`, `command`, `rawInput`, `content`,
    /// `locations`, as in a tool call's `progress.update`.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub tool_call: Map<String, Value>,
}
