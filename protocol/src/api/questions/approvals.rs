//! Permission requests: listing open ones, and decisions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::{OwnerRule, RuleScope};
use crate::event::ApprovalOption;
use crate::ids::{EventId, RequestId, TurnId, WorkerId};
use crate::secret::Secret;
use crate::state::{ApprovalStatus, ElicitationAction, QuestionKind, WorkerState};
use crate::time::Timestamp;

/// `POST /v1/workers/{id}/approvals/{requestId}`: decides a request. Option id precedes
/// alias, which precedes decision.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Decide {
    /// An option's alias or id, or a synonym of allow or deny.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The id of the chosen option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// The alias of the chosen option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// A note for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Turns the decision into a rule, for this worker or all of its controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<RuleScope>,
}

/// Data of the response `approval.decided`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecided {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Id of the permission request.
    pub request_id: RequestId,
    /// The decision as it was given.
    pub decision: String,
    /// Id of the selected option.
    pub option_id: String,
    /// Alias of the selected option.
    pub alias: Option<String>,
    /// The worker's state after the decision.
    pub state: WorkerState,
    /// Id of the `approval.decided` event.
    pub event_id: EventId,
    /// `delivered`, `undelivered` or `pending` (not confirmed in time; it will be).
    pub delivery: String,
    /// The rule created from the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always: Option<OwnerRule>,
}

/// `POST /v1/workers/{id}/elicitations/{requestId}`: answers an elicitation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The kind of answer.
    pub action: ElicitationAction,
    /// With `accept`: the values of the form's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub content: Option<Secret<Map<String, Value>>>,
    /// The same as text: pairs of a field and its value. The form defines their types. A list is
    /// given by repeating its field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Vec<String>>>))]
    pub set: Option<Secret<Vec<(String, String)>>>,
}

/// Data of the response `elicitation.answered`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ElicitationAnswered {
    /// Id of the worker.
    pub worker_id: WorkerId,
    /// Id of the elicitation.
    pub request_id: RequestId,
    /// The action that was sent.
    pub action: ElicitationAction,
    /// The worker's state after the answer.
    pub state: WorkerState,
    /// Id of the `elicitation.answered` event.
    pub event_id: EventId,
    /// `delivered`, `undelivered` or `pending` (not confirmed in time; it will be).
    pub delivery: String,
}

/// An open question, as listed in `worker show`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    /// Id of the question.
    pub request_id: RequestId,
    /// Whether `approve` or `answer` answers it.
    pub kind: QuestionKind,
    /// The subject, in one line.
    pub message: String,
}

/// A permission request, as `GET /v1/workers/{id}/approvals` lists the pending ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingApproval {
    /// Id of the permission request.
    pub request_id: RequestId,
    /// The turn that asks.
    pub turn_id: Option<TurnId>,
    /// `tool.call` or `elicitation`, as text.
    pub kind: String,
    /// The subject, in one line.
    pub message: String,
    /// The possible answers, in order.
    pub options: Vec<ApprovalOption>,
    /// Status of the request.
    pub status: ApprovalStatus,
    /// Time of the request.
    pub created_at: Timestamp,
    /// The subject as far as the request contains it: `toolCallId`, `command`, `rawInput`,
    /// `content`, `locations`, as in a tool call's `progress.update`. For an elicitation, the
    /// fields of its event: `mode`, `schema`, `url`.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub tool_call: Map<String, Value>,
}
