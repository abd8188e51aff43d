//! The inbox: open questions of all workers, their decisions, and rules created from decisions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Error;
use crate::api::ApprovalDecided;
use crate::event::ApprovalOption;
use crate::ids::{ControllerId, InstanceId, RequestId, RuleId, TurnId, WorkerId};
use crate::policy::PolicyRule;
use crate::state::{ApprovalStatus, QuestionKind, words};
use crate::time::Timestamp;

/// Maximum deadline of a question in milliseconds: one year.
pub const MAX_WAIT_MS: u64 = 366 * 86_400_000;

words! {
    /// What happens to a question without a decision in time.
    OnTimeout {
        /// The question is denied; an elicitation is declined.
        Deny = "deny",
        /// Its turn is canceled.
        Cancel = "cancel",
    }
}

words! {
    /// What decided a question.
    DecidedBy {
        /// The owner, or a process with its permission.
        Owner = "owner",
        /// A rule of the owner.
        Rule = "rule",
        /// A hook of the worker.
        Hook = "hook",
        /// The deadline of the question.
        Deadline = "deadline",
        /// The cancel of its turn.
        Cancel = "cancel",
    }
}

words! {
    /// The scope of a rule created from a decision.
    RuleScope {
        /// Only the worker that asked.
        Worker = "worker",
        /// All workers of its controller, including later ones.
        Controller = "controller",
    }
}

/// The deadline of a worker's questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AnswerTime {
    /// Time from the question to its deadline in milliseconds, from 1 to one year.
    pub timeout_ms: u64,
    /// What happens at the deadline.
    pub on_timeout: OnTimeout,
}

/// A question in one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InboxItem {
    /// Id of the question.
    pub request_id: RequestId,
    /// The worker that asks.
    pub worker_id: WorkerId,
    /// Name of the worker.
    #[serde(default)]
    pub name: String,
    /// Label of the worker.
    pub label: String,
    /// For a task: the names from the root to it; absent for other workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<String>,
    /// Controller of the worker.
    pub controller_id: ControllerId,
    /// The turn that asks.
    pub turn_id: Option<TurnId>,
    /// Whether `approve` or `answer` answers it.
    pub kind: QuestionKind,
    /// The kind of the tool, in ACP's terms; null for an elicitation, or if the agent
    /// does not report it.
    pub tool_kind: Option<String>,
    /// The subject in one line: the command, the path, the address, the tool, or
    /// the agent's own text.
    pub subject: String,
    /// Status of the question.
    pub status: ApprovalStatus,
    /// Time of the question.
    pub created_at: Timestamp,
    /// The deadline without another decision.
    pub deadline_at: Option<Timestamp>,
    /// What happens at the deadline.
    pub on_timeout: Option<OnTimeout>,
    /// The rule that requires the question, as `policy` of `approval.decided`; its `rule` is null
    /// if no rule matches. Null if the worker has no rules.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub rule: Option<Value>,
}

/// Data of the response `inbox.listed`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Inbox {
    /// The open questions, oldest first.
    pub items: Vec<InboxItem>,
    /// Number of the questions.
    pub count: usize,
}

/// What decided a question, when and how; `decidedBy` of `APPROVAL_NOT_PENDING`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Decider {
    /// The kind of decider.
    pub by: DecidedBy,
    /// The ownership, if the decision came with its handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<InstanceId>,
    /// The controller of the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_id: Option<ControllerId>,
    /// Time of the decision.
    pub at: Timestamp,
    /// The decision as given; the action for an elicitation.
    pub decision: String,
    /// The rule, as `policy` of `approval.decided`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub rule: Option<Value>,
}

/// Data of the response `approval.shown`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ApprovalShown {
    /// The question in short.
    #[serde(flatten)]
    pub item: InboxItem,
    /// The question as a sentence.
    pub message: String,
    /// Working folder of the worker.
    pub cwd: String,
    /// The possible answers, in order.
    pub options: Vec<ApprovalOption>,
    /// The agent's data, as in `approval.requested` and `elicitation.requested`: `command`,
    /// `rawInput`, `content` (with differences), `locations`, `schema`, `url`, `sessionId`, ...
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub request: Map<String, Value>,
    /// What decided it; null while it is open.
    pub decided_by: Option<Decider>,
    /// Commands that answer it; empty after its end.
    pub answers: Vec<String>,
    /// The rule that `--always` creates from an answer that allows it; absent if no
    /// rule matches exactly this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_rule: Option<String>,
}

/// The form or link of an elicitation in [`ApprovalShown::request`], as the agent sent it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ElicitationForm {
    /// The way in which the agent asks: `form` or `url`.
    pub mode: Value,
    /// The JSON Schema of the form.
    pub schema: Value,
    /// The address of the link.
    pub url: Value,
}

impl ElicitationForm {
    /// Reads the parts of a request; a missing part is null.
    #[must_use]
    pub fn of(request: &Map<String, Value>) -> Self {
        Self::deserialize(request).unwrap_or_default()
    }
}

/// `POST /v1/workers/{id}/approvals`: decides all open permission requests of a worker.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DecideAll {
    /// An alias or id that fits an option of each, or a synonym of allow or deny.
    pub decision: String,
    /// A note for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The result for one of several permission requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DecidedOne {
    /// Id of the permission request.
    pub request_id: RequestId,
    /// The response as for a single one; null if it was not decided.
    pub decided: Option<ApprovalDecided>,
    /// Why it was not decided.
    pub error: Option<Error>,
}

/// Data of the response `approvals.decided`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AllDecided {
    /// Each request that was open, oldest first.
    pub items: Vec<DecidedOne>,
    /// Number of the requests.
    pub count: usize,
    /// Number of decided requests.
    pub decided: usize,
}

/// A rule created from a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerRule {
    /// Id of the rule.
    pub rule_id: RuleId,
    /// The fields of the rule.
    #[serde(flatten)]
    pub rule: PolicyRule,
    /// The scope of the rule.
    pub scope: RuleScope,
    /// The controller of the rule.
    pub controller_id: ControllerId,
    /// The worker; null if it applies to the whole controller.
    pub worker_id: Option<WorkerId>,
    /// The decision that created it.
    pub request_id: RequestId,
    /// Time of its creation.
    pub created_at: Timestamp,
}

/// Data of the response `policy.rules`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OwnerRules {
    /// The rules, in order of creation.
    pub items: Vec<OwnerRule>,
    /// Number of the rules.
    pub count: usize,
}
