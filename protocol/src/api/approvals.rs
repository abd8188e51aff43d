//! Permission requests: the open ones, and decisions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{OwnerRule, RuleScope};
use crate::event::ApprovalOption;
use crate::ids::{EventId, RequestId, TurnId, WorkerId};
use crate::secret::Secret;
use crate::state::{ApprovalStatus, ElicitationAction, QuestionKind, WorkerState};
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
    /// The decision becomes a rule, for this worker or all of its controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<RuleScope>,
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
    /// The rule that the decision became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<OwnerRule>,
}

/// `POST /v1/workers/{id}/elicitations/{requestId}`: answers an elicitation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// What to answer.
    pub action: ElicitationAction,
    /// With `accept`: the values of the form's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub content: Option<Secret<Map<String, Value>>>,
    /// The same as words, a field and its value each; the form says of which type they are. A list is given by naming
    /// its field several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Vec<String>>>))]
    pub set: Option<Secret<Vec<(String, String)>>>,
}

/// Data of `elicitation.answered`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ElicitationAnswered {
    /// The worker.
    pub worker_id: WorkerId,
    /// The elicitation.
    pub request_id: RequestId,
    /// What was answered.
    pub action: ElicitationAction,
    /// The worker's state now.
    pub state: WorkerState,
    /// The `elicitation.answered` event.
    pub event_id: EventId,
    /// `delivered`, `undelivered` or `pending` (not confirmed in time; it will be).
    pub delivery: String,
}

/// A question that is open, as `worker show` names it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    /// Its id.
    pub request_id: RequestId,
    /// Whether `approve` answers it, or `answer`.
    pub kind: QuestionKind,
    /// What for, in one line.
    pub message: String,
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
    /// `tool.call`, or `elicitation`.
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
    /// `locations`, as in a tool call's `progress.update`; of an elicitation what its event has: `mode`, `schema`, `url`.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub tool_call: Map<String, Value>,
}
